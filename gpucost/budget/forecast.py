"""What a month will come to: what was spent, and for each day that is missing what its level and its weekday let expect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from math import sqrt
from statistics import median

from gpucost.budget.days import HISTORY_DAYS, ZERO, Days, Series
from gpucost.budget.smoothing import Smoothed, smoothed
from gpucost.budget.weekdays import levels, weekday_factors

# Four in five months end within the range: the normal distribution's 10 % and 90 %.
RANGE = 0.8
_Z = 1.2816
_LEAST_DAYS = 3
# How far a weekday that was never seen may be from the others.
_UNSEEN = 0.3
_NEIGHBORS = 5
_MICRO = Decimal("0.000000001")


@dataclass(frozen=True, slots=True)
class Forecast:
    """A month's cost to date and at its end, with the range of the latter; None where too few days are known to tell.

    `open_days` are those of the month that are not collected in full, `history_days` those that the forecast was made from.
    """

    series: Series
    to_date: Decimal
    expected: Decimal | None
    low: Decimal | None
    high: Decimal | None
    open_days: int
    history_days: int


def forecast(days: Days, series: Series, month: Sequence[date]) -> Forecast:
    """The forecast of the days of `month`, from the last HISTORY_DAYS complete days of `days` (docs/budgets.md).

    A day ahead costs the smoothed level times its weekday's factor, a day missed in between the median of those around it; a day
    that is partly known at least what is known of it. The range is that of days that stray, of a level that moves, and of factors
    that are not known well. Money to date is exact; what is foretold is computed in floats.
    """
    costs = days.costs.get(series, {})
    complete = frozenset(days.complete)
    to_date = sum((costs.get(day, ZERO) for day in month), ZERO)
    begun = days.first(series)
    nothing_until = max((day for day in days.complete if day < begun), default=date.min)
    open_days = [day for day in month if day not in complete]
    missing = [day for day in open_days if day > nothing_until]
    if not missing:
        return Forecast(series, to_date, to_date, to_date, to_date, len(open_days), 0)
    history = [day for day in days.complete if begun <= day <= month[-1]][-HISTORY_DAYS:]
    if len(history) < _LEAST_DAYS:
        return Forecast(series, to_date, None, None, None, len(open_days), len(history))
    known = {day: float(costs.get(day, ZERO)) for day in history}
    factors = weekday_factors(known)
    level = smoothed(levels(known, factors) or dict.fromkeys(history[-1:], 0.0))
    ahead = [day for day in missing if day > history[-1]]
    foretold = _between(known, factors, missing) | _ahead(level, factors, history[-1], ahead)
    rest = sum((max(ZERO, _money(cost) - costs.get(day, ZERO)) for day, cost in foretold.items()), ZERO)
    half = _money(_quantile(len(level.errors)) * _deviation(level, factors, known, missing))
    expected = to_date + rest
    return Forecast(
        series=series,
        to_date=to_date,
        expected=expected,
        low=max(to_date, expected - half),
        high=expected + half,
        open_days=len(open_days),
        history_days=len(known),
    )


def _ahead(level: Smoothed, factors: Mapping[int, float], last: date, ahead: Sequence[date]) -> dict[date, float]:
    path = level.ahead((ahead[-1] - last).days) if ahead else []
    return {day: path[(day - last).days - 1] * factors[day.weekday()] for day in ahead}


def _between(known: Mapping[date, float], factors: Mapping[int, float], missing: Sequence[date]) -> dict[date, float]:
    """Days missed before the last one known: at the median level of the nearest that are."""
    level = levels(known, factors)
    found = {}
    for day in missing:
        if day < max(known):
            near = sorted(level, key=lambda one: abs((one - day).days))[:_NEIGHBORS]
            found[day] = median(level[one] for one in near) * factors[day.weekday()] if near else 0.0
    return found


def _deviation(level: Smoothed, factors: Mapping[int, float], known: Mapping[date, float], missing: Sequence[date]) -> float:
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
        sum((factors[weekday] * count) ** 2 / seen[weekday] for weekday, count in wanted.items() if seen[weekday]),
    ]
    unseen = _UNSEEN * level.level * sum(count for weekday, count in wanted.items() if not seen[weekday])
    return sqrt(level.sigma**2 * sum(shares) + unseen**2)


def _quantile(errors: int) -> float:
    """Student's t at 90 %, by the first term of its expansion (Abramowitz, Stegun, Handbook, 1964, 26.7.5)."""
    return _Z + (_Z**3 + _Z) / (4 * max(errors - 1, 1))


def _money(value: float) -> Decimal:
    return Decimal(repr(value)).quantize(_MICRO)
