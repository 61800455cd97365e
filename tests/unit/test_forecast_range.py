"""How often the range of a forecast holds, and how often a day is called unusual, on simulated fleets of many kinds."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import pytest

from gpucost.questions.budget.patterns import anomalies
from gpucost.questions.budget.projection import CostSeries, Days, forecast

FLEET = CostSeries("fleet")
DAYS, FIRST = 120, 60  # the month begins after sixty days
MONTH = 30


def _levels(kind: str, dice: random.Random, noise: float) -> list[float]:
    """The level of each day, and how far the day strays from it."""
    level, stray, found = 1.0, 0.0, []
    growth, jump_at, jump = (
        dice.choice([0.005, 0.01, 0.02]),
        dice.randrange(20, DAYS - 5),
        dice.choice([0.3, 0.5, 1.5, 2.5]),
    )
    jobs = [0.2] * (DAYS + 10)
    for day in range(DAYS):
        if dice.random() < 0.3:
            cost = dice.expovariate(1 / 0.3)
            for later in range(day, day + dice.randrange(1, 10)):
                jobs[later] += cost
    for day in range(DAYS):
        stray = dice.gauss(0, noise) + (0.8 * stray if kind == "alike" else 0.0)
        level = {
            "walks": level * math.exp(dice.gauss(0, 0.04)),
            "grows": 1 + growth * day,
            "shrinks": max(0.0, 3 - 0.02 * day),
            "jumps": jump if day >= jump_at else 1.0,
            "stops": 0.0 if day >= jump_at else 1.0,
            "jobs": jobs[day],
        }.get(kind, 1.0)
        far = 5 * noise * dice.choice([-1, 1]) if kind == "outliers" and dice.random() < 0.05 else 0.0
        found.append(max(0.0, level * (1 + stray + far)) if kind != "jobs" else level)
    return found


def _fleet(kind: str, dice: random.Random) -> dict[date, Decimal]:
    first = date(2026, 1, 1) + timedelta(days=dice.randrange(365))
    noise, size, weekend = (
        dice.choice([0.03, 0.1, 0.2]),
        dice.choice([100, 1000, 20000]),
        dice.choice([0.4, 1.0]),
    )
    days = [first + timedelta(days=count) for count in range(DAYS)]
    costs = zip(days, _levels(kind, dice, noise), strict=True)
    return {
        day: Decimal(str(round(level * size * (weekend if day.weekday() > 4 and kind != "jobs" else 1), 2)))
        for day, level in costs
    }


def _holds(fleet: dict[date, Decimal], known_days: int, back: int, is_kept: Callable[[], bool]) -> bool:
    days = list(fleet)
    month = days[FIRST : FIRST + MONTH]
    known = {day: fleet[day] for day in days[FIRST - back : FIRST + known_days] if is_kept()}
    told = forecast(
        Days(tuple(days[FIRST - back : FIRST + MONTH]), tuple(known), {FLEET: known}), FLEET, month
    )
    assert told.low is not None
    assert told.high is not None
    return told.low <= sum(fleet[day] for day in month) <= told.high


RANGES = [
    ("steady", 60, 0.78, 0.98), ("gaps", 28, 0.78, 0.97), ("new", 0, 0.78, 0.98), ("steady", 28, 0.78, 0.98),
    ("outliers", 28, 0.78, 0.98), ("alike", 28, 0.68, 0.92), ("grows", 28, 0.66, 0.94), ("shrinks", 28, 0.78, 0.99),
    ("walks", 28, 0.68, 0.90), ("jobs", 28, 0.70, 0.90), ("jumps", 28, 0.60, 0.92), ("stops", 28, 0.60, 0.92),
]  # fmt: skip
UNUSUAL = [
    ("walks", 0.01),
    ("jobs", 0.03),
    ("steady", 0.004),
    ("alike", 0.006),
    ("grows", 0.008),
    ("shrinks", 0.004),
]


def few(cases: Sequence[tuple[Any, ...]], quick: int) -> list[Any]:
    """All but the first few are for the slower suite."""
    return [pytest.param(*case, marks=[pytest.mark.slow] * (at >= quick)) for at, case in enumerate(cases)]


@pytest.mark.parametrize(("kind", "back", "least", "most"), few(RANGES, 1))
def test_four_in_five_months_end_within_the_range(kind: str, back: int, least: float, most: float) -> None:
    dice = random.Random(5)
    found = []
    for known_days in (3, 8, 15, 25):
        fleets = [_fleet(kind, dice) for _ in range(50)]
        hits = [
            _holds(fleet, known_days, back, lambda: kind != "gaps" or dice.random() > 0.2) for fleet in fleets
        ]
        found.append(sum(hits) / len(hits))
    assert least <= sum(found) / len(found) <= most, found


@pytest.mark.ci
def test_over_all_kinds_it_is_four_in_five() -> None:
    dice = random.Random(11)
    kinds = ("steady", "outliers", "alike", "grows", "shrinks", "walks", "jobs", "jumps", "stops")
    hits = [
        _holds(_fleet(kind, dice), known, 28, lambda: True)
        for kind in kinds
        for known in (3, 8, 15, 25)
        for _ in range(15)
    ]
    assert 0.76 <= sum(hits) / len(hits) <= 0.88


@pytest.mark.parametrize(("kind", "most"), few(UNUSUAL, 2))
def test_a_day_like_others_is_rarely_called_unusual(kind: str, most: float) -> None:
    dice = random.Random(3)
    told = []
    for _ in range(60):
        fleet = _fleet(kind, dice)
        days = tuple(fleet)
        told.append(
            len(anomalies(Days(days, days, {FLEET: fleet}), days[FIRST : FIRST + MONTH], Decimal(1), "USD"))
        )
    assert sum(told) / (60 * MONTH) <= most


def test_a_day_that_stands_out_is_found() -> None:
    dice = random.Random(4)
    found = dict.fromkeys((2, 0), 0)
    for factor in found:
        for _ in range(60):
            fleet = _fleet("steady", dice)
            days = tuple(fleet)
            odd = days[dice.randrange(FIRST, FIRST + MONTH)]
            changed = fleet | {odd: fleet[odd] * factor}
            found[factor] += any(
                one.day == odd
                for one in anomalies(Days(days, days, {FLEET: changed}), days[FIRST:], Decimal(1), "USD")
            )
    assert found[2] >= 48
    assert found[0] >= 57


def test_weekdays_that_were_never_seen_widen_the_range() -> None:
    days = [date(2026, 6, 1) + timedelta(days=count) for count in range(12)]
    known = {day: Decimal(100 + count % 2) for count, day in enumerate(days[:5])}  # from Monday to Friday
    told = forecast(Days(tuple(days), tuple(known), {FLEET: known}), FLEET, days)
    assert told.low is not None
    assert told.high is not None
    assert told.low < 12 * 100 < told.high
