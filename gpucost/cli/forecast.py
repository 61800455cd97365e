"""`gpucost forecast`: what a month will come to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, output_file
from gpucost.cli._periods import MonthOption
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat

if TYPE_CHECKING:
    from gpucost.budget import Forecast
    from gpucost.report.view import Table

SCHEMA = "gpucost.forecast/1"
_METHOD = (
    "Each day that is missing costs what the level of the last eight weeks and its weekday let expect. "
    "Four in five months end within the range."
)


@handle_errors
def forecast(
    month: MonthOption = None,
    team: Annotated[list[str] | None, typer.Option("--team", metavar="NAME", help="Only this team; repeatable.")] = None,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Show what the month will come to, by team and for the whole fleet, and within which range.

    Each day that is missing costs what the level and the trend of the last eight weeks and its weekday let expect; the range
    comes from how far days stray from that (docs/budgets.md). Without --month: the current month, or the newest with data.

    \b
    Examples:
      gpucost forecast
      gpucost forecast --month 2026-10 --team research
      gpucost forecast --format json
    """
    from datetime import UTC, datetime

    from gpucost.budget import HISTORY_DAYS, Series
    from gpucost.budget import forecast as foretell
    from gpucost.budget.forecast import RANGE
    from gpucost.cli._budget import chosen_month, costs_by_day, forecast_fields, local_days_of, write_answer
    from gpucost.model import iso

    target = output_file(output)
    settings, opened = load(config, store)
    now = datetime.now(UTC)
    period, name = chosen_month(settings, opened, month, now)
    view, days = costs_by_day(settings, opened, period, now)
    month_days = local_days_of(settings, period)
    known = {series.team: series for series in days.costs if series.level == "team"}
    _check_teams(team or [], [name for name in known if name])
    chosen = [known[name] for name in team] if team else [*known.values(), Series("unallocated"), Series("fleet")]
    rows = [foretell(days, series, month_days) for series in chosen]
    rows.sort(key=lambda row: (row.series.level != "team", row.series.level == "fleet", -(row.expected or row.to_date)))
    flat = [{"level": row.series.level, "team": row.series.team, **forecast_fields(row)} for row in rows]
    whole: dict[str, Any] = {
        "schema": SCHEMA,
        "month": f"{month_days[0]:%Y-%m}",
        "from": iso(period.start),
        "to": iso(period.end),
        "currency": settings.currency,
        "method": "damped trend and weekdays",
        "history_days": HISTORY_DAYS,
        "range": RANGE,
        "rows": flat,
    }
    columns = [*flat[0], "currency"]
    lines = [row | {"currency": settings.currency} for row in flat]
    title = f"Forecast: {', '.join(team or ()) or 'all teams'}, {name.removesuffix(' so far')}"
    subtitle = f"{sum(day in days.complete for day in month_days)} of {len(month_days)} days are known"
    write_answer(view, title, subtitle, [_table(rows)], whole, lines, columns, format, target)
    if target:
        note(f"{title}: written to {target}", quiet=quiet)


def _check_teams(wanted: list[str], known: list[str]) -> None:
    from gpucost.errors import GpucostError
    from gpucost.report.query import nearest

    for name in wanted:
        if name not in known:
            near = ", ".join(nearest(name, known)[:8])
            raise GpucostError(f"no team {name!r} held GPUs in these weeks", f"--team takes one of: {near}" if near else None)


def _table(rows: list[Forecast]) -> Table:
    from gpucost.report.view import Column, Line, Table

    lines = [
        Line(
            (
                row.series.team or ("Unallocated" if row.series.level == "unallocated" else "All GPU nodes"),
                row.to_date,
                row.expected,
                row.low,
                row.high,
                float(row.open_days),
                # a month that is known needs no other days
                float(row.history_days) if row.open_days else None,
            ),
            is_sum=row.series.level == "fleet",
        )
        for row in rows
    ]
    return Table(
        "What the month will come to",
        (
            Column("Team", "text"),
            Column("To date", "money", 2),
            Column("Forecast", "money", 2),
            Column("From", "money", 2),
            Column("To", "money", 2),
            Column("Days missing", "hours", 0, weight=1),
            Column("Days used", "hours", 0, weight=2),
        ),
        tuple(lines),
        note=f"{_METHOD} Each line is forecast by itself: they need not add up.",
    )
