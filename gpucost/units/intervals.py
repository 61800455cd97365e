"""Levels that a run reached, cut into intervals: one per epoch, and what was lost or lies outside of epochs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Literal

_AT_ONCE_MS = 1

Status = Literal["done", "lost", "unfinished", "outside"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A run's time [from_ms, to_ms). `epoch` is None outside of epochs. `attempt` counts restarts, from 1."""

    epoch: int | None
    status: Status
    attempt: int
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Levels:
    """What is known of a run: `reached` are (moment, level), in order; it held GPUs in [from_ms, to_ms), and then `failed`.

    `marks`: a level says that so many epochs are done ("end"), or that this one has begun ("begin"). `from_zero`: nothing was
    done before `from_ms`. `is_over`: it will not go on after `to_ms`. `resumes`: levels fall to 0 at a restart, the work goes on.
    `is_log`: the run wrote an entry per epoch itself; else its level was looked at now and then.
    """

    reached: tuple[tuple[int, float], ...]
    from_ms: int
    to_ms: int
    marks: str
    from_zero: bool
    is_over: bool
    resumes: bool = False
    failed: bool = False
    is_log: bool = False


def intervals(run: Levels) -> list[Interval]:
    """The run's time without gap or overlap. Epochs that a restart fell back behind are lost; the last entry of each stands."""
    reached = _resumed(run.reached) if run.resumes else run.reached
    if run.is_log and run.marks == "end" and reached and 0 < reached[0][1] < 1:
        # the first epoch is under way, and began with the run
        reached = list(dropwhile(lambda entry: entry[1] < 1, reached))
    points = [(at, math.floor(level)) for at, level in reached]
    points = [(min(max(at, run.from_ms), run.to_ms), level) for at, level in points]
    found = _ended(points, run) if run.marks == "end" else _begun(points, run)
    return [interval for interval in found if interval.from_ms < interval.to_ms or interval.status in ("done", "lost")]


def _ended(points: list[tuple[int, int]], run: Levels) -> list[Interval]:
    found: list[Interval] = []
    attempt, before_ms, done = 1, run.from_ms, _done_before(points, run)
    for at_ms, level in points:
        if done is None or (done == 0 and level == 0 and not found):
            found.append(Interval(None, "outside", attempt, before_ms, at_ms))
        elif level > done:
            found += _split(done + 1, level, attempt, before_ms, at_ms)
        elif level < done:
            found = _lose(found, level + 1)
            attempt += 1
            if at_ms - before_ms <= _AT_ONCE_MS:  # a log does not tell when work began again: the epoch done again has that time
                done = level
                continue
            found.append(Interval(done + 1, "lost", attempt - 1, before_ms, at_ms))
        else:
            continue
        done, before_ms = level, at_ms
    found.append(Interval(None, "outside", attempt, before_ms, run.to_ms))
    if run.reached and (run.failed or not run.is_over):
        found[-1] = replace(found[-1], epoch=(0 if done is None else done) + 1, status="lost" if run.failed else "unfinished")
    return found


def _done_before(points: list[tuple[int, int]], run: Levels) -> int | None:
    """The number of the epoch before the first: 0, or -1 where a log counts from 0; None where that is not known.

    A 0 in a log is the first epoch, done, unless it came at once: within half the time that the next epoch then took.
    """
    if not run.from_zero:
        return None
    if not (run.is_log and run.reached and run.reached[0][1] == 0):
        return 0
    zero_ms = points[0][0]
    next_ms = next((at_ms for at_ms, level in points if level > 0), run.to_ms)
    return -1 if 2 * (zero_ms - run.from_ms) >= next_ms - zero_ms else 0


def _begun(points: list[tuple[int, int]], run: Levels) -> list[Interval]:
    found: list[Interval] = []
    attempt, before_ms, current = 1, run.from_ms, None
    for at_ms, level in points:
        if current is None:
            found.append(Interval(None, "outside", attempt, before_ms, at_ms))
        elif level > current:
            found += _split(current, level - 1, attempt, before_ms, at_ms)
        elif level < current:
            found.append(Interval(current, "lost", attempt, before_ms, at_ms))
            found = _lose(found, level)
            attempt += 1
        else:
            continue
        current, before_ms = level, at_ms
    if current is None:
        return [*found, Interval(None, "outside", attempt, before_ms, run.to_ms)]
    status: Status = "lost" if run.failed else "done" if run.is_over else "unfinished"
    return [*found, Interval(current, status, attempt, before_ms, run.to_ms)]


def _split(first: int, last: int, attempt: int, from_ms: int, to_ms: int) -> list[Interval]:
    """Epochs that were reached between two looks share the time evenly."""
    count = last - first + 1
    edges = [from_ms + (to_ms - from_ms) * i // count for i in range(count + 1)]
    return [Interval(first + i, "done", attempt, edges[i], edges[i + 1]) for i in range(count)]


def _lose(found: list[Interval], from_epoch: int) -> list[Interval]:
    return [
        replace(one, status="lost") if one.status == "done" and one.epoch is not None and one.epoch >= from_epoch else one
        for one in found
    ]


def _resumed(reached: tuple[tuple[int, float], ...]) -> list[tuple[int, float]]:
    """Levels that go on where they were before each fall."""
    base, before, result = 0.0, 0.0, []
    for at_ms, level in reached:
        if level < before:
            base += before
        result.append((at_ms, base + level))
        before = level
    return result
