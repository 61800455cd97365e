"""Makespans by Monte Carlo: many runs of the same job under exponential interruptions, as arrays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpucost.whatif.spot.formulas import Work, stretch

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A job that takes longer than so many times its work is not worth simulating: it practically never ends.
HOPELESS = 1000.0
# Above so many lost pieces of a run, their sum is drawn at once, from the normal law that such sums follow.
_MANY = 500
_RUNS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Makespans:
    """`paid` hours of a node and `elapsed` hours (waits for capacity among them) of each run, and its interruptions."""

    paid: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    interruptions: NDArray[np.float64]


def expected_hours(work: Work, hours: float) -> float:
    """What the simulated mean of `paid` tends to: the last interval, shorter than others, is counted as it is."""
    rate, whole, rest = work.gang_rate, math.floor(hours / work.checkpoint), math.fmod(hours, work.checkpoint)
    if rest < hours * 1e-12:
        rest = 0.0
    if work.is_noticed:
        clock = hours + work.write * (whole + (rest > 0))
        return clock * math.exp(rate * (work.restart + work.write))
    last = stretch(_with_checkpoint(work, rest)) * rest if rest else 0.0
    return whole * work.checkpoint * stretch(work) + last


def simulate(work: Work, hours: float, wait: float, runs: int, seed: int) -> Makespans | None:
    """`runs` runs of a job of `hours` useful hours; each interruption waits `wait` hours for capacity, which are not paid.

    None where the job would practically never end. The same seed gives the same runs.
    """
    if not stretch(work) < HOPELESS:
        return None
    rng = np.random.default_rng(seed)
    parts = [_simulate(rng, work, hours, min(_RUNS_AT_ONCE, runs - done)) for done in range(0, runs, _RUNS_AT_ONCE)]
    paid, interruptions = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Makespans(paid, paid + wait * interruptions, interruptions)


def _simulate(rng: np.random.Generator, work: Work, hours: float, runs: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(paid hours, interruptions) of each run."""
    rate, whole, rest = work.gang_rate, math.floor(hours / work.checkpoint), math.fmod(hours, work.checkpoint)
    if rest < hours * 1e-12:
        rest = 0.0
    clock = hours + work.write * (whole + (rest > 0))
    if rate == 0:
        return np.full(runs, clock), np.zeros(runs)
    if work.is_noticed:
        stops = rng.poisson(rate * clock, runs)
        span = work.restart + work.write
        again, lost = _failures(rng, stops, span, rate)
        return clock + stops * span + lost, (stops + again).astype(np.float64)
    stops, lost = _failures(rng, np.full(runs, whole), work.checkpoint + work.write, rate)
    if rest:
        more, lost_last = _failures(rng, np.ones(runs, dtype=np.int64), rest + work.write, rate)
        stops, lost = stops + more, lost + lost_last
    again, lost_restarts = _failures(rng, stops, work.restart, rate)
    return clock + stops * work.restart + lost + lost_restarts, (stops + again).astype(np.float64)


def _failures(
    rng: np.random.Generator, tasks: NDArray[np.int64], span: float, rate: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """How often each run fails before all its `tasks` of `span` hours got through, and the hours those failures took."""
    if span == 0:
        return np.zeros(len(tasks), dtype=np.int64), np.zeros(len(tasks))
    failures = np.where(tasks > 0, rng.negative_binomial(np.maximum(tasks, 1), math.exp(-rate * span)), 0)
    return failures, _lost_hours(rng, failures, span, rate)


def _lost_hours(rng: np.random.Generator, failures: NDArray[np.int64], span: float, rate: float) -> NDArray[np.float64]:
    """Sums of so many exponential times that are known to be shorter than `span`."""
    few = np.where(failures <= _MANY, failures, 0)
    below = -math.expm1(-rate * span)
    times = -np.log1p(-rng.random(int(few.sum())) * below) / rate
    lost = np.bincount(np.repeat(np.arange(len(few)), few), weights=times, minlength=len(few)).astype(np.float64)
    many = failures > _MANY
    if many.any():
        mean = 1 / rate - span * math.exp(-rate * span) / below
        square = 2 / rate**2 - (span**2 + 2 * span / rate) * math.exp(-rate * span) / below
        deviation = math.sqrt(max(square - mean**2, 0.0))
        counts = failures[many]
        lost[many] = np.maximum(counts * mean + np.sqrt(counts) * deviation * rng.standard_normal(len(counts)), 0.0)
    return lost


def _with_checkpoint(work: Work, hours: float) -> Work:
    from dataclasses import replace

    return replace(work, checkpoint=hours)
