"""Epochs as they were logged, one entry each, as levels that a run had reached."""

from __future__ import annotations

import math
from collections.abc import Iterable


def levels(logged: Iterable[tuple[int, float, float]], marks: str) -> tuple[list[int], list[float]]:
    """Moments (ms) and the level from then on, of entries (moment, step, number of the epoch); fractions are cut off.

    The first keeps its fraction: 0.3 is under way, where 0 may be the first epoch, done.

    An epoch that is logged again (its number falls back, or repeats without a later step) was done again: the level falls, just
    after the last entry, to what had been done before it.
    """
    times: list[int] = []
    reached: list[float] = []
    last: tuple[int, float] | None = None
    for at_ms, step, number in sorted(logged):
        if not math.isfinite(number):
            continue
        level = math.floor(number)
        again = last is not None and (level < last[0] or (level == last[0] and step <= last[1] and at_ms > times[-1]))
        if again and marks == "end":
            times.append(times[-1] + 1)
            reached.append(level - 1)
        reached.append(level if times else number)
        times.append(at_ms)
        last = (level, step)
    return times, reached
