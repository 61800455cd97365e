"""The cost of weekdays and of the last days of months, compared with other days."""

from calendar import monthrange
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import field
from datetime import date, timedelta
from statistics import median

from gpucost.questions.budget.smoothing import MAD_TO_SIGMA, Daily
from gpucost.records import frozen_dataclass

_HALF_A_WEEK = 3
_LEAST_AROUND = 4
_LEAST_OF_WEEKDAY = 2
# A weekday under this factor gives no level.
LEAST_FACTOR = 0.05

# The last days of a month, the days before and after that they are compared with, and the months that have to agree.
_LAST_DAYS, _WEEK, LEAST_MONTHS = 5, 7, 2
_LEAST_DAYS_AROUND = 3
# Their least deviation in standard deviations; equal days have no spread.
_LEAST_SCORE, _LEAST_SPREAD = 3.0, 0.02


@frozen_dataclass
class Seasons:
    """Cost factors by weekday (0 is Monday) and by days before a month's last day; 1 is a usual day."""

    weekdays: Mapping[int, float]
    month_ends: Mapping[int, float] = field(default_factory=dict)

    def factor(self, day: date) -> float:
        """The cost of the day ÷ the level."""
        return self.weekdays[day.weekday()] * self.month_ends.get(days_left(day), 1.0)


def days_left(day: date) -> int:
    """The days of its month after `day`."""
    return monthrange(day.year, day.month)[1] - day.day


def weekday_factors(costs: Daily) -> dict[int, float]:
    """By weekday, the median of each day's cost ÷ the median of the week around it; 1 with fewer than two such days."""
    ratios = defaultdict(list)
    for day, cost in costs.items():
        week = (day + timedelta(days=off) for off in range(-_HALF_A_WEEK, _HALF_A_WEEK + 1))
        around = [costs[near] for near in week if near in costs]
        usual = median(around)
        if len(around) >= _LEAST_AROUND and usual > 0:
            ratios[day.weekday()].append(cost / usual)
    return {day: median(ratios[day]) if len(ratios[day]) >= _LEAST_OF_WEEKDAY else 1.0 for day in range(7)}


def month_end_factors(costs: Daily, weekdays: Mapping[int, float]) -> dict[int, float]:
    """By days before a month's last day, for its last five days, the median of their cost ÷ that of the weeks around.

    Only days that deviate by over three standard deviations, in one direction, in at least two months and in all known months.
    """
    usual = levels(costs, Seasons(weekdays))
    ratios = defaultdict(list)
    for day, level in usual.items():
        left = days_left(day)
        if left >= _LAST_DAYS:
            continue
        end = day + timedelta(days=left + 1)
        before = [usual[near] for near in _week(end - timedelta(days=_LAST_DAYS + _WEEK)) if near in usual]
        after = [usual[near] for near in _week(end) if near in usual]
        if min(len(before), len(after)) < _LEAST_DAYS_AROUND:
            continue
        early, late = median(before), median(after)
        middle = (early + late) / 2
        if not middle:
            continue
        around = [abs(near - early) for near in before] + [abs(near - late) for near in after]
        limit = _LEAST_SCORE * max(MAD_TO_SIGMA * median(around), _LEAST_SPREAD * middle)
        above = [level - early, level - late]
        ratios[left].append((level / middle, min(above) > limit or max(above) < -limit))
    return {
        left: median(ratio for ratio, _ in months)
        for left, months in ratios.items()
        if len(months) >= LEAST_MONTHS
        and all(strays for _, strays in months)
        and len({ratio > 1 for ratio, _ in months}) == 1
    }


def _week(first: date) -> list[date]:
    return [first + timedelta(days=count) for count in range(_WEEK)]


def levels(costs: Daily, seasons: Seasons) -> dict[date, float]:
    """Costs without their day's factor, in order, of the days with a level."""
    return {
        day: cost / factor
        for day, cost in sorted(costs.items())
        if (factor := seasons.factor(day)) > LEAST_FACTOR
    }
