"""What a month will come to: what was spent, and for each day that is missing what such a weekday costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from itertools import pairwise
from math import pi, sqrt

from gpucost.budget.days import HISTORY_DAYS, ZERO, Days, Series
from gpucost.budget.robust import middle, spread

# Four in five months end within the range, where days vary by themselves: the normal distribution's 10 % and 90 %.
RANGE = 0.8
_Z = 1.2816
_LEAST_DAYS = 3
_LEAST_OF_WEEKDAY = 2
_MOST_LIKENESS = 0.8
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

    A day that is missing costs the median of its weekday, or of all days where the weekday is known only once; a day that is
    partly known at least what is known of it. The range is that of a sum of days that stray by their robust standard deviation,
    and of the medians, whose own error is sqrt(pi / 2) of a mean's. Days stray from the median of the others of their weekday;
    where a day strays as the day before did, the range is wider.
    """
    costs = days.costs.get(series, {})
    complete = frozenset(days.complete)
    to_date = sum((costs.get(day, ZERO) for day in month), ZERO)
    missing = [day for day in month if day not in complete]
    if not missing:
        return Forecast(series, to_date, to_date, to_date, to_date, 0, 0)
    begun = days.first(series)
    history = [day for day in days.complete if begun <= day <= month[-1]][-HISTORY_DAYS:]
    if len(history) < _LEAST_DAYS:
        return Forecast(series, to_date, None, None, None, len(missing), len(history))
    known = {day: costs.get(day, ZERO) for day in history}
    levels = _levels(known)
    rest = sum((max(ZERO, levels[day.weekday()] - costs.get(day, ZERO)) for day in missing), ZERO)
    strays = _strays(known)
    sigma = spread(strays) * _persistence(strays)
    count = len(missing)
    half = Decimal(_Z * sigma * sqrt(count + count * count * (pi / 2) / len(known))).quantize(_MICRO)
    expected = to_date + rest
    return Forecast(
        series=series,
        to_date=to_date,
        expected=expected,
        low=max(to_date, expected - half),
        high=expected + half,
        open_days=count,
        history_days=len(known),
    )


def _strays(known: dict[date, Decimal]) -> list[Decimal]:
    """How far each day is from the median of the others of its weekday: of its own it is too near."""
    found = []
    for day, cost in known.items():
        others = [other for one, other in known.items() if one != day]
        alike = [other for one, other in known.items() if one != day and one.weekday() == day.weekday()]
        found.append(cost - middle(alike if len(alike) >= _LEAST_OF_WEEKDAY else others))
    return found


def _persistence(strays: list[Decimal]) -> float:
    """How many times wider sums of such days stray than if each strayed by itself: sqrt((1 + r) / (1 - r)) of an AR(1) series.

    r is the correlation of a day with the next, in [0, 0.8]: from a month's days it is known too roughly to narrow the range.
    """
    sizes = [float(stray) for stray in strays]
    squares = sum(size * size for size in sizes)
    if not squares:
        return 1.0
    r = sum(one * after for one, after in pairwise(sizes)) / squares
    r = min(max(r, 0.0), _MOST_LIKENESS)
    return sqrt((1 + r) / (1 - r))


def _levels(known: dict[date, Decimal]) -> dict[int, Decimal]:
    by_weekday: dict[int, list[Decimal]] = defaultdict(list)
    for day, cost in known.items():
        by_weekday[day.weekday()].append(cost)
    anyway = middle(list(known.values()))
    return {
        weekday: middle(by_weekday[weekday]) if len(by_weekday[weekday]) >= _LEAST_OF_WEEKDAY else anyway for weekday in range(7)
    }
