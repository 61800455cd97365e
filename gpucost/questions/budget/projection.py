"""The cost of a month: the cost to date, and for each missing day the expected cost by its level and weekday."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from gpucost.periods import local_days, local_midnight
from gpucost.questions.budget.outlook import Growth, Outlook, between
from gpucost.questions.report.rows import MICRO, ZERO
from gpucost.records import frozen_dataclass
from gpucost.render.view import ReportView
from gpucost.shapes import Shape

Level = Literal["fleet", "unallocated", "team", "workload"]

# A series with a smaller share of bought tokens is forecast without waiting for their bill.
_BUYS = Decimal("0.05")


@frozen_dataclass
class CostSeries:
    """The fleet, team or workload that costs belong to."""

    level: Level
    team: str | None = None
    cluster: str | None = None
    namespace: str | None = None
    workload: str | None = None


@frozen_dataclass
class Days:
    """Costs by local day, without days of no cost. `complete` are the days collected in full, in order.

    For the series in `buying`, days from `bought_until` on are incomplete, because the bill of bought tokens is missing.
    """

    all: tuple[date, ...]
    complete: tuple[date, ...]
    costs: Mapping[CostSeries, Mapping[date, Decimal]]
    buying: frozenset[CostSeries] = frozenset()
    bought_until: date = date.max

    def complete_of(self, series: CostSeries) -> tuple[date, ...]:
        """The days with the complete cost of `series`."""
        until = self.bought_until if series in self.buying else date.max
        return tuple(day for day in self.complete if day < until)

    def first(self, series: CostSeries) -> date:
        """The first day with a cost of `series`: the start of its pattern."""
        return min((day for day, cost in self.costs.get(series, {}).items() if cost), default=self.all[0])


def days_of(view: ReportView, tz: ZoneInfo, now: datetime) -> Days:
    """The costs of a report by team and day, or by team, cluster, namespace, workload and day.

    The fleet's cost is that of its nodes, with unallocated and not collected time, and of bought tokens; in a narrowed report, of
    its rows. A collected day without a node costs 0. A day that is incomplete in any cluster is unknown, accepted or not.
    """
    costs: dict[CostSeries, dict[date, Decimal]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    bought: dict[CostSeries, Decimal] = defaultdict(lambda: ZERO)
    for row in view.rows:
        if row.kind == "shared" or row.keys["day"] is None:
            continue
        day, team = date.fromisoformat(row.keys["day"]), row.keys["team"]
        series = [CostSeries("fleet")]
        if row.unallocated:
            series.append(CostSeries("unallocated"))
        elif not row.not_collected:
            series.append(CostSeries("team", team))
            if row.api:
                for buyer in series:
                    bought[buyer] += row.own_cost
            elif "workload" in row.keys:
                named = (row.keys[name] for name in ("cluster", "namespace", "workload"))
                series.append(CostSeries("workload", team, *named))
        for cost_series in series:
            costs[cost_series][day] += row.own_cost
    over = max(now, view.coverage.collected_to or now)
    missing = [gap for gap in view.coverage.gaps if gap.kind in ("not_collected", "partial")]
    every = tuple(local_days(view.period, tz))
    complete = []
    for day in every:
        begin, end = local_midnight(day, tz), local_midnight(day + timedelta(days=1), tz)
        if end <= over and not any(gap.start < end and begin < gap.end for gap in missing):
            complete.append(day)
    return Days(
        every,
        tuple(complete),
        costs,
        frozenset(
            cost_series
            for cost_series, cost in bought.items()
            if cost > _BUYS * sum(costs[cost_series].values(), ZERO)
        ),
        view.api_known_to.astimezone(tz).date() if view.api_known_to else date.max,
    )


_LEAST_DAYS = 3


@frozen_dataclass
class Forecast(Shape):
    """A month's cost to date and at its end, with the range of the latter; None if too few days are known.

    `open_days` are those of the month that are not collected in full.
    """

    to_date: Annotated[Decimal, Field(alias="cost_to_date")]
    expected: Annotated[Decimal | None, Field(alias="forecast")]
    low: Annotated[Decimal | None, Field(alias="forecast_low")]
    high: Annotated[Decimal | None, Field(alias="forecast_high")]
    open_days: int


def forecast(days: Days, series: CostSeries, month: Sequence[date]) -> Forecast:
    """The forecast of the days of one month."""
    return forecasts(days, series, [month])[0]


def forecasts(
    days: Days, series: CostSeries, months: Sequence[Sequence[date]], growth: Growth | None = None
) -> list[Forecast]:
    """The forecasts of `months`, from the complete days of `days` up to the end of the first (docs/budgets.md).

    A day ahead costs the smoothed level times what is usual of its weekday and of the end of a month, a day missed in between the
    median of those around it; a day that is partly known at least what is known of it. The range is that of days that stray, of a
    level that moves or has just jumped, and of factors that are not known well. Money to date is exact; the rest is in floats.
    """
    costs, begun = days.costs.get(series, {}), days.first(series)
    complete = days.complete_of(series)
    history = {day: float(costs.get(day, ZERO)) for day in complete if begun <= day <= months[0][-1]}
    outlook = Outlook.of(history, growth) if len(history) >= _LEAST_DAYS else None
    nothing_until = max((day for day in complete if day < begun), default=date.min)
    collected = frozenset(complete)
    found = []
    for month in months:
        to_date = sum((costs.get(day, ZERO) for day in month), ZERO)
        open_days = [day for day in month if day not in collected]
        missing = [day for day in open_days if day > nothing_until]
        ends: tuple[Decimal | None, Decimal | None, Decimal | None] = (to_date, to_date, to_date)
        if missing and outlook is None:
            ends = (None, None, None)
        elif missing and outlook:
            rest, low, high = _rest(outlook, missing, costs)
            ends = (to_date + rest, to_date + max(ZERO, low), to_date + high)
        found.append(Forecast(to_date, *ends, len(open_days)))
    return found


def _rest(
    outlook: Outlook, missing: Sequence[date], costs: Mapping[date, Decimal]
) -> tuple[Decimal, Decimal, Decimal]:
    """The expected further cost of the days, and its range."""
    rests = []
    for course in outlook.courses:
        foretold = outlook.costs(course, missing).items()
        rests.append(sum((max(ZERO, as_money(cost) - costs.get(day, ZERO)) for day, cost in foretold), ZERO))
    halves = [as_money(outlook.half_range(course, missing)) for course in outlook.courses]
    return rests[0], *between([course.chance for course in outlook.courses], rests, halves)


def as_money(value: float) -> Decimal:
    """Money that was computed in floats, to 9 decimals."""
    return Decimal(repr(value)).quantize(MICRO)
