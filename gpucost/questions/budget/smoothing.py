"""The level of daily costs and its trend, followed day by day."""

from collections.abc import Mapping, Sequence
from datetime import date
from math import inf, sqrt
from statistics import median

from gpucost.records import frozen_dataclass

# Costs or levels by day.
Daily = Mapping[date, float]

# Makes the median absolute deviation of a normal distribution its standard deviation:
# Iglewicz, Hoaglin, "How to Detect and Handle Outliers" (ASQC, 1993): 1 / 0.6745.
MAD_TO_SIGMA = 1.4826

# Gardner, McKenzie, "Forecasting Trends in Time Series" (Management Science 31, 1985): a trend goes on, but loses force each day.
DAMPING = 0.97
_RATES = tuple(
    (of_level, of_trend) for of_level in (0.05, 0.1, 0.2, 0.3, 0.5) for of_trend in (0.0, 0.1, 0.3)
)
_FEW_DAYS = 10
_RATES_OF_FEW = ((0.1, 0.0),)
# A rate that follows faster has to fit better by this much: it makes ranges wider.
_COST_OF_RATE, _COST_OF_TREND = 0.1, 0.02
_SETTLING_DAYS = 3
_MOST_ESTIMATED, _LEAST_PER_ESTIMATE = 7, 3
_FAR = 4


@frozen_dataclass
class Smoothed:
    """The level and its trend a day after the last day, the rates they follow at, and how far days strayed from them."""

    level: float
    trend: float
    of_level: float
    of_trend: float
    errors: tuple[float, ...]

    @property
    def sigma(self) -> float:
        """The standard deviation of the errors; those beyond four robust ones count as four.

        Divided by their number less what was estimated from them: a factor for each weekday.
        """
        most = _FAR * MAD_TO_SIGMA * median(map(abs, self.errors)) or inf
        squares = sum(min(abs(error), most) ** 2 for error in self.errors)
        return sqrt(
            squares / (len(self.errors) - min(_MOST_ESTIMATED, len(self.errors) / _LEAST_PER_ESTIMATE))
        )

    def ahead(self, days: int) -> list[float]:
        """The level on each of the `days` after the last, never under zero."""
        level, trend, path = self.level, self.trend, []
        for _ in range(days):
            trend *= DAMPING
            level = max(0.0, level + trend)
            path.append(level)
        return path

    def carried(self, weights: Sequence[float], trend_days: int) -> list[float]:
        """The effect of an error of 1 on each of the days ahead on the sum of these days, weighted by `weights`.

        An error is a day's own and moves the level of all later days: by of_level x (1 + of_trend x (d + d^2 + …)), d the damping
        (Hyndman, Koehler, Ord, Snyder, "Forecasting with Exponential Smoothing", 2008, chapter 6: class 1 models). The trend
        ends after `trend_days`.
        """
        lasting = self.of_trend * DAMPING / (1 - DAMPING)
        later, damped = 0.0, 0.0
        sums = []
        for at in reversed(range(len(weights))):
            moved = later if at >= trend_days else (1 + lasting) * later - lasting * damped
            sums.append(weights[at] + self.of_level * moved)
            later, damped = later + weights[at], DAMPING * (damped + weights[at])
            if at >= trend_days:
                damped = later
        return sums[::-1]


def smoothed(levels: Daily) -> Smoothed:
    """`levels`, in order and at least one, followed at the rates that would have foretold each next day best."""
    rates = _RATES if len(levels) >= _FEW_DAYS else _RATES_OF_FEW
    return min((_followed(levels, *pair) for pair in rates), key=_misfit)


def _followed(levels: Daily, of_level: float, of_trend: float) -> Smoothed:
    """The next day follows the median of the last three, so a jump counts from its second day."""
    days, values = list(levels), list(levels.values())
    level, trend = median(values[:7]), 0.0
    errors = []
    for at, (day, value) in enumerate(levels.items()):
        for _ in range((day - days[at - 1]).days if at else 0):
            trend *= DAMPING
            level += trend
        errors.append(value - level)
        step = of_level * (median(values[max(0, at - 2) : at + 1]) - level)
        level += step
        trend += of_trend * step
    return Smoothed(level, trend, of_level, of_trend, tuple(errors))


def _misfit(curve: Smoothed) -> float:
    settled = curve.errors[min(_SETTLING_DAYS, len(curve.errors) - 1) :]
    return sum(map(abs, settled)) * (
        1 + _COST_OF_RATE * curve.of_level + _COST_OF_TREND * (curve.of_trend > 0)
    )
