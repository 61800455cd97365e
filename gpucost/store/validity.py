"""Tells samples that can be true from those that cannot, and counts what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpucost.model import MS_PER_HOUR
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    import duckdb
    from numpy.typing import NDArray

    from gpucost.store.samples import Answer, SampleWindow

# DCGM says "blank", "not found", "not supported" and "not permitted" by numbers: dcgm_fields.h and dcgm_structs.h,
# DCGM_INT32_BLANK.., DCGM_INT64_BLANK.., DCGM_FP64_BLANK.. (140737488355328.0 and the three above it), and unsigned -1.
SENTINELS = np.array(
    [2147483632.0, 2147483633.0, 2147483634.0, 2147483635.0, 4294967295.0,
     140737488355328.0, 140737488355329.0, 140737488355330.0, 140737488355331.0, 9.223372036854776e18]
)  # fmt: skip
# Kueue says +Inf where nothing limits how much a queue may borrow.
UNLIMITED = frozenset({"kueue_cluster_queue_borrowing_limit"})
REASONS = ("nan", "sentinel", "out_of_range")


class Threshold(NamedTuple):
    """An activity metric's limits, in the metric's own unit: idle below `idle`, impossible outside [lowest, highest]."""

    idle: float
    lowest: float
    highest: float


@dataclass(frozen=True, slots=True)
class Taken:
    """The valid samples of an answer. `seen` marks series with any sample in the window, valid or not."""

    series_index: NDArray[np.int32]
    ts_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    seen: NDArray[np.bool_]
    is_activity: NDArray[np.bool_]  # by series
    thresholds: NDArray[np.float64]  # idle threshold by series, NaN for states

    @property
    def all_activity(self) -> bool | None:
        """True or False where all series are of one kind, None where they are mixed."""
        if self.is_activity.all():
            return True
        return None if self.is_activity.any() else False

    def of_kind(self, *, activity: bool) -> Taken:
        """The samples of activity metrics, or of states."""
        keep = self.is_activity[self.series_index] == activity
        return Taken(self.series_index[keep], self.ts_ms[keep], self.values[keep], self.seen, self.is_activity, self.thresholds)


@dataclass(slots=True)
class DropCounts:
    """Counts of samples left out, by (metric, epoch hour, reason)."""

    counts: dict[tuple[str, int, str], int] = field(default_factory=dict)
    metrics: set[str] = field(default_factory=set)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def by_metric(self) -> dict[tuple[str, str], int]:
        """Counts by (metric, reason)."""
        summed: dict[tuple[str, str], int] = {}
        for (metric, _, reason), count in self.counts.items():
            summed[metric, reason] = summed.get((metric, reason), 0) + count
        return summed

    def add(self, names: list[str], index: NDArray[np.int32], ts_ms: NDArray[np.int64], reasons: NDArray[np.int8]) -> None:
        """Counts samples: names by series, and each sample's series, moment and position in REASONS."""
        rows = np.stack([index.astype(np.int64), ts_ms // MS_PER_HOUR, reasons.astype(np.int64)], axis=1)
        for (series, hour, reason), count in zip(*np.unique(rows, axis=0, return_counts=True), strict=True):
            key = (names[int(series)], int(hour), REASONS[int(reason)])
            self.counts[key] = self.counts.get(key, 0) + int(count)

    def write(self, con: duckdb.DuckDBPyConnection, window: SampleWindow) -> None:
        """Replaces the counts of the metrics that the window answered, in the window's hours."""
        hours = {"from_hour": window.from_ms // MS_PER_HOUR, "to_hour": -(-window.to_ms // MS_PER_HOUR)}
        sqlfiles.run(con, "dropped_clear", {"source": window.source, "metrics": sorted(self.metrics), **hours})
        for (metric, hour, reason), count in sorted(self.counts.items()):
            sqlfiles.run(
                con,
                "dropped_insert",
                {"source": window.source, "metric": metric, "hour": hour, "reason": reason, "samples": count},
            )


def split_valid(answer: Answer, window: SampleWindow, dropped: DropCounts) -> Taken:
    """The answer's samples inside the window that can be true; the others are added to `dropped`."""
    names = [labels["__name__"] for labels in answer.series]
    dropped.metrics.update(names)
    none = Threshold(np.nan, -np.inf, np.inf)
    limits = np.array([window.activity.get(name, none) for name in names], dtype=np.float64).reshape(-1, 3)
    is_activity = np.array([name in window.activity for name in names], dtype=np.bool_)
    index, ts_ms, values = answer.series_index, answer.ts_ms, answer.values
    inside = (ts_ms >= window.from_ms) & (ts_ms < window.to_ms)
    if not inside.all():
        index, ts_ms, values = index[inside], ts_ms[inside], values[inside]
    seen = np.zeros(len(names), dtype=np.bool_)
    seen[index] = True
    if len(names) and len(values):
        # The narrowest limits of all series clear nearly every answer in one pass; only the rest is looked at closely.
        low, high = limits[:, 1].max(), min(limits[:, 2].min(), SENTINELS[0] - 1)
        with np.errstate(invalid="ignore"):
            suspect = np.flatnonzero(~((values >= low) & (values <= high)))
        if len(suspect):
            reasons = _reasons(values[suspect], limits[index[suspect]])
            unlimited = np.array([name in UNLIMITED for name in names], dtype=np.bool_)
            reasons[unlimited[index[suspect]] & np.isposinf(values[suspect])] = -1
            wrong = suspect[reasons >= 0]
            if len(wrong):
                dropped.add(names, index[wrong], ts_ms[wrong], reasons[reasons >= 0])
                keep = np.ones(len(values), dtype=np.bool_)
                keep[wrong] = False
                index, ts_ms, values = index[keep], ts_ms[keep], values[keep]
    return Taken(index, ts_ms, values, seen, is_activity, limits[:, 0])


def _reasons(values: NDArray[np.float64], limits: NDArray[np.float64]) -> NDArray[np.int8]:
    """Position in REASONS for each value, -1 for a valid one."""
    with np.errstate(invalid="ignore"):
        outside = (values < limits[:, 1]) | (values > limits[:, 2]) | np.isinf(values)
    return np.select([np.isnan(values), np.isin(values, SENTINELS), outside], [0, 1, 2], -1).astype(np.int8)
