"""Nodes in use over time, and how many of them are worth paying for around the clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpucost.model import MS_PER_HOUR

# A node whose use comes this close to the break-even pays as much either way.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Curve:
    """`levels[i]` nodes in use on the mean over `lengths[i]` hours, in order of time; a level may be a fraction."""

    levels: tuple[float, ...]
    lengths: tuple[float, ...]

    @classmethod
    def hourly(cls, levels: Iterable[float]) -> Curve:
        """One level per hour."""
        kept = tuple(levels)
        return cls(kept, (1.0,) * len(kept))

    @classmethod
    def constant(cls, nodes: float, hours: float, of_hours: float) -> Curve:
        """`nodes` for `hours`, and none for the rest of `of_hours`."""
        rest = of_hours - hours
        return cls((float(nodes), 0.0), (hours, rest)) if rest > 0 else cls((float(nodes),), (hours,))

    @property
    def hours(self) -> float:
        return sum(self.lengths)

    @property
    def node_hours(self) -> float:
        return sum(level * hours for level, hours in zip(self.levels, self.lengths, strict=True))

    @property
    def peak(self) -> float:
        return max(self.levels, default=0.0)

    @property
    def mean(self) -> float:
        """Nodes in use over all hours."""
        return self.node_hours / self.hours if self.hours else 0.0

    def used(self, nodes: float) -> float:
        """Node-hours in use of `nodes` that are always there."""
        return sum(min(level, nodes) * hours for level, hours in zip(self.levels, self.lengths, strict=True))

    def utilization(self, nodes: float) -> float | None:
        """Share of `nodes` × all hours that is in use, 0-1; None for no nodes."""
        return self.used(nodes) / (nodes * self.hours) if nodes and self.hours else None

    def best_level(self, break_even: float) -> int:
        """The number of always paid nodes that costs least, where one costs `break_even` of what using another by the hour does.

        The k-th node is in use less than the one before it, and is worth its price while its own utilization is above
        `break_even`. So no other number costs less. A node that only breaks even is not counted.
        """
        low, high = 0, int(self.peak) + 1
        while low < high:
            middle = (low + high + 1) // 2
            if self.used(middle) - self.used(middle - 1) > (break_even + _TIE) * self.hours:
                low = middle
            else:
                high = middle - 1
        return low

    def scaled(self, factor: float) -> Curve:
        return Curve(tuple(level * factor for level in self.levels), self.lengths)

    def less(self, other: Curve) -> Curve:
        """What is left of each level when `other`, of the same hours, is taken from it; never under zero."""
        left = (max(0.0, mine - theirs) for mine, theirs in zip(self.levels, other.levels, strict=True))
        return Curve(tuple(left), self.lengths)

    def __add__(self, other: Curve) -> Curve:
        return Curve(tuple(a + b for a, b in zip(self.levels, other.levels, strict=True)), self.lengths)


def counted(spans: Iterable[tuple[int, int, float]], from_ms: int, to_ms: int) -> Curve:
    """The hourly curve of spans (from, to, nodes), in milliseconds, over [from_ms, to_ms); the last hour may be a part of one."""
    count = max(1, -(-(to_ms - from_ms) // MS_PER_HOUR))
    ends = [min(from_ms + (index + 1) * MS_PER_HOUR, to_ms) for index in range(count)]
    starts = [from_ms + index * MS_PER_HOUR for index in range(count)]
    busy = [0.0] * count
    for start, end, nodes in spans:
        first, last = max(start, from_ms), min(end, to_ms)
        if first >= last:
            continue
        for index in range((first - from_ms) // MS_PER_HOUR, (last - 1 - from_ms) // MS_PER_HOUR + 1):
            busy[index] += (min(last, ends[index]) - max(first, starts[index])) * nodes
    lengths = [(end - start) / MS_PER_HOUR for start, end in zip(starts, ends, strict=True)]
    levels = (time / MS_PER_HOUR / length for time, length in zip(busy, lengths, strict=True))
    return Curve(tuple(levels), tuple(lengths))
