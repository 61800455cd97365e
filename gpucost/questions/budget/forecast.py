"""What the month will cost, and within which range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from gpucost.errors import GpucostError
from gpucost.options import WHOSE, Names, Option
from gpucost.periods import local_days
from gpucost.questions.budget.days import BOUGHT, LEVELS, chosen_month, costs_by_day, known_days
from gpucost.questions.report.query import nearest
from gpucost.questions.request import MonthRequest
from gpucost.render.schema import table as as_table
from gpucost.render.view import Document, Table, count, money, text

if TYPE_CHECKING:
    from gpucost.questions.budget.projection import CostSeries, Days, Forecast

_METHOD = (
    "Each day that is missing costs what the level of the last eight weeks and its weekday let expect. "
    "Four in five months end within the range."
)


def forecast(
    request: MonthRequest,
    team: Annotated[Names, Option("Only this team; repeatable.", "NAME", panel=WHOSE, completes="team")] = (),
) -> Document:
    """Show what the month will come to, by team and for the whole fleet, and within which range.

    Each day that is missing costs what the level and the trend of the last eight weeks and its weekday let expect; the range
    comes from how far days stray from that (docs/budgets.md). Without --month: the current month, or the newest with data.

    \b
    Examples:
      gpucost forecast
      gpucost forecast --month 2026-10 --team research
      gpucost forecast --format json
    """
    from gpucost.questions.budget.outlook import RANGE
    from gpucost.questions.budget.projection import HISTORY_DAYS, ForecastAnswer, ForecastRow
    from gpucost.questions.budget.projection import forecast as foretell

    settings = request.settings
    period, period_name = chosen_month(request)
    view, days = costs_by_day(request, period)
    month_days = tuple(local_days(period, request.tz))
    chosen = _chosen(days, team)
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
    return Document(
        title=f"Forecast: {', '.join(team) or 'all teams'}, {period_name.removesuffix(' so far')}",
        subtitle=known_days(days, month_days),
        currency=settings.currency,
        sections=(_forecast_table(rows, BOUGHT if view.totals_api else ""),),
        coverage=view.coverage,
        name="forecast",
        data=whole,
        flat=([*columns, "currency"], [[*line, settings.currency] for line in lines]),
    )


def _chosen(days: Days, teams: Names) -> list[CostSeries]:
    """The costs by day of the teams that are named, otherwise of all, of unallocated GPUs and of the fleet."""
    from gpucost.questions.budget.projection import CostSeries

    known = {series.team: series for series in days.costs if series.level == "team"}
    for name in teams:
        if name not in known:
            near = ", ".join(nearest(name, [one for one in known if one])[:8])
            raise GpucostError(
                f"no team {name!r} held GPUs or bought tokens in these weeks",
                f"--team takes one of: {near}" if near else None,
            )
    return [known[name] for name in teams] or [
        *known.values(),
        CostSeries("unallocated"),
        CostSeries("fleet"),
    ]


def _forecast_table(rows: list[Forecast], more: str) -> Table:
    return Table.of(
        "What the month will come to",
        rows,
        (
            text(lambda row: row.series.team or LEVELS[row.series.level], "Team"),
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
