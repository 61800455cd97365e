"""Work on spot, in closed forms: its cost, its time, and the rates at which it pays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

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

    A gang stops when any of its nodes does: `hits` times as often as one node (gang_hits). Every `checkpoint` hours of work a
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

    @property
    def lost(self) -> float:
        """Hours that an interruption costs on average before the restart: half an interval, or the checkpoint on notice."""
        return self.write if self.is_noticed else self.checkpoint / 2


def gang_hits(nodes: float) -> float:
    """How often a gang of `nodes` is interrupted per interruption of one node: √n, as interruptions come together.

    Any of 4 nodes was hit 1.1 to 2.0 times as often as one (skypilot-org/spot-traces, preemption).
    """
    return math.sqrt(max(nodes, 1.0))


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


def break_even_rate(work: Work, ratio: float) -> float | None:
    """The rate per node-hour at which paid hours are `ratio` times the useful ones; None without such a rate.

    `ratio` is the on-demand price over the spot price.
    """
    return crossing(lambda rate: exact(replace(work, per_hour=rate)), ratio)


class Checkpoints(NamedTuple):
    """The intervals that cost least, in hours: exactly, and as Daly approximates it."""

    exact: float
    daly: float


def best_checkpoints(work: Work) -> Checkpoints | None:
    """None where checkpoints cost nothing (the more the better), or nothing is ever lost (the fewer the better)."""
    if work.write == 0 or work.gang_rate == 0 or work.is_noticed:
        return None
    mean = 1 / work.gang_rate
    young = math.sqrt(2 * work.write * mean)
    half = work.write / (2 * mean)
    daly = young * (1 + math.sqrt(half) / 3 + half / 9) - work.write if half < 1 else mean
    write = work.gang_rate * work.write
    # the x = Λc in (0, 1) where the derivative of (e^{x + Λw} - 1) / x is 0: ln(1 - x) + x + Λw = 0
    best = bisected(0.0, 1.0, lambda x: x < 1 and math.log1p(-x) + x + write > 0)
    return Checkpoints(best / work.gang_rate, daly)


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


def expected_hours(work: Work, hours: float) -> float:
    """Return the hours that so many useful hours take; the last interval may be shorter than the others."""
    whole, rest = math.floor(hours / work.checkpoint), math.fmod(hours, work.checkpoint)
    # what is left by rounding is no interval
    rest = 0.0 if rest < hours * 1e-12 else rest
    last = exact(replace(work, checkpoint=rest)) * rest if rest else 0.0
    return whole * work.checkpoint * exact(work) + last
