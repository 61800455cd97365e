"""What a month will come to: what was spent, and for each day that is missing what its level and its weekday let expect."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import Field

from gpucost.periods import Period, local_days, local_midnight
from gpucost.questions.budget.seasons import levels, weekday_factors
from gpucost.questions.budget.smoothing import Smoothed, smoothed
from gpucost.questions.report.rows import MICRO, ZERO
from gpucost.records import record
from gpucost.render.view import Coverage
from gpucost.shapes import Shape

if TYPE_CHECKING:
    from gpucost.render.view import ReportView

Level = Literal["fleet", "unallocated", "team", "workload"]

# What buys less for tokens than this share of its cost is forecast without waiting for their bill.
_BUYS = Decimal("0.05")
# Forecasts and patterns of days look back over eight weeks: eight of each weekday.
HISTORY_DAYS = 56


@record
class CostSeries:
    """Whose costs these are. `workload` is (team, cluster, namespace, workload); None for what is none."""

    level: Level
    team: str | None = None
    workload: tuple[str | None, ...] | None = None


@record
class Days:
    """Costs by local day; a day without any is not in `costs`. `complete` are the days collected in full, in order.

    Of the series in `buying` those from `bought_until` on are not, as it is not known yet what tokens were bought.
    """

    all: tuple[date, ...]
    complete: tuple[date, ...]
    costs: dict[CostSeries, dict[date, Decimal]]
    buying: frozenset[CostSeries] = frozenset()
    bought_until: date = date.max

    def complete_of(self, series: CostSeries) -> tuple[date, ...]:
        """The days of which all that `series` cost is known."""
        return (
            tuple(day for day in self.complete if day < self.bought_until)
            if series in self.buying
            else self.complete
        )

    def first(self, series: CostSeries) -> date:
        """The first day on which `series` cost anything; what was before is not its pattern."""
        return min((day for day, cost in self.costs.get(series, {}).items() if cost), default=self.all[0])


def days_of(view: ReportView, tz: ZoneInfo, now: datetime) -> Days:
    """The costs of a report by team and day, or by team, cluster, namespace, workload and day.

    The fleet's are what its nodes cost, GPUs that nobody held or saw included, and bought tokens; where the report is narrowed,
    what its rows cost. A day that was collected and without any node cost nothing; one that any cluster misses a part of is
    unknown, signed or not.
    """
    costs: dict[CostSeries, dict[date, Decimal]] = defaultdict(lambda: defaultdict(lambda: ZERO))
    bought: dict[CostSeries, Decimal] = defaultdict(lambda: ZERO)
    for row in view.rows:
        if row.kind == "shared" or row.keys["day"] is None:
            continue
        day = date.fromisoformat(row.keys["day"])
        cost, team = row.own_cost, row.keys["team"]
        costs[CostSeries("fleet")][day] += cost
        if row.unallocated:
            costs[CostSeries("unallocated")][day] += cost
        if row.unallocated or row.not_collected:
            continue
        costs[CostSeries("team", team)][day] += cost
        for series in (CostSeries("fleet"), CostSeries("team", team)) if row.api else ():
            bought[series] += cost
        if "workload" in row.keys and not row.api:
            named = tuple(row.keys[name] for name in ("team", "cluster", "namespace", "workload"))
            costs[CostSeries("workload", team, named)][day] += cost
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
        {series: dict(of_days) for series, of_days in costs.items()},
        frozenset(
            series for series, cost in bought.items() if cost > _BUYS * sum(costs[series].values(), ZERO)
        ),
        view.api_known_to.astimezone(tz).date() if view.api_known_to else date.max,
    )


# Four in five months end within the range: the normal distribution's 10 % and 90 %.
RANGE = 0.8
_Z = 1.2816
_LEAST_DAYS = 3
# How far a weekday that was never seen may be from the others.
_UNSEEN = 0.3
_NEIGHBORS = 5


@record
class Forecast(Shape):
    """A month's cost to date and at its end, with the range of the latter; None where too few days are known to tell.

    `open_days` are those of the month that are not collected in full, `history_days` those that the forecast was made from.
    """

    series: CostSeries
    to_date: Annotated[Decimal, Field(alias="cost_to_date")]
    expected: Annotated[Decimal | None, Field(alias="forecast")]
    low: Annotated[Decimal | None, Field(alias="forecast_low")]
    high: Annotated[Decimal | None, Field(alias="forecast_high")]
    open_days: int
    history_days: int

    HIDDEN = ("series",)


@record
class ForecastRow(Shape):
    """A forecast and whose it is."""

    level: Level
    team: str | None
    forecast: Forecast

    FLAT = ("forecast",)


@record
class ForecastAnswer(Shape):
    """What `gpucost forecast` prints. `range` is how often the range holds what the month comes to."""

    month: str
    period: Period
    currency: str
    method: str
    history_days: int
    chance: Annotated[float, Field(alias="range")]
    rows: list[ForecastRow]
    coverage: Coverage


def forecast(days: Days, series: CostSeries, month: Sequence[date]) -> Forecast:
    """The forecast of the days of `month`, from the last HISTORY_DAYS complete days of `days` (docs/budgets.md).

    A day ahead costs the smoothed level times its weekday's factor, a day missed in between the median of those around it; a day
    that is partly known at least what is known of it. The range is that of days that stray, of a level that moves, and of factors
    that are not known well. Money to date is exact; what is foretold is computed in floats.
    """
    costs = days.costs.get(series, {})
    known_days = days.complete_of(series)
    complete = frozenset(known_days)
    to_date = sum((costs.get(day, ZERO) for day in month), ZERO)
    begun = days.first(series)
    nothing_until = max((day for day in known_days if day < begun), default=date.min)
    open_days = [day for day in month if day not in complete]
    missing = [day for day in open_days if day > nothing_until]
    if not missing:
        return Forecast(series, to_date, to_date, to_date, to_date, len(open_days), 0)
    history = [day for day in known_days if begun <= day <= month[-1]][-HISTORY_DAYS:]
    if len(history) < _LEAST_DAYS:
        return Forecast(series, to_date, None, None, None, len(open_days), len(history))
    known = {day: float(costs.get(day, ZERO)) for day in history}
    factors = weekday_factors(known)
    level = smoothed(levels(known, factors) or dict.fromkeys(history[-1:], 0.0))
    foretold = _foretold(level, factors, known, missing)
    rest = sum((max(ZERO, as_money(cost) - costs.get(day, ZERO)) for day, cost in foretold.items()), ZERO)
    half = as_money(_quantile(len(level.errors)) * _deviation(level, factors, known, missing))
    expected = to_date + rest
    return Forecast(
        series, to_date, expected, max(to_date, expected - half), expected + half, len(open_days), len(known)
    )


def _foretold(
    level: Smoothed, factors: Mapping[int, float], known: Mapping[date, float], missing: Sequence[date]
) -> dict[date, float]:
    """Costs of the missing days. Those before the last one known are at the median level of the nearest that are."""
    last, usual = max(known), levels(known, factors)
    path = level.ahead((missing[-1] - last).days)
    foretold = {}
    for day in missing:
        if day > last:
            at = path[(day - last).days - 1]
        else:
            near = sorted(usual, key=lambda other: abs((other - day).days))[:_NEIGHBORS]
            at = median(usual[other] for other in near) if near else 0.0
        foretold[day] = at * factors[day.weekday()]
    return foretold


def _deviation(
    level: Smoothed, factors: Mapping[int, float], known: Mapping[date, float], missing: Sequence[date]
) -> float:
    """The standard deviation of the sum of the missing days."""
    last = max(known)
    open_days = frozenset(missing)
    after = [last + timedelta(days=count) for count in range(1, (missing[-1] - last).days + 1)]
    weights = [factors[day.weekday()] if day in open_days else 0.0 for day in after]
    seen, wanted = Counter(day.weekday() for day in known), Counter(day.weekday() for day in missing)
    # an average that forgets at rate a is as good as that of (2 - a) / a days
    days_of_level = min(len(level.errors), (2 - level.of_level) / level.of_level)
    shares = [
        sum(carried**2 for carried in level.carried(weights)),
        sum(weights) ** 2 / days_of_level,
        sum(factors[day.weekday()] ** 2 for day in missing if day < last),
        sum(
            (factors[weekday] * count) ** 2 / seen[weekday]
            for weekday, count in wanted.items()
            if seen[weekday]
        ),
    ]
    unseen = _UNSEEN * level.level * sum(count for weekday, count in wanted.items() if not seen[weekday])
    return sqrt(level.sigma**2 * sum(shares) + unseen**2)


def _quantile(errors: int) -> float:
    """Student's t at 90 %, by the first term of its expansion (Abramowitz, Stegun, Handbook, 1964, 26.7.5)."""
    return _Z + (_Z**3 + _Z) / (4 * max(errors - 1, 1))


def as_money(value: float) -> Decimal:
    """Money that was computed in floats, to 9 decimals."""
    return Decimal(repr(value)).quantize(MICRO)
