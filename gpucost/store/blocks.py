"""Activity samples as hour blocks: one row per series and hour, with aggregates and the values as a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpucost.model import MS_PER_HOUR
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

NONE = -1  # stands for null in integer columns


class Samples(NamedTuple):
    """Samples with their series numbers; `thresholds` (idle below) is by sample, and empty for states."""

    series_id: NDArray[np.int32]
    ts_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    thresholds: NDArray[np.float64]


def ordered(parts: Sequence[Samples]) -> Samples:
    """All parts as one: each series' samples together and in order of time, each moment once (the last part's wins)."""
    joined = parts[0] if len(parts) == 1 else _joined(parts)
    same = joined.series_id[1:] == joined.series_id[:-1]
    starts = np.flatnonzero(np.concatenate(([True], ~same)))
    in_order = bool((~same | (joined.ts_ms[1:] > joined.ts_ms[:-1])).all())
    if in_order and len(np.unique(joined.series_id[starts])) == len(starts):
        return joined
    order = np.lexsort((joined.ts_ms, joined.series_id))  # stable: of equal moments the last part's comes last
    series_id, ts_ms = joined.series_id[order], joined.ts_ms[order]
    last = np.concatenate(((series_id[1:] != series_id[:-1]) | (ts_ms[1:] != ts_ms[:-1]), [True]))
    order = order[last]
    thresholds = joined.thresholds[order] if len(joined.thresholds) else joined.thresholds
    return Samples(joined.series_id[order], joined.ts_ms[order], joined.values[order], thresholds)


def _joined(parts: Sequence[Samples]) -> Samples:
    return Samples(
        np.concatenate([part.series_id for part in parts]),
        np.concatenate([part.ts_ms for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.thresholds for part in parts]),
    )


def load(con: duckdb.DuckDBPyConnection, parts: Sequence[Samples], from_ms: int, to_ms: int) -> int:
    """Writes the window's blocks; returns the number of samples taken in."""
    if not parts:
        return 0
    samples = ordered(parts)
    window, offsets = build(samples)
    hours = {"from_hour": from_ms // MS_PER_HOUR, "to_hour": (to_ms - 1) // MS_PER_HOUR}
    with sqlfiles.frames(con, window_blocks=window, window_offsets=offsets):
        sqlfiles.run(con, "blocks_incoming", hours)
        sqlfiles.run(con, "blocks_delete")
        sqlfiles.run(con, "blocks_insert")
    return len(samples.ts_ms)


def build(samples: Samples) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Columns of blocks, one element per (series, hour), ordered so; and the offsets of those without a constant step."""
    series_id, ts_ms, values, thresholds = samples
    hour = ts_ms // MS_PER_HOUR
    new = np.concatenate(([True], (series_id[1:] != series_id[:-1]) | (hour[1:] != hour[:-1])))
    starts = np.flatnonzero(new)
    ends = np.concatenate((starts[1:], [len(ts_ms)]))
    counts = ends - starts
    # A block's own distances only: its first sample, which follows another block, repeats the second's.
    distances = np.diff(ts_ms, prepend=ts_ms[0])
    distances[starts] = distances[np.minimum(starts + 1, len(distances) - 1)]
    shortest, longest = np.minimum.reduceat(distances, starts), np.maximum.reduceat(distances, starts)
    constant = (counts > 1) & (shortest == longest)
    idle = values < thresholds
    idle[ends - 1] = False  # the last sample speaks into the next hour, which its own value and time decide
    gaps = np.where(constant, shortest, NONE)
    within = np.flatnonzero(~new)
    block = np.repeat(np.arange(len(starts)), counts)[within]
    uneven = ~constant[block]
    irregular_blocks, medians = lower_medians(block[uneven], distances[within[uneven]])
    gaps[irregular_blocks] = medians
    offset = (ts_ms - hour * MS_PER_HOUR).astype(np.int32)
    order = np.lexsort((hour[starts], series_id[starts]))
    lists = np.empty(len(starts), dtype=object)
    for position, (start, end) in enumerate(zip(starts[order].tolist(), ends[order].tolist(), strict=True)):
        lists[position] = values[start:end]
    irregular = [position for position in order.tolist() if not constant[position]]
    offset_lists = np.empty(len(irregular), dtype=object)
    for position, block in enumerate(irregular):
        offset_lists[position] = offset[starts[block] : ends[block]]
    first = starts[order]
    last = ends[order] - 1
    window: dict[str, NDArray[Any]] = {
        "series_id": series_id[first],
        "hour": hour[first].astype(np.int32),
        "samples": counts[order].astype(np.int32),
        "value_sum": np.add.reduceat(values, starts)[order],
        "idle_samples": np.add.reduceat(idle, starts, dtype=np.int32)[order],
        "idle_threshold": thresholds[first],
        "first_offset_ms": offset[first],
        "last_offset_ms": offset[last],
        "gap_ms": gaps[order].astype(np.int32),
        "step_ms": np.where(constant, shortest, NONE)[order].astype(np.int32),
        "last_value": values[last],
        "vals": lists,
    }
    listed = starts[np.array(irregular, dtype=np.int64)]
    offsets: dict[str, NDArray[Any]] = {
        "series_id": series_id[listed],
        "hour": hour[listed].astype(np.int32),
        "offsets_ms": offset_lists,
    }
    if not irregular:  # DuckDB reads a column's type from its first element, so there is always one
        offsets = {"series_id": np.array([-1], np.int32), "hour": np.array([0], np.int32), "offsets_ms": np.empty(1, object)}
        offsets["offsets_ms"][0] = np.zeros(1, np.int32)
    return window, offsets


def lower_medians(group: NDArray[np.int64], distance: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each group that occurs, and the lower median of its distances (milliseconds, under one hour)."""
    # One sort of one integer per sample orders by group and distance; a median is then a position.
    keys = np.sort(group * MS_PER_HOUR + distance)
    groups, first = np.unique(keys // MS_PER_HOUR, return_index=True)
    counts = np.diff(np.append(first, len(keys)))
    return groups, keys[first + (counts - 1) // 2] % MS_PER_HOUR
