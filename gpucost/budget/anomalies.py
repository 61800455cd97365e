"""Days on which the fleet, a team or a workload cost more than its own pattern lets expect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal

from gpucost.budget.days import BASELINE_DAYS, HISTORY_DAYS, ZERO, Days, Series
from gpucost.budget.robust import MAD_TO_SIGMA, middle

# Iglewicz, Hoaglin, "How to Detect and Handle Outliers" (ASQC, 1993): a modified z-score beyond 3.5 is an outlier.
SCORE = 3.5
# Costs that are the same every day have no spread; what is within a few percent of them is no news.
LEAST_SPREAD = Decimal("0.05")
_OF_WEEKDAY = 4
_OF_ALL = 7


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A day that cost more than expected: `cost` = `expected` + `excess`.

    `score` is the excess in robust standard deviations. The pattern is that of `basis_days` days of the same weekday, or of any
    where too few of it are known.
    """

    series: Series
    day: date
    cost: Decimal
    expected: Decimal
    excess: Decimal
    score: float
    basis_days: int
    same_weekday: bool


def anomalies(days: Days, wanted: Sequence[date], least: Decimal) -> list[Anomaly]:
    """The days of `wanted`, collected in full, on which something cost at least `least` more than expected, the dearest first.

    Expected is the median of the complete days of the same weekday in the BASELINE_DAYS before, if there are four; else of all
    complete days in the HISTORY_DAYS before, if there are seven. Where that is nothing, as of jobs that run now and then, or
    where less is known, there is no pattern to break. Costs stray by 1.4826 times the median absolute deviation, and by no less
    than 5 % of the median.
    """
    complete = frozenset(days.complete)
    found = [
        anomaly
        for series, costs in days.costs.items()
        for day in wanted
        if day in complete and (anomaly := _judged(days, series, costs, day, least))
    ]
    return sorted(found, key=lambda anomaly: (-anomaly.excess, anomaly.day, str(anomaly.series)))


def _judged(days: Days, series: Series, costs: Mapping[date, Decimal], day: date, least: Decimal) -> Anomaly | None:
    cost = costs.get(day, ZERO)
    if not cost or cost < least:
        return None
    known, same_weekday = _before(days, series, day)
    if not known:
        return None
    values = [costs.get(one, ZERO) for one in known]
    expected = middle(values)
    excess = cost - expected
    if not expected or excess <= 0 or excess < least:
        return None
    strays = max(Decimal(MAD_TO_SIGMA) * middle([abs(value - expected) for value in values]), LEAST_SPREAD * expected)
    score = float(excess / strays)
    if score <= SCORE:
        return None
    return Anomaly(series, day, cost, expected, excess, score, len(known), same_weekday)


def _before(days: Days, series: Series, day: date) -> tuple[list[date], bool]:
    begun = days.first(series)
    earlier = [one for one in days.complete if max(begun, day - timedelta(days=BASELINE_DAYS)) <= one < day]
    alike = [one for one in earlier if one.weekday() == day.weekday()]
    if len(alike) >= _OF_WEEKDAY:
        return alike, True
    recent = [one for one in earlier if one >= day - timedelta(days=HISTORY_DAYS)]
    return (recent, False) if len(recent) >= _OF_ALL else ([], False)
