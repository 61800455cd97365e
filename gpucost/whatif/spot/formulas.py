"""Closed forms of work on spot: paid time, the best checkpoint interval, and the break-even rate."""

import math
from collections.abc import Callable

from gpucost.records import frozen_dataclass

# Bounds of break-even rates in interruptions per node-hour: one in a million years, one in a third of a second.
_LOWEST, _HIGHEST = 1e-10, 1e4
_BISECTIONS = 80
# exp() of more has no float
_LARGEST = 700.0


@frozen_dataclass
class Work:
    """How work runs on spot. Times in hours, `per_hour` in interruptions per node-hour.

    A gang stops when any of its nodes does: `hits` times as often as one node. Every `checkpoint` hours of work a
    checkpoint takes `write` hours; after an interruption `restart` hours pass before work continues. All of them are paid.
    """

    per_hour: float
    checkpoint: float
    write: float = 0.0
    restart: float = 0.0
    hits: float = 1.0

    @property
    def gang_rate(self) -> float:
        """Interruptions of the gang per hour."""
        return self.per_hour * self.hits


def exact(work: Work) -> float:
    """Paid hours per useful hour for exponential interruptions; infinite if no interval is ever finished.

    (1/Λ) e^{Λr} (e^{Λ(c+w)} - 1) / c with Λ = hλ.
    """
    rate, interval = work.gang_rate, work.checkpoint + work.write
    exponent = rate * interval
    if rate * work.restart + exponent > _LARGEST:
        return math.inf
    lost = math.expm1(exponent) / exponent if exponent else 1.0
    return (1 + work.write / work.checkpoint) * math.exp(rate * work.restart) * lost


def daly_interval(work: Work) -> float | None:
    """The hours between checkpoints that cost least, by Daly's approximation.

    None if checkpoints cost nothing (the more the better), or interruptions never happen (the fewer the better).
    """
    if work.write == 0 or work.gang_rate == 0:
        return None
    mean = 1 / work.gang_rate
    half = work.write / (2 * mean)
    if half >= 1:
        return mean
    return math.sqrt(2 * work.write * mean) * (1 + math.sqrt(half) / 3 + half / 9) - work.write


def bisected(low: float, high: float, is_low: Callable[[float], bool]) -> float:
    """The value between both at which `is_low` stops to hold."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return high


def crossing(cost: Callable[[float], float], target: float) -> float | None:
    """The lowest rate at which `cost` rises to `target`; None if it is above at once, or never rises so far."""
    if cost(0.0) >= target:
        return None
    high = _LOWEST
    while cost(high) < target:
        high *= 2
        if high > _HIGHEST:
            return None
    return bisected(high / 2, high, lambda rate: cost(rate) < target)
