"""A step: the level of daily costs jumps and stays there. One day after it, it could still be a day that is odd by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from math import exp, sqrt
from statistics import median

from gpucost.questions.budget.smoothing import MAD_TO_SIGMA, Smoothed, smoothed
from gpucost.records import record

# Steps are looked for in four weeks; the level before one is that of at least a week.
_LATEST_DAYS, _LEAST_BEFORE = 28, 7
# How many days tell the new level.
_TELLING_DAYS = 7
_CANDIDATES = 3
# Levels that are apart by fewer standard deviations of their days' mean are no step.
_LEAST_SCORE = 2.5
# One day proves no more than one that strays by 3.5 standard deviations, and as much has to be proven (Iglewicz, Hoaglin, 1993).
_PROOF = 3.5**2 / 2
_LEAST_SPREAD = 0.01
_LEAST_CHANCE = 0.05
# A level under this share of the one it leads to, or comes from, tells no ratio.
_LEAST_RATIO = 0.05


@record
class Step:
    """The level since `day`, and how likely it stays (0-1). `days` are those since then that are known.

    `level` follows the costs of all days, those before `day` brought to the new level.
    """

    day: date
    days: int
    chance: float
    proof: float
    level: Smoothed


def latest_step(levels: Mapping[date, float], level: Smoothed) -> Step | None:
    """The likeliest step of the last four weeks, None where none is likely; `level` follows `levels` without it.

    After one day it is no likelier than that the day is odd. That it passes is half as likely with each further day.
    """
    first = max(_LEAST_BEFORE, len(levels) - _LATEST_DAYS)
    values, jumps = list(levels.values()), []
    for start in range(first, len(levels)):
        before, since = values[start] - level.errors[start], values[start : start + _TELLING_DAYS]
        after = median(since)
        spread = MAD_TO_SIGMA * median(map(abs, level.errors[:start]))
        spread = max(spread, _LEAST_SPREAD * max(before, after))
        score = abs(after - before) * sqrt(len(since)) / spread if spread else 0.0
        jumps.append(_Jump(start, before, after, spread, score))
    likely = sorted(jumps, key=lambda jump: jump.score)[-_CANDIDATES:]
    steps = [_judged(levels, level, jump) for jump in likely if jump.score > _LEAST_SCORE]
    step = max(steps, key=lambda step: step.proof, default=None)
    return step if step and step.chance >= _LEAST_CHANCE else None


@record
class _Jump:
    """The levels before and after a start, the usual spread of days, and how far the levels are apart for that."""

    start: int
    before: float
    after: float
    spread: float
    score: float


def _judged(levels: Mapping[date, float], level: Smoothed, jump: _Jump) -> Step:
    days = len(levels) - jump.start
    is_ratio = jump.before > _LEAST_RATIO * jump.after
    ratio = jump.after / jump.before if is_ratio else 1.0
    shift = 0.0 if is_ratio else jump.after - jump.before
    moved = {
        day: value if at >= jump.start else value * ratio + shift
        for at, (day, value) in enumerate(levels.items())
    }
    changed = smoothed(moved)
    proof = _surprise(level.errors, jump.spread)
    proof -= _surprise(changed.errors, jump.spread * max(ratio, _LEAST_RATIO))
    chance = min(1 / (1 + exp(_PROOF - proof)), 1 - 0.5**days)
    return Step(list(levels)[jump.start], days, chance, proof, changed)


def _surprise(errors: Sequence[float], spread: float) -> float:
    """How far the days stray in all, by the logarithm of the normal distribution, bounded for each day."""
    return sum(min((error / spread) ** 2 / 2, _PROOF) for error in errors)
