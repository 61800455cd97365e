"""What weekdays and the last days of months cost beside other days."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import date, timedelta
from statistics import median

_HALF_A_WEEK = 3
_LEAST_AROUND = 4
_LEAST_OF_WEEKDAY = 2
# Of a day that costs next to nothing in most weeks, the level cannot be told.
LEAST_FACTOR = 0.05


def weekday_factors(known: Mapping[date, float]) -> dict[int, float]:
    """By weekday the median of each day's cost over the median of the week around it; 1 where fewer than two such days tell."""
    ratios: dict[int, list[float]] = defaultdict(list)
    for day, cost in known.items():
        week = (day + timedelta(days=off) for off in range(-_HALF_A_WEEK, _HALF_A_WEEK + 1))
        around = [known[near] for near in week if near in known]
        usual = median(around)
        if len(around) >= _LEAST_AROUND and usual > 0:
            ratios[day.weekday()].append(cost / usual)
    return {day: median(ratios[day]) if len(ratios[day]) >= _LEAST_OF_WEEKDAY else 1.0 for day in range(7)}


def levels(known: Mapping[date, float], factors: Mapping[int, float]) -> dict[date, float]:
    """Costs without their weekday's factor, in order, of the days that tell the level."""
    return {
        day: cost / factor
        for day, cost in sorted(known.items())
        if (factor := factors[day.weekday()]) > LEAST_FACTOR
    }
