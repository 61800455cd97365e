"""`gpucost budget check`: budgets and targets, with an exit code for cron and pipelines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpucost.cli.command import Call, command, option, switch
from gpucost.errors import ConfigError, GpucostError, StoreError, UsageError
from gpucost.periods import Period, local_days, local_midnight, name_of
from gpucost.render.schema import columns_of, to_dict
from gpucost.render.schema import table as as_table
from gpucost.render.view import Document, Notice, Table, Texts, count, figure, money, share, text
from gpucost.report.query import nearest

if TYPE_CHECKING:
    from gpucost.render.view import ReportView
    from gpucost.report.anomalies import AnomalyRow
    from gpucost.report.budget import BudgetState
    from gpucost.report.forecast import Days, Forecast

MISSED = 3
_LEVELS = {"unallocated": "Unallocated", "fleet": "All GPU nodes"}
_BOUGHT = "Bought tokens are part of it, of teams and of all GPU nodes."
_RANKS = ("ok", "warn", "over")


# From which status on the command fails.
FailOn = Literal["warn", "over", "never"]


@command("month * written")
def budget_check(
    call: Call,
    fail_on: Annotated[
        FailOn,
        switch(
            "--fail-on",
            "Exit with 3 where a budget is overspent or a target missed (over), or already where that comes near (warn).",
        ),
    ] = "over",
) -> None:
    """Hold the month against the budgets and targets of [[budgets]]; exit with 3 where one is missed.

    Over: more is spent than the budget, or a target is missed. Warn: the forecast is beyond the budget, or warn_at_percent of it
    (80) is spent. A target on efficiency is unknown, not missed, where too little was measured ([idle] min_measured).

    \b
    Examples:
      gpucost budget check
      gpucost budget check --month 2026-10 --fail-on warn
      gpucost budget check --format json -o budgets.json
    """
    from gpucost.report.budget import BudgetAnswer, check

    settings = call.settings
    if not settings.budgets:
        raise ConfigError(
            f"{settings.path or 'the configuration'} holds no budgets",
            "add [[budgets]] with name, amount and, for a team's, team; docs/budgets.md has all keys",
        )
    period, name = chosen_month(call)
    # first, for its message where the month holds no data
    call.report(period_note=None, with_sections=False, may_be_idle=True)
    view, days = costs_by_day(call, period)
    month_days = tuple(local_days(period, call.tz))
    states = check(settings, view, days, month_days)
    worst = max((state.status for state in states), key=_RANKS.index)
    lines = [
        to_dict(state) | {"reasons": "; ".join(state.reasons), **_target_columns(state)} for state in states
    ]
    for line in lines:
        del line["targets"]
    call.answer(
        Document(
            title=f"Budgets: {name}",
            subtitle=_known(days, month_days),
            currency=settings.currency,
            sections=_tables(states, _BOUGHT if view.totals_api else None),
            coverage=view.coverage,
            name="budget",
            data=BudgetAnswer(
                f"{month_days[0]:%Y-%m}", period, settings.currency, worst, states, view.coverage
            ),
            flat=(list(lines[0]), [list(line.values()) for line in lines]),
        )
    )
    known = [series.team for series in days.costs if series.level == "team" and series.team]
    for state in states:
        if not state.is_seen:
            # of a team that held nothing in the weeks before, either
            others = ""
            if state.team and known and state.team not in known:
                others = f"; there are {', '.join(nearest(state.team, known)[:5])}"
            call.note(
                f"budget {state.name}: no team {state.team!r} held GPUs or bought tokens in {name}{others}"
            )
    counts = {"warn": ("warn", "over"), "over": ("over",), "never": ()}[fail_on]
    failed = [state for state in states if state.status in counts]
    for state in failed:
        call.note(f"budget {state.name}: {'; '.join(state.reasons)}")
    if failed:
        raise typer.Exit(MISSED)


def _target_columns(state: BudgetState) -> dict[str, Any]:
    found = {one.name: one for one in state.targets}
    columns: dict[str, Any] = {}
    for name in ("efficiency", "spot_ratio", "idle_cost_share"):
        for column, field in ((name, "value"), (f"{name}_target", "limit"), (f"{name}_status", "status")):
            columns[column] = getattr(found.get(name), field, None)
    return columns


def _known(days: Days, wanted: Sequence[date]) -> str:
    return f"{sum(day in days.complete for day in wanted)} of {len(wanted)} days are known"


def _tables(states: tuple[BudgetState, ...], note: str | None) -> tuple[Table, ...]:
    """Of those that have any: amounts of money, with a note, and targets."""
    budgets = Table.of(
        "Money",
        [state for state in states if state.amount is not None],
        (
            text("name", "Budget"),
            text(lambda state: state.team or "all GPU nodes", "Team", weight=1),
            money("amount"),
            money("forecast.to_date", "To date"),
            share(
                lambda state: None if state.spent_percent is None else float(state.spent_percent) / 100,
                "Spent",
            ),
            money("forecast.expected", "Forecast"),
            text(_range, "Range", weight=1),
            text(lambda state: state.amount_status or "", "Status"),
        ),
        note=note,
    )
    targets = Table.of(
        "Targets",
        [(state, one) for state in states for one in state.targets],
        (
            text(lambda row: row[0].name, "Budget"),
            text(lambda row: row[0].team or "all GPU nodes", "Team", weight=1),
            text(lambda row: row[1].name.replace("_", " "), "Target"),
            text(lambda row: "at most" if row[1].name == "idle_cost_share" else "at least"),
            share(lambda row: row[1].limit, "Limit"),
            share(lambda row: row[1].value, "Reached"),
            text(lambda row: row[1].status, "Status"),
            text(lambda row: row[1].note or "", weight=1),
        ),
    )
    return tuple(table for table in (budgets, targets) if table.lines)


def _range(state: BudgetState) -> str:
    low, high = state.forecast.low, state.forecast.high
    return "" if low is None or high is None or low == high else f"{low:,.0f} to {high:,.0f}"


_METHOD = (
    "Each day that is missing costs what the level of the last eight weeks and its weekday let expect. "
    "Four in five months end within the range."
)


@command("month team written")
def forecast(call: Call) -> None:
    """Show what the month will come to, by team and for the whole fleet, and within which range.

    Each day that is missing costs what the level and the trend of the last eight weeks and its weekday let expect; the range
    comes from how far days stray from that (docs/budgets.md). Without --month: the current month, or the newest with data.

    \b
    Examples:
      gpucost forecast
      gpucost forecast --month 2026-10 --team research
      gpucost forecast --format json
    """
    from gpucost.report.forecast import HISTORY_DAYS, RANGE, CostSeries, ForecastAnswer, ForecastRow
    from gpucost.report.forecast import forecast as foretell

    settings = call.settings
    period, name = chosen_month(call)
    view, days = costs_by_day(call, period)
    month_days = tuple(local_days(period, call.tz))
    known = {series.team: series for series in days.costs if series.level == "team"}
    for team in call.teams:
        if team not in known:
            near = ", ".join(nearest(team, [name for name in known if name])[:8])
            raise GpucostError(
                f"no team {team!r} held GPUs or bought tokens in these weeks",
                f"--team takes one of: {near}" if near else None,
            )
    chosen = [known[name] for name in call.teams] or [
        *known.values(),
        CostSeries("unallocated"),
        CostSeries("fleet"),
    ]
    rows = [foretell(days, series, month_days) for series in chosen]
    rows.sort(
        key=lambda row: (
            row.series.level != "team",
            row.series.level == "fleet",
            -(row.expected or row.to_date),
        )
    )
    whole = ForecastAnswer(
        f"{month_days[0]:%Y-%m}",
        period,
        settings.currency,
        "damped trend and weekdays",
        HISTORY_DAYS,
        RANGE,
        [ForecastRow(row.series.level, row.series.team, row) for row in rows],
        view.coverage,
    )
    columns, lines = as_table(whole.rows)
    call.answer(
        Document(
            title=f"Forecast: {', '.join(call.teams) or 'all teams'}, {name.removesuffix(' so far')}",
            subtitle=_known(days, month_days),
            currency=settings.currency,
            sections=(_forecast_table(rows, _BOUGHT if view.totals_api else ""),),
            coverage=view.coverage,
            name="forecast",
            data=whole,
            flat=([*columns, "currency"], [[*line, settings.currency] for line in lines]),
        )
    )


def _forecast_table(rows: list[Forecast], more: str) -> Table:
    return Table.of(
        "What the month will come to",
        rows,
        (
            text(lambda row: row.series.team or _LEVELS[row.series.level], "Team"),
            money("to_date"),
            money("expected", "Forecast"),
            money("low", "From"),
            money("high", "To"),
            count("open_days", "Days missing", weight=1),
            # a month that is known needs no other days
            count(lambda row: row.history_days if row.open_days else None, "Days used", weight=2),
        ),
        note=f"{_METHOD} Each line is forecast by itself: they need not add up. {more}".rstrip(),
        is_sum=lambda row: row.series.level == "fleet",
    )


class LevelOption(StrEnum):
    """Whose days are looked at."""

    fleet = "fleet"
    unallocated = "unallocated"
    team = "team"
    workload = "workload"


@command("period * written")
def anomalies(
    call: Call,
    level: Annotated[
        list[LevelOption] | None,
        option(
            "--level",
            f"<{'|'.join(LevelOption)}>",
            "Only days of the fleet, of what nobody held, of teams or of workloads; repeatable.",
        ),
    ] = None,
    least: Annotated[
        float,
        typer.Option("--min-cost", min=0, metavar="MONEY", help="Least money above or below expectation."),
    ] = 50.0,
) -> None:
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
    from gpucost.render.formatting import figure_text
    from gpucost.report.anomalies import AnomaliesAnswer, AnomalyRow
    from gpucost.report.anomalies import anomalies as unusual

    settings = call.settings
    period, name = call.named_period or chosen_month(call)
    view, days = costs_by_day(call, period, ("team", "cluster", "namespace", "workload", "day"))
    wanted = tuple(local_days(period, call.tz))
    found = unusual(days, wanted, Decimal(repr(least)), settings.currency)
    if level:
        found = [one for one in found if one.level in level]
    known = sum(day in days.complete for day in wanted)
    call.answer(
        Document(
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
    )


_NOTE = (
    "A workload's difference is also in its team's and the fleet's: levels do not add up. Where less was spent, "
    "gpucost explain and gpucost doctor tell whether work ended or metrics are missing."
)


def _anomaly_table(found: list[AnomalyRow]) -> Table:
    columns = (
        text(lambda one: f"{one.day:%a} {one.day}", "Day"),
        text(lambda one: one.workload or one.team or _LEVELS[one.level], "Whose"),
        text(lambda one: "/".join(part for part in (one.cluster, one.namespace) if part), "Where", weight=1),
        money("cost"),
        money("expected_cost", "Expected"),
        money("excess_cost", "Difference"),
        text(_due_to, "Mostly due to", weight=2),
        figure(lambda one: f"{one.score:+,.1f}", "Deviations", weight=3),
    )
    return Table.of("Unusual days", found, columns, note=_NOTE if found else None)


def _due_to(one: AnomalyRow) -> str:
    change = one.main_workload_change
    return "" if change is None else f"{one.main_workload} {change:+,.0f}"


def _judgment(days: Days, chosen: Sequence[LevelOption] | None, least: str) -> Texts:
    """What was looked at, and when a day is unusual."""
    from gpucost.report.anomalies import LEVEL_DAYS, SCORE

    counts: Counter[str] = Counter(series.level for series in days.costs)
    kinds = {
        "fleet": "the fleet",
        "unallocated": "unallocated GPUs",
        "team": "{} teams",
        "workload": "{:,} workloads",
    }
    named = [kinds[one].format(counts[one]) for one in kinds if counts[one] and (not chosen or one in chosen)]
    return Texts(
        "How days are judged",
        (
            f"Looked at: {', '.join(named) or 'nothing'}.",
            f"Expected is the median of the {LEVEL_DAYS} days before, times what is usual for the weekday. A day is unusual "
            f"where it is at least {least} off, and more than {SCORE:g} robust standard deviations (docs/budgets.md).",
            "What has run for less than two weeks has no pattern yet.",
        ),
    )


_DAYS_SHOWN = 5


def chosen_month(call: Call) -> tuple[Period, str]:
    """The month asked for, else the current one or the newest with data. Raises UsageError for one that has not begun."""
    period, name, _ = call.chosen
    if period.start > call.now:
        raise UsageError(
            f"{name} has not begun", "a forecast is of the current month; without --month it is taken"
        )
    return period, name


def costs_by_day(
    call: Call, period: Period, by: tuple[str, ...] = ("team", "day")
) -> tuple[ReportView, Days]:
    """Costs of the days of `period` and of eight weeks before it, by `by`, which ends with day; and a report for its coverage.

    That is of `period` alone where any of it was collected: what lies before is no matter of its figures.
    """
    from gpucost.report.forecast import HISTORY_DAYS, days_of

    tz, now, of_all = call.tz, call.now, {"teams": (), "with_sections": False, "may_be_idle": True}
    first = period.start.astimezone(tz).date() - timedelta(days=HISTORY_DAYS + 7)
    window = Period(local_midnight(first, tz), period.end)
    view = call.report(period=window, period_name=name_of(window, tz), by=by, **of_all)
    days = days_of(view, tz, now)
    try:
        view = call.report(period=period, period_name="", may_be_absent=True, **of_all)
    except StoreError:
        raise
    except GpucostError:  # no data in it yet
        pass
    return _with_left_out(view, days, now.astimezone(tz).date()), days


def _with_left_out(view: ReportView, days: Days, today: date) -> ReportView:
    """The report with a word on the days that are over, and were not collected in full, since the first one that was."""
    since = [day for day in days.all if days.complete and days.complete[0] < day < today]
    left_out = [day for day in since if day not in set(days.complete)]
    if not left_out:
        return view
    message = f"{len(left_out):,} of {len(since) + 1:,} days since {days.complete[0]} are left out: not collected in full"
    named = f" ({', '.join(map(str, left_out[:_DAYS_SHOWN]))}{', …' if len(left_out) > _DAYS_SHOWN else ''})"
    warnings = (*view.coverage.warnings, Notice("days_left_out", message + named, None))
    return replace(view, coverage=replace(view.coverage, warnings=warnings))
