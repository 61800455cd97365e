"""The forecast cost of days: levels that may continue, weekdays, and the range."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from math import pi, sqrt
from statistics import NormalDist, median

from gpucost.questions.budget.seasons import (
    LEAST_MONTHS,
    Seasons,
    days_left,
    levels,
    month_end_factors,
    weekday_factors,
)
from gpucost.questions.budget.smoothing import Daily
from gpucost.questions.budget.steps import Course, courses
from gpucost.questions.report.rows import MICRO
from gpucost.records import frozen_dataclass
from gpucost.whatif.spot.formulas import bisected

# Forecasts and patterns use the last eight weeks: eight of each weekday.
HISTORY_DAYS = 56
# Four in five months end within the range: the normal distribution's 10 % and 90 %.
RANGE = 0.8
_Z = 1.2816
# The spread of a weekday without data.
_UNSEEN = 0.3
_NEIGHBORS = 5
# The variance of the median of several days ÷ the variance of their mean.
_MEDIAN = pi / 2


@frozen_dataclass
class Growth:
    """Growth in percent a month, from the day after `until`, the end of a month; the trend of the level ends there."""

    percent: float
    until: date

    def factor(self, day: date) -> float:
        """The growth of a level from `until` to the day."""
        months = (day.year - self.until.year) * 12 + day.month - self.until.month
        return float((1 + self.percent / 100) ** max(months, 0))


@frozen_dataclass
class Outlook:
    """Possible costs of days: `recent` are costs by day, `courses` the levels that may continue, the likeliest first."""

    recent: Daily
    seasons: Seasons
    courses: tuple[Course, ...]
    growth: Growth | None = None

    @classmethod
    def of(cls, history: Daily, growth: Growth | None = None) -> Outlook:
        """The outlook from at least one day: levels and weekdays from the last HISTORY_DAYS, ends of months from all days."""
        recent = dict(list(history.items())[-HISTORY_DAYS:])
        weekdays = weekday_factors(recent)
        seasons = Seasons(weekdays, month_end_factors(history, weekdays))
        usual = levels(recent, seasons) or dict.fromkeys(list(recent)[-1:], 0.0)
        return cls(recent, seasons, courses(usual), growth)

    def costs(self, course: Course, missing: Sequence[date]) -> dict[date, float]:
        """Costs of the missing days. A gap before the last known day has the median level of the nearest known days."""
        last, usual = max(self.recent), levels(self.recent, self.seasons)
        until = self.growth.until if self.growth else missing[-1]
        path = [course.level.level, *course.level.ahead((missing[-1] - last).days)]
        foretold = {}
        for day in missing:
            if day > last:
                at = path[max(0, (min(day, until) - last).days)]
            else:
                near = sorted(usual, key=lambda other: abs((other - day).days))[:_NEIGHBORS]
                at = median(usual[other] for other in near) if near else 0.0
            foretold[day] = at * self.factor(day)
        return foretold

    def factor(self, day: date) -> float:
        """The cost of the day ÷ the level."""
        return self.seasons.factor(day) * (self.growth.factor(day) if self.growth else 1.0)

    def half_range(self, course: Course, missing: Sequence[date]) -> float:
        """The range of four in five sums around the sum of the missing days, if the course continues."""
        level, seasons, last = course.level, self.seasons, max(self.recent)
        open_days = frozenset(missing)
        after = [last + timedelta(days=count) for count in range(1, (missing[-1] - last).days + 1)]
        weights = [self.factor(day) if day in open_days else 0.0 for day in after]
        trend_days = (self.growth.until - last).days if self.growth else len(after)
        seen = Counter(day.weekday() for day in self.recent)
        wanted = Counter(day.weekday() for day in missing)
        # an average that forgets at rate a is as precise as the mean of (2 - a) / a days
        days_of_level = min(len(level.errors), (2 - level.of_level) / level.of_level)
        shares = [
            sum(carried**2 for carried in level.carried(weights, trend_days)),
            sum(weights) ** 2 / days_of_level,
            sum(seasons.factor(day) ** 2 for day in missing if day < last),
            sum(
                (seasons.weekdays[weekday] * count) ** 2 / seen[weekday]
                for weekday, count in wanted.items()
                if seen[weekday]
            ),
            sum(
                seasons.factor(day) ** 2 / LEAST_MONTHS
                for day in missing
                if days_left(day) in seasons.month_ends
            ),
            sum(weights) ** 2 * _MEDIAN / course.days if course.days else 0.0,
        ]
        unseen = _UNSEEN * level.level * sum(count for weekday, count in wanted.items() if not seen[weekday])
        # Student's t at 90 %, by the first term of its expansion (Abramowitz, Stegun, Handbook, 1964, 26.7.5)
        quantile = _Z + (_Z**3 + _Z) / (4 * max(len(level.errors) - 1, 1))
        return quantile * sqrt(level.sigma**2 * sum(shares) + unseen**2)


def between(
    chances: Sequence[float], middles: Sequence[Decimal], halves: Sequence[Decimal]
) -> tuple[Decimal, Decimal]:
    """The range of four in five sums, if each of the `middles` has its probability in `chances`.

    `halves` are the distances above and below a middle that contain four in five sums. The rest is below and above in equal
    parts.
    """
    if len(middles) == 1:
        return middles[0] - halves[0], middles[0] + halves[0]
    lowest = min(middle - 4 * half for middle, half in zip(middles, halves, strict=True))
    highest = max(middle + 4 * half for middle, half in zip(middles, halves, strict=True))
    width = float(highest - lowest)
    if not width:
        return lowest, highest
    curves = [
        (chance, NormalDist(float(middle - lowest), max(float(half) / _Z, width * 1e-9)))
        for chance, middle, half in zip(chances, middles, halves, strict=True)
    ]

    def end(share: float) -> Decimal:
        """The sum with this share of sums below it."""
        at = bisected(0.0, width, lambda at: sum(chance * curve.cdf(at) for chance, curve in curves) < share)
        return (lowest + Decimal(repr(at))).quantize(MICRO)

    return end((1 - RANGE) / 2), end((1 + RANGE) / 2)
