"""A step: the level of daily costs jumps and stays there. After one day it can still be an odd day."""

from collections.abc import Sequence
from math import exp, sqrt
from operator import itemgetter
from statistics import median

from gpucost.questions.budget.smoothing import MAD_TO_SIGMA, Daily, Smoothed, smoothed
from gpucost.records import frozen_dataclass

# Steps are searched in the last four weeks; the level before a step needs at least a week.
_LATEST_DAYS, _LEAST_BEFORE = 28, 7
# Days of the new level.
_TELLING_DAYS = 7
_CANDIDATES = 3
# The least difference of the levels of a step, in standard deviations of their days' mean.
_LEAST_SCORE = 2.5
# One day counts for at most 3.5 standard deviations, which is also the proof that a step needs (Iglewicz, Hoaglin, 1993).
_PROOF = 3.5**2 / 2
_LEAST_SPREAD = 0.01
_LEAST_CHANCE = 0.05
# Below this share of the other level, a step is a difference and not a ratio.
_LEAST_RATIO = 0.05


@frozen_dataclass
class Course:
    """A level of costs and the probability that it continues (0-1). `days`: the days of a new level; None for the old one."""

    level: Smoothed
    chance: float = 1.0
    days: int | None = None


def courses(levels: Daily) -> tuple[Course, ...]:
    """The courses after the likeliest step of the last four weeks, the more likely first; one if no step is likely.

    After one day, a step is at most as likely as an odd day. Each further day halves the chance that it passes.
    """
    level, values, jumps = smoothed(levels), list(levels.values()), []
    for start in range(max(_LEAST_BEFORE, len(levels) - _LATEST_DAYS), len(levels)):
        before, since = values[start] - level.errors[start], values[start : start + _TELLING_DAYS]
        after = median(since)
        spread = MAD_TO_SIGMA * median(map(abs, level.errors[:start]))
        spread = max(spread, _LEAST_SPREAD * max(before, after))
        score = abs(after - before) * sqrt(len(since)) / spread if spread else 0.0
        if score > _LEAST_SCORE:
            jumps.append((score, start, before, after, spread))
    likely = sorted(jumps)[-_CANDIDATES:]
    steps = [_step(levels, level, start, before, after, spread) for _, start, before, after, spread in likely]
    _, new = max(steps, key=itemgetter(0), default=(0.0, Course(level, 0.0)))
    if new.chance < _LEAST_CHANCE:
        return (Course(level),)
    old = Course(level, 1 - new.chance)
    return (new, old) if new.chance > 0.5 else (old, new)


def _step(
    levels: Daily, level: Smoothed, start: int, before: float, after: float, spread: float
) -> tuple[float, Course]:
    """How well a step is proven, and its course: days before it are brought to the new level."""
    is_ratio = before > _LEAST_RATIO * after
    ratio, shift = (after / before, 0.0) if is_ratio else (1.0, after - before)
    moved = {
        day: value if at >= start else value * ratio + shift for at, (day, value) in enumerate(levels.items())
    }
    changed, days = smoothed(moved), len(levels) - start
    proof = _surprise(level.errors, spread)
    proof -= _surprise(changed.errors, spread * max(ratio, _LEAST_RATIO))
    return proof, Course(changed, min(1 / (1 + exp(_PROOF - proof)), 1 - 0.5**days), days)


def _surprise(errors: Sequence[float], spread: float) -> float:
    """How far the days stray in all, by the logarithm of the normal distribution, bounded for each day."""
    return sum(min((error / spread) ** 2 / 2, _PROOF) for error in errors)
