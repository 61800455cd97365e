"""`gpucost anomalies`: days on which something cost more, or less, than its own pattern lets expect."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, output_file
from gpucost.cli._periods import FromOption, LastOption, MonthOption, ToOption, parse_period
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat

if TYPE_CHECKING:
    from gpucost.budget import Anomaly
    from gpucost.report.view import Table

SCHEMA = "gpucost.anomalies/1"


class LevelOption(StrEnum):
    """Whose days are looked at."""

    fleet = "fleet"
    unallocated = "unallocated"
    team = "team"
    workload = "workload"


@handle_errors
def anomalies(
    month: MonthOption = None,
    start: FromOption = None,
    end: ToOption = None,
    last: LastOption = None,
    level: Annotated[
        list[LevelOption] | None,
        typer.Option("--level", help="Only days of the fleet, of what nobody held, of teams or of workloads; repeatable."),
    ] = None,
    least: Annotated[float, typer.Option("--min-cost", min=0, help="Least money above or below expectation.")] = 50.0,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
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
    from datetime import UTC, datetime

    from gpucost.budget import anomalies as unusual
    from gpucost.cli._budget import chosen_month, costs_by_day, local_days_of, write_answer
    from gpucost.model import iso

    target = output_file(output)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    chosen = parse_period(settings.tz, now, month=month, start=start, end=end, last=last)
    period, name = chosen or chosen_month(settings, opened, None, now)
    by = ("team", "cluster", "namespace", "workload", "day")
    view, days = costs_by_day(settings, opened, period, now, by)
    wanted = local_days_of(settings, period)
    found = unusual(days, wanted, Decimal(repr(least)))
    if level:
        found = [one for one in found if one.series.level in level]
    rows = [_flat(one, settings.currency) for one in found]
    whole: dict[str, Any] = {
        "schema": SCHEMA,
        "from": iso(period.start),
        "to": iso(period.end),
        "currency": settings.currency,
        "min_cost": least,
        "rows": rows,
    }
    known = sum(day in days.complete for day in wanted)
    title = f"Days that broke their pattern: {name}"
    subtitle = f"{known} of {len(wanted)} days were collected in full and looked at"
    write_answer(view, title, subtitle, [_table(found)], whole, rows, list(_COLUMNS), format, target)
    if target:
        note(f"{title}: written to {target}", quiet=quiet)


_COLUMNS = (
    "level", "day", "team", "cluster", "namespace", "workload", "direction", "cost", "expected_cost", "excess_cost", "score",
    "basis_days", "main_workload", "main_workload_change", "currency",
)  # fmt: skip


_NOTE = (
    "A workload's difference is also in its team's and the fleet's: levels do not add up. Where less was spent, "
    "gpucost explain and gpucost doctor tell whether work ended or metrics are missing."
)


def _flat(one: Anomaly, currency: str) -> dict[str, Any]:
    _, cluster, namespace, workload = one.series.workload or (None, None, None, None)
    part = (one.part.workload[-1], one.part.change) if one.part else (None, None)
    values = (
        one.series.level, one.day, one.series.team, cluster, namespace, workload, one.direction, one.cost, one.expected,
        one.excess, round(one.score, 6), one.basis_days, *part, currency,
    )  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


def _table(found: list[Anomaly]) -> Table:
    from gpucost.report.view import Column, Line, Table

    lines = []
    for one in found:
        _, cluster, namespace, workload = one.series.workload or (None, None, None, None)
        who = workload or one.series.team or ("Unallocated" if one.series.level == "unallocated" else "All GPU nodes")
        where = "/".join(part for part in (cluster, namespace) if part)
        why = f"{one.part.workload[-1]} {one.part.change:+,.0f}" if one.part else ""
        lines.append(Line((f"{one.day:%a} {one.day}", who, where, one.cost, one.expected, one.excess, why, one.score)))
    return Table(
        "Unusual days",
        (
            Column("Day", "text"),
            Column("Whose", "text"),
            Column("Where", "text", weight=1),
            Column("Cost", "money", 2),
            Column("Expected", "money", 2),
            Column("Difference", "money", 2),
            Column("Most of it", "text", weight=2),
            Column("Score", "hours", 1, weight=3),
        ),
        tuple(lines),
        note=_NOTE if lines else None,
    )
