"""Days that broke their own pattern, and what did it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from gpucost.options import Option
from gpucost.periods import local_days
from gpucost.questions.budget.days import LEVELS, RECENT_DAYS, chosen_month, costs_by_day
from gpucost.questions.budget.patterns import LEVEL_DAYS, SCORE, AnomaliesAnswer, AnomalyRow
from gpucost.questions.budget.patterns import anomalies as unusual
from gpucost.questions.budget.projection import Days
from gpucost.questions.request import PeriodRequest
from gpucost.render.formatting import figure_text
from gpucost.render.schema import columns_of
from gpucost.render.schema import table as as_table
from gpucost.render.view import Document, Table, Texts, figure, money, text


class LevelOption(StrEnum):
    """Whose days are looked at."""

    fleet = "fleet"
    unallocated = "unallocated"
    team = "team"
    workload = "workload"


def anomalies(
    request: PeriodRequest,
    level: Annotated[
        tuple[LevelOption, ...],
        Option(
            "Only days of the fleet, of what nobody held, of teams or of workloads; repeatable.",
            f"<{'|'.join(LevelOption)}>",
        ),
    ] = (),
    least: Annotated[
        float,
        Option("Least money above or below expectation.", "MONEY", flag="--min-cost", is_shown=True, least=0),
    ] = 50.0,
) -> Document:
    """Show days on which the fleet, a team or a workload broke its own pattern, what it cost, and which workload did most of it.

    Expected is the level of the two weeks before times the weekday's factor; what strays further from it than 3.5 robust standard
    deviations is shown (docs/budgets.md). Less is told of the fleet, of teams and of workloads that are meant to go on: metrics
    may be missing, or something died. Without a period: the current month so far, or the newest month with data.

    \b
    Examples:
      gpucost anomalies
      gpucost anomalies --month 2026-10 --level team --level workload
      gpucost anomalies --last 4w --min-cost 500 --format json
    """
    settings = request.settings
    period, name = request.named_period or chosen_month(request)
    view, days = costs_by_day(
        request, period, ("team", "cluster", "namespace", "workload", "day"), RECENT_DAYS
    )
    wanted = tuple(local_days(period, request.tz))
    found = unusual(days, wanted, Decimal(repr(least)), settings.currency)
    if level:
        found = [one for one in found if one.level in level]
    known = sum(day in days.complete for day in wanted)
    return Document(
        title=f"Days that broke their pattern: {name}",
        subtitle=f"{known} of {len(wanted)} days were collected in full and looked at",
        currency=settings.currency,
        sections=(
            _anomaly_table(found),
            _judgment(days, level, figure_text(least, "money", settings.currency, 2)),
        ),
        coverage=view.coverage,
        name="anomalies",
        data=AnomaliesAnswer(period, settings.currency, least, found, view.coverage),
        flat=as_table(found, columns_of(AnomalyRow)),
    )


_NOTE = (
    "A workload's difference is also in its team's and the fleet's: levels do not add up. Where less was "
    "spent, "
    "gpucost explain and gpucost doctor tell whether work ended or metrics are missing."
)


def _anomaly_table(found: list[AnomalyRow]) -> Table:
    columns = (
        text(lambda one: f"{one.day:%a} {one.day}", "Day"),
        text(lambda one: one.workload or one.team or LEVELS[one.level], "Whose"),
        text(lambda one: "/".join(part for part in (one.cluster, one.namespace) if part), "Where", weight=1),
        money("cost"),
        money("expected_cost", "Expected"),
        money("excess_cost", "Difference"),
        text(
            lambda one: one.main_workload and f"{one.main_workload} {one.main_workload_change:+,.0f}",
            "Mostly due to",
            weight=2,
        ),
        figure(lambda one: f"{one.score:+,.1f}", "Deviations", weight=3),
    )
    return Table.of("Unusual days", found, columns, note=_NOTE if found else None)


def _judgment(days: Days, chosen: Sequence[LevelOption], least: str) -> Texts:
    """What was looked at, and when a day is unusual."""
    counts: Counter[str] = Counter(series.level for series in days.costs)
    kinds = {
        "fleet": "the fleet",
        "unallocated": "unallocated GPUs",
        "team": "{} teams",
        "workload": "{:,} workloads",
    }
    named = [
        text.format(counts[one])
        for one, text in kinds.items()
        if counts[one] and (not chosen or one in chosen)
    ]
    return Texts(
        "How days are judged",
        (
            f"Looked at: {', '.join(named) or 'nothing'}.",
            f"Expected is the median of the {LEVEL_DAYS} days before, times what is usual for the weekday."
            f" A day is unusual "
            f"where it is at least {least} off, and more than {SCORE:g} robust standard deviations "
            f"(docs/budgets.md).",
            "What has run for less than two weeks has no pattern yet.",
        ),
    )
