"""Bin packing: which pods share which GPU, so that no GPU ever holds more than it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Item:
    """What one pod needs of a GPU in [from_ms, to_ms): a share of its activity 0-1 and MiB of its memory, margins included."""

    key: str
    activity: float
    memory_mib: float = 0.0
    from_ms: int = 0
    to_ms: int = 1


# Whether a GPU can hold all of these at once.
Fits = Callable[[Sequence[Item]], bool]


@dataclass(slots=True)
class Shared:
    """A GPU that is shared in [from_ms, to_ms): every item that was on it."""

    from_ms: int
    to_ms: int
    items: list[Item] = field(default_factory=list)

    def at(self, moment_ms: int) -> list[Item]:
        """The items on it at a moment."""
        return [item for item in self.items if item.from_ms <= moment_ms < item.to_ms]


def slots(*, activity: float, memory_mib: float | None, ways: int) -> Fits:
    """A GPU that `ways` pods may share, up to this activity and memory (None: not known, so not looked at)."""

    def fits(items: Sequence[Item]) -> bool:
        return (
            len(items) <= ways
            and sum(item.activity for item in items) <= activity + _ROUNDING
            and (memory_mib is None or sum(item.memory_mib for item in items) <= memory_mib)
        )

    return fits


def pack(items: Iterable[Item], fits: Fits) -> list[Shared]:
    """First fit in order of time, and among those that begin at once the largest first; a GPU is given back once it is empty.

    What fits no empty GPU is left out: ask `fits([item])` before. With items that all last equally long this is first fit
    decreasing, at most 11/9 of the least number of GPUs plus 6/9 (Dósa 2007) where one measure decides.
    """
    done: list[Shared] = []
    opened: list[tuple[Shared, list[Item]]] = []
    now: int | None = None
    last: tuple[float, float] | None = None
    first = 0
    for item in sorted(items, key=lambda i: (i.from_ms, -i.activity, -i.memory_mib, i.key)):
        if item.from_ms != now:
            now, last = item.from_ms, None
            opened = [(gpu, held) for gpu, held in opened if not _left(gpu, held, item.from_ms, done)]
        size = (item.activity, item.memory_mib)
        # meanwhile GPUs only fill up: what did not take the last one of this size takes no other
        first = first if size == last else 0
        last = size
        while first < len(opened) and not fits([*opened[first][1], item]):
            first += 1
        if first == len(opened):
            if not fits([item]):
                continue
            opened.append((Shared(item.from_ms, item.to_ms), []))
        gpu, held = opened[first]
        held.append(item)
        gpu.items.append(item)
        gpu.to_ms = max(gpu.to_ms, item.to_ms)
    return done + [gpu for gpu, _ in opened]


def _left(gpu: Shared, held: list[Item], at_ms: int, done: list[Shared]) -> bool:
    """Whether all have left the GPU by then: it goes to `done`."""
    held[:] = [item for item in held if item.to_ms > at_ms]
    if not held:
        done.append(gpu)
    return not held


def peak(spans: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """(most spans at one moment, the first such moment); (0, 0) of none."""
    most = at = level = 0
    for moment, step in sorted(event for begin, end in spans for event in ((begin, 1), (end, -1))):
        level += step
        if level > most:
            most, at = level, moment
    return most, at
