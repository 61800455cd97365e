"""The forecast cost of the month, with its range."""

from calendar import monthrange
from datetime import date, timedelta
from itertools import chain
from typing import Annotated

from gpucost.errors import GpucostError
from gpucost.options import WHOSE, Names, Option
from gpucost.periods import Period, local_days
from gpucost.questions.budget.ahead import Ahead, ahead_of
from gpucost.questions.budget.days import BOUGHT, LEVELS, chosen_month, costs_by_day, known_days
from gpucost.questions.budget.outlook import Growth
from gpucost.questions.budget.projection import CostSeries, Days, Forecast, Level, forecasts
from gpucost.questions.budget.scenarios import ScenarioRow
from gpucost.questions.report.query import nearest
from gpucost.questions.request import MonthRequest
from gpucost.records import frozen_dataclass
from gpucost.render.schema import table as as_table
from gpucost.render.view import CoverageAnswer, Document, Table, money, number, text
from gpucost.shapes import Shape
from gpucost.whatif.answer import Assumption

_NOTE = "Four in five months end within the range. Each line has its own forecast, so lines may not add up."


@frozen_dataclass
class ForecastRow(Shape):
    """A forecast for a team or the fleet, of a month (`2026-10`) or of several (`2026-10/2026-12`)."""

    level: Level
    team: str | None
    month: str
    forecast: Forecast

    FLAT = ("forecast",)


@frozen_dataclass
class ForecastAnswer(Shape):
    """The answer of `gpucost forecast`; `scenarios` and their `assumptions` come with --months or --growth."""

    month: str
    period: Period
    currency: str
    growth_percent: float | None
    rows: list[ForecastRow]
    scenarios: list[ScenarioRow]
    assumptions: list[Assumption]
    coverage: CoverageAnswer


def forecast(
    request: MonthRequest,
    months: Annotated[
        int | None,
        Option(
            "Months, including the selected one. Default: 1, with --growth 12.", "COUNT", least=1, most=60
        ),
    ] = None,
    growth: Annotated[
        float | None,
        Option("Growth per month after the first, instead of the trend.", "PERCENT", least=-99, most=1000),
    ] = None,
    team: Annotated[Names, Option("Only this team; repeatable.", "NAME", panel=WHOSE, completes="team")] = (),
) -> Document:
    """Forecast the cost of the month by team and for the whole fleet, with a range.

    The cost of a missing day follows from the level and trend of the last eight weeks, its weekday and the ends of past months.
    The range follows from the deviations of past days; after a step it contains both levels until the new one is confirmed
    (docs/budgets.md). With --months or --growth: each month ahead, and the cost of 1, 1.5 and 10 times the fleet, on
    demand, on spot and under commitments. Default month: the current one, or the newest with data.

    \b
    Examples:
      gpucost forecast
      gpucost forecast --month 2026-10 --team research
      gpucost forecast --months 6
      gpucost forecast --growth 5 --months 12 --format json
    """
    settings = request.settings
    period, period_name = chosen_month(request)
    view, days = costs_by_day(request, period)
    count = months or (1 if growth is None else 12)
    spans = _spans(tuple(local_days(period, request.tz)), count)
    families = {name: (name, *settings.children(name)) for name in team}
    rows = _rows(days, families, spans, None if growth is None else Growth(growth, spans[0][-1]))
    ahead = Ahead()
    if (months or growth is not None) and not team:
        ahead = ahead_of(request, days, growth, count - 1, _name(spans[count - 1]))
    whole = ForecastAnswer(
        month=f"{spans[0][0]:%Y-%m}",
        period=period,
        currency=settings.currency,
        growth_percent=growth,
        rows=rows,
        scenarios=ahead.rows,
        assumptions=ahead.assumptions,
        coverage=view.coverage,
    )
    columns, lines = as_table(whole.rows)
    last = "" if count == 1 else f" to {spans[count - 1][0]:%B %Y}"
    return Document(
        title=f"Forecast: {', '.join(team) or 'all teams'}, {period_name.removesuffix(' so far')}{last}",
        subtitle=known_days(days, spans[0]),
        currency=settings.currency,
        sections=(_forecast_table(rows, f"{_NOTE} {BOUGHT}" if view.totals_api else _NOTE), *ahead.sections),
        coverage=view.coverage,
        name="forecast",
        data=whole,
        flat=([*columns, "currency"], [[*line, settings.currency] for line in lines]),
    )


def _spans(first: tuple[date, ...], count: int) -> list[tuple[date, ...]]:
    """The days of each month, and for several months also of all together."""
    months = [first]
    while len(months) < count:
        begin = months[-1][-1] + timedelta(days=1)
        days = monthrange(begin.year, begin.month)[1]
        months.append(tuple(begin + timedelta(days=day) for day in range(days)))
    return months if count == 1 else [*months, tuple(chain.from_iterable(months))]


def _name(span: tuple[date, ...]) -> str:
    """2026-10, or 2026-10/2026-12 for several months."""
    return "/".join(dict.fromkeys(f"{day:%Y-%m}" for day in (span[0], span[-1])))


def _rows(
    days: Days, families: dict[str, Names], spans: list[tuple[date, ...]], growth: Growth | None
) -> list[ForecastRow]:
    """A row for each month: teams by cost of the first month, then unallocated GPUs and the fleet.

    `families` has the requested teams, each with the teams below it; empty means all.
    """
    series_of_team = {series.team: series for series in days.costs if series.level == "team"}
    for name, members in families.items():
        if series_of_team.keys().isdisjoint(members):
            near = ", ".join(nearest(name, list(filter(None, series_of_team)))[:8])
            raise GpucostError(
                f"no team {name!r} held GPUs or bought tokens in these weeks",
                f"--team takes one of: {near}" if near else None,
            )
    wanted = dict.fromkeys(chain.from_iterable(families.values())) if families else series_of_team
    chosen = [series_of_team[name] for name in wanted if name in series_of_team]
    found = [(series, forecasts(days, series, spans, growth)) for series in chosen]
    found.sort(key=lambda each: each[1][0].expected or each[1][0].to_date, reverse=True)
    if not families:
        every = (CostSeries("unallocated"), CostSeries("fleet"))
        found += [(series, forecasts(days, series, spans, growth)) for series in every]
    rows = []
    for series, months in found:
        for span, row in zip(spans, months, strict=True):
            rows.append(ForecastRow(series.level, series.team, _name(span), row))
    return rows


def _forecast_table(rows: list[ForecastRow], note: str) -> Table:
    month = text(lambda row: row.month.replace("/", " to "), "Month")
    has_several = len({row.month for row in rows}) > 1
    return Table.of(
        "Forecast of the month",
        rows,
        (
            text(lambda row: row.team or LEVELS[row.level], "Team"),
            *([month] if has_several else []),
            money("forecast.to_date", "To date"),
            money("forecast.expected", "Forecast"),
            money("forecast.low", "From"),
            money("forecast.high", "To"),
            number("forecast.open_days", "Days missing", decimals=0, weight=1),
        ),
        note=note,
        is_sum=lambda row: row.level == "fleet",
    )
