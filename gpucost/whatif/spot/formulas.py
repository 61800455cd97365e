"""Work on spot, in closed forms: its cost, its time, and the rates at which it pays."""

from __future__ import annotations

import math
from collections.abc import Callable

from gpucost.records import record

# Rates that break-evens are looked for in, interruptions per node-hour: one in a million years to one in a third of a second.
_LOWEST, _HIGHEST = 1e-10, 1e4
_STEP = 2.0
_BISECTIONS = 80
# exp() of more has no float
_LARGEST = 700.0


@record
class Work:
    """How work goes on spot. Times in hours, `per_hour` in interruptions per node-hour.

    A gang stops when any of its nodes does: `hits` times as often as one node. Every `checkpoint` hours of work a
    checkpoint takes `write` hours; after an interruption `restart` hours pass before work goes on; all of them are paid.
    A checkpoint that fits the `notice` leaves nothing lost but the time it takes.
    """

    per_hour: float
    checkpoint: float
    write: float = 0.0
    restart: float = 0.0
    notice: float = 0.0
    hits: float = 1.0

    @property
    def gang_rate(self) -> float:
        """Interruptions of the gang per hour."""
        return self.per_hour * self.hits

    @property
    def is_noticed(self) -> bool:
        """Whether a checkpoint fits the notice, so that no work is lost."""
        return self.notice > 0 and self.write <= self.notice


def exact(work: Work) -> float:
    """Hours that nodes are up, and paid, per useful hour for exponential interruptions; infinite if nothing is ever finished.

    (1/Λ) e^{Λr} (e^{Λ(c+w)} - 1) / c with Λ = hλ. If the notice fits a checkpoint, a life of T hours leaves
    max(T - r - w, 0) hours of work, of which e^{-Λ(r+w)}/Λ are to be expected: (1 + w/c) e^{Λ(r+w)}.
    """
    rate, overhead = work.gang_rate, 1 + work.write / work.checkpoint
    at_once = work.write if work.is_noticed else work.checkpoint + work.write
    # that must pass without an interruption for anything to be won
    if rate * (work.restart + at_once) > _LARGEST:
        return math.inf
    if work.is_noticed:
        return overhead * math.exp(rate * (work.restart + work.write))
    exponent = rate * at_once
    return overhead * math.exp(rate * work.restart) * (math.expm1(exponent) / exponent if exponent else 1.0)


def daly_interval(work: Work) -> float | None:
    """The hours between checkpoints that cost least, as Daly approximates them.

    None where checkpoints cost nothing (the more the better), or nothing is ever lost (the fewer the better).
    """
    if work.write == 0 or work.gang_rate == 0 or work.is_noticed:
        return None
    mean = 1 / work.gang_rate
    half = work.write / (2 * mean)
    if half >= 1:
        return mean
    return math.sqrt(2 * work.write * mean) * (1 + math.sqrt(half) / 3 + half / 9) - work.write


def bisected(low: float, high: float, is_low: Callable[[float], bool]) -> float:
    """Where `is_low` ends to hold, between both."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return high


def crossing(cost: Callable[[float], float], target: float) -> float | None:
    """The lowest rate at which `cost` reaches `target`, from below; None where it is above at once, or never."""
    if cost(0.0) >= target:
        return None
    low, high = 0.0, _LOWEST
    while cost(high) < target:
        low, high = high, high * _STEP
        if high > _HIGHEST:
            return None
    return bisected(low, high, lambda rate: cost(rate) < target)
