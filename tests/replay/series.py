"""Scrapes: the scrape times of targets and the resulting series."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.replay.fleet import Fleet

Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Span = Sequence[float]


@dataclass(frozen=True, slots=True)
class Series:
    """One series: labels with `__name__`, samples by time (milliseconds)."""

    labels: dict[str, str]
    times: Times
    values: Values

    def where(self, keep: npt.NDArray[np.bool_]) -> Series:
        """Return the series with some of its samples."""
        return Series(self.labels, self.times[keep], self.values[keep])


@dataclass(frozen=True, slots=True)
class Clock:
    """The scrapes of one target: actual `times` (ms) and nominal `ticks` (ms), multiples of the interval."""

    ticks: Times
    times: Times

    def without(self, silences: Iterable[Span]) -> Clock:
        """Return the same clock without the scrapes that failed in these [from, to) seconds."""
        kept = np.ones(len(self.times), dtype=bool)
        for start, end in silences:
            kept &= ~((self.times >= start * 1000) & (self.times < end * 1000))
        return Clock(self.ticks[kept], self.times[kept])

    def slice(self, start: float, end: float) -> slice:
        """Return the scrapes in [start, end) seconds."""
        low, high = np.searchsorted(self.times, [round(start * 1000), round(end * 1000)])
        return slice(int(low), max(int(low), int(high)))


def clock(fleet: Fleet, lag: float = 0.0) -> Clock:
    """Return the scrape times of a target `lag` intervals behind the others."""
    step = fleet["scrape"]
    ticks = np.arange(fleet["start"] // step * step, fleet["end"] + step, step, dtype=np.int64) * 1000
    dice = random.Random(fleet.get("seed", 11))
    jitter = np.array([dice.uniform(-1, 1) for _ in ticks]) * fleet.get("jitter", 0)
    times = ticks + np.rint((fleet.get("offset", 0) + lag * step + jitter) * 1000).astype(np.int64)
    inside = (times >= fleet["start"] * 1000) & (times < fleet["end"] * 1000)
    return Clock(ticks[inside], times[inside])


class Recorder:
    """Collects the samples of series by labels, in any order."""

    def __init__(self) -> None:
        self._chunks: dict[tuple[tuple[str, str], ...], list[tuple[Times, Values]]] = {}

    def add(self, name: str, labels: dict[str, object], times: Times, values: Values | float) -> None:
        """Add samples; labels without a value are dropped, as in Prometheus."""
        if len(times):
            key = (("__name__", name), *((k, str(v)) for k, v in labels.items() if v is not None and v != ""))
            self._chunks.setdefault(key, []).append(
                (times, np.broadcast_to(np.asarray(values, dtype=np.float64), times.shape))
            )

    def series(self) -> list[Series]:
        """Return all series, each with its samples by time."""
        found = []
        for key, chunks in self._chunks.items():
            times, values = (np.concatenate(column) for column in zip(*chunks, strict=True))
            times, first = np.unique(times, return_index=True)
            found.append(Series(dict(key), times, values[first]))
        return found
