"""How often the range of a forecast holds, and how often a day is called unusual, on simulated fleets of many kinds."""

from __future__ import annotations

import math
import random
from datetime import date, timedelta
from decimal import Decimal

import pytest

from gpucost.questions.budget.patterns import anomalies
from gpucost.questions.budget.projection import CostSeries, Days, forecast

FLEET = CostSeries("fleet")
DAYS, FIRST = 120, 60  # the month begins after sixty days
MONTH = 30


def _levels(kind: str, dice: random.Random, noise: float) -> list[float]:
    """The level of each day, and how far the day strays from it."""
    level, stray, found = 1.0, 0.0, []
    growth, jump = dice.choice([0.005, 0.01, 0.02]), dice.choice([0.3, 0.5, 1.5, 2.5])
    jump_at = dice.randrange(20, DAYS - 5)
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
    noise, size = dice.choice([0.03, 0.1, 0.2]), dice.choice([100, 1000, 20000])
    weekend = 1.0 if kind == "jobs" else dice.choice([0.4, 1.0])
    days = [first + timedelta(days=count) for count in range(DAYS)]
    return {
        day: Decimal(str(round(level * size * (weekend if day.weekday() > 4 else 1), 2)))
        for day, level in zip(days, _levels(kind, dice, noise), strict=True)
    }


def _holds(kind: str, dice: random.Random, known_days: int) -> bool:
    """Whether the range holds the month that begins after 28 days of which all are known, and some of the month."""
    fleet = _fleet(kind, dice)
    days = list(fleet)[FIRST - 28 : FIRST + MONTH]
    known = {day: fleet[day] for day in days[: 28 + known_days]}
    told = forecast(Days(tuple(days), tuple(known), {FLEET: known}), FLEET, days[28:])
    assert told.low is not None and told.high is not None
    return told.low <= sum(fleet[day] for day in days[28:]) <= told.high


KINDS = ("steady", "outliers", "alike", "grows", "shrinks", "walks", "jobs", "jumps", "stops")


@pytest.mark.parametrize(
    ("kinds", "fleets", "least", "most"),
    [(("steady",), 50, 0.78, 0.98), pytest.param(KINDS, 15, 0.76, 0.88, marks=pytest.mark.ci)],
)
def test_four_in_five_months_end_within_the_range(
    kinds: tuple[str, ...], fleets: int, least: float, most: float
) -> None:
    dice = random.Random(11)
    hits = [_holds(kind, dice, days) for kind in kinds for days in (3, 8, 15, 25) for _ in range(fleets)]
    assert least <= sum(hits) / len(hits) <= most


def _unusual(fleet: dict[date, Decimal]) -> list[date]:
    """Days of the month that are called so."""
    days = tuple(fleet)
    month = days[FIRST : FIRST + MONTH]
    return [one.day for one in anomalies(Days(days, days, {FLEET: fleet}), month, Decimal(1), "USD")]


@pytest.mark.parametrize(("kind", "most"), [("walks", 0.01), ("jobs", 0.03)])
def test_a_day_like_others_is_rarely_called_unusual(kind: str, most: float) -> None:
    dice = random.Random(3)
    assert sum(len(_unusual(_fleet(kind, dice))) for _ in range(60)) / (60 * MONTH) <= most


@pytest.mark.parametrize(("factor", "least"), [(2, 48), (0, 57)])
def test_a_day_that_stands_out_is_found(factor: int, least: int) -> None:
    dice, found = random.Random(4), 0
    for _ in range(60):
        fleet = _fleet("steady", dice)
        odd = list(fleet)[dice.randrange(FIRST, FIRST + MONTH)]
        found += odd in _unusual(fleet | {odd: fleet[odd] * factor})
    assert found >= least


def test_weekdays_that_were_never_seen_widen_the_range() -> None:
    days = [date(2026, 6, 1) + timedelta(days=count) for count in range(12)]
    known = {day: Decimal(100 + count % 2) for count, day in enumerate(days[:5])}  # from Monday to Friday
    told = forecast(Days(tuple(days), tuple(known), {FLEET: known}), FLEET, days)
    assert told.low is not None and told.high is not None
    assert told.low < 12 * 100 < told.high
