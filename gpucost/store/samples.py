"""The one door through which samples enter the store: a window of time, whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from gpucost.model import MS_PER_HOUR
from gpucost.store import blocks, runs, series, states
from gpucost.store.validity import DropCounts, Threshold, split_valid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Answer:
    """Samples as a server answered them: `series[series_index[i]]` had `values[i]` at `ts_ms[i]`.

    `series` are labels including `__name__`; `series_index` is int32, `ts_ms` int64, `values` float64. `is_partial`: the server
    said that it is not all that there is, and the settings accept that.
    """

    series: Sequence[Mapping[str, str]]
    series_index: NDArray[np.int32]
    ts_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    is_partial: bool = False


@dataclass(frozen=True, slots=True)
class SampleWindow:
    """What a source answered for [from_ms, to_ms): whole epoch hours, but for a last one that is still running.

    `activity` maps a metric to (idle threshold, lowest, highest valid value) in the metric's own unit; every other
    metric is a state. A series' cluster is its label `cluster_label` where it has one, else `default_cluster`.
    """

    source: str
    run_id: int
    from_ms: int
    to_ms: int
    cluster_label: str
    default_cluster: str
    activity: Mapping[str, Threshold]
    answers: Sequence[Answer]
    kind: str = "prometheus"


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """Valid samples of one metric in a load, with their first and last moment."""

    samples: int
    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What one window brought. `dropped` counts by (metric, reason)."""

    rows: int
    new_series: int
    dropped: dict[tuple[str, str], int] = field(default_factory=dict)
    metrics: dict[str, MetricSamples] = field(default_factory=dict)


def load_window(con: duckdb.DuckDBPyConnection, window: SampleWindow) -> LoadResult:
    """Loads one window inside the caller's transaction; loading it twice changes nothing but the log of loads.

    Samples outside the window are left out, as are duplicates of (series, moment) and impossible values (counted).
    Raises ValueError where the window does not begin at a full hour.
    """
    if window.from_ms % MS_PER_HOUR or window.to_ms <= window.from_ms:
        raise ValueError("a window begins at a full hour and ends after it begins")
    dropped = DropCounts()
    taken = [split_valid(answer, window, dropped) for answer in window.answers]
    known = series.identify(con, window, [answer.series for answer in window.answers], [t.seen for t in taken])
    activity: list[blocks.Samples] = []
    state: list[blocks.Samples] = []
    metrics: dict[str, MetricSamples] = {}
    for answer, samples, ids in zip(window.answers, taken, known.ids, strict=True):
        _summarize(metrics, answer, samples.series_index, samples.ts_ms)
        for wanted, into in ((True, activity), (False, state)):
            part = samples if samples.all_activity is wanted else samples.of_kind(activity=wanted)
            if len(part.ts_ms):
                thresholds = part.thresholds[part.series_index] if wanted else np.empty(0)
                into.append(blocks.Samples(ids[part.series_index], part.ts_ms, part.values, thresholds))
    rows = blocks.load(con, activity, window.from_ms, window.to_ms)
    rows += states.load(con, state, known, window)
    dropped.write(con, window)
    span = (window.from_ms, window.to_ms)
    runs.log_load(con, window.run_id, window.kind, window.source, span, rows=rows, dropped=dropped.total)
    return LoadResult(rows, known.new, dropped.by_metric(), metrics)


def _summarize(metrics: dict[str, MetricSamples], answer: Answer, index: NDArray[np.int32], ts_ms: NDArray[np.int64]) -> None:
    names = [labels["__name__"] for labels in answer.series]
    distinct = sorted(set(names))
    codes = np.array([distinct.index(name) for name in names]) if len(distinct) > 1 else None
    for code, name in enumerate(distinct):
        times = ts_ms if codes is None else ts_ms[codes[index] == code]
        if not len(times):
            continue
        seen = metrics.get(name)
        first, last = int(times.min()), int(times.max())
        metrics[name] = MetricSamples(
            len(times) + (seen.samples if seen else 0),
            min(first, seen.first_ms) if seen else first,
            max(last, seen.last_ms) if seen else last,
        )


__all__ = ["Answer", "LoadResult", "MetricSamples", "SampleWindow", "Threshold", "load_window"]
