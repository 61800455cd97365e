"""Progress enters the store: units of work done, as series of values, and the runs of experiment trackers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpucost.store import sqlfiles
from gpucost.store.metrics import hash64, number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from gpucost.store.runs import Span

# Labels in which replicas of a Prometheus differ.
_REPLICAS = frozenset({"prometheus", "prometheus_replica", "__replica__", "replica", "receive", "receive_replica", "__name__"})
# What a target that is scraped by two jobs differs in; only where pod and instance say that it is one target.
_JOBS = frozenset({"job", "service", "endpoint", "container"})
ALWAYS: Span = (-(2**62), 2**62)


class ProgressSeries(NamedTuple):
    """What a series of values is about; empty texts are unknown. Columns are explained in migrations/0006_progress.sql."""

    mapping: str
    unit: str
    kind: str
    labels: tuple[tuple[str, str], ...]
    cluster: str = ""
    namespace: str = ""
    pod: str = ""
    workload: str = ""
    model: str = ""
    run_id: str = ""
    marks: str = "end"
    resumes: bool = False
    is_failure: bool = False

    def key(self, source: str) -> int:
        """A 64-bit hash of all that makes this another series than others."""
        return hash64([source, *(str(value) for value in self)])

    def identity(self) -> int:
        """The same for series that count the same thing: copies of a replicated server, a target that is scraped twice."""
        names = {name for name, _ in self.labels}
        ignored = _REPLICAS | _JOBS if {"pod", "instance"} <= names else _REPLICAS
        kept = [f"{name}\x01{value}" for name, value in self.labels if name not in ignored]
        about = (self.unit, self.kind, self.cluster, self.namespace, self.pod, self.workload, self.model, self.run_id)
        return hash64([*about, str(self.is_failure), *kept])


@dataclass(slots=True)
class ProgressBatch:
    """Values: `series[index[i]]` had `values[i]` at `at_ms[i]`."""

    series: list[ProgressSeries] = field(default_factory=list)
    index: list[NDArray[np.int64]] = field(default_factory=list)
    at_ms: list[NDArray[np.int64]] = field(default_factory=list)
    values: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, one: ProgressSeries, at_ms: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        """Takes in the values of one more series."""
        self.index.append(np.full(len(at_ms), len(self.series), dtype=np.int64))
        self.series.append(one)
        self.at_ms.append(at_ms)
        self.values.append(values)


class ProgressRun(NamedTuple):
    """A run of an experiment tracker; empty texts and zeros are unknown."""

    run_id: str
    parent_id: str
    experiment: str
    name: str
    status: str
    started_ms: int
    ended_ms: int
    cluster: str
    namespace: str
    pod: str
    workload: str
    planned_epochs: float
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProgressLoad:
    """What a batch came to: values read, rows stored of them, series met for the first time, values that are no number."""

    values: int
    rows: int
    new_series: int
    dropped: int


_VALUES_DELETE = """
DELETE FROM progress_values
WHERE at_ms >= $from_ms AND at_ms < $to_ms
    AND series_id IN (SELECT series_id FROM progress_series WHERE source = $source)"""


def load_values(con: duckdb.DuckDBPyConnection, source: str, span: Span, batch: ProgressBatch) -> ProgressLoad:
    """Replaces a source's values in [span) inside the caller's transaction; what lies outside is left out."""
    con.execute(_VALUES_DELETE, {"source": source, "from_ms": span[0], "to_ms": span[1]})
    return _insert(con, source, span, batch)


_VALUES_INSERT = "INSERT INTO progress_values SELECT series_id, at_ms, value FROM progress_batch ORDER BY series_id, at_ms"


def _insert(con: duckdb.DuckDBPyConnection, source: str, span: Span, batch: ProgressBatch) -> ProgressLoad:
    if not batch.series:
        return ProgressLoad(0, 0, 0, 0)
    keys = [one.key(source) for one in batch.series]
    first_of = {key: position for position, key in reversed(list(enumerate(keys)))}
    # the same series may come in several parts
    same = np.array([first_of[key] for key in keys], dtype=np.int64)
    index = same[np.concatenate(batch.index)]
    at_ms, values = np.concatenate(batch.at_ms), np.concatenate(batch.values)
    inside = (at_ms >= span[0]) & (at_ms < span[1])
    valid = inside & np.isfinite(values)
    is_event = np.array([one.kind == "event" for one in batch.series])
    kept = _changes(index[valid], at_ms[valid], values[valid], is_event)
    used = sorted(set(kept[0].tolist()))
    used_keys = np.array([keys[position] for position in used], dtype=np.uint64)
    ids, new = _numbers(con, source, used_keys, [batch.series[position] for position in used])
    number_of = np.zeros(len(keys), dtype=np.int32)
    number_of[used] = ids
    rows: dict[str, NDArray[Any]] = {"series_id": number_of[kept[0]], "at_ms": kept[1], "value": kept[2]}
    if len(kept[1]):
        with sqlfiles.frames(con, progress_batch=rows):
            con.execute(_VALUES_INSERT)
    return ProgressLoad(int(inside.sum()), len(kept[1]), new, int(inside.sum() - valid.sum()))


# of the runs that were alive in [from_ms, to_ms) or are listed
_RUN_VALUES_DELETE = """
DELETE FROM progress_values
WHERE series_id IN (
    SELECT series_id FROM progress_series
    WHERE source = $source AND (list_contains($run_ids::VARCHAR[], run_id) OR run_id IN (
        SELECT run_id FROM progress_runs
        WHERE source = $source AND started_ms < $to_ms AND coalesce(ended_ms, 9223372036854775807) >= $from_ms)))"""
_RUNS_DELETE = """
DELETE FROM progress_runs
WHERE source = $source
  AND (list_contains($run_ids::VARCHAR[], run_id)
    OR (started_ms < $to_ms AND coalesce(ended_ms, 9223372036854775807) >= $from_ms))"""

_RUNS_INSERT = """
INSERT INTO progress_runs
SELECT $source, run_id, nullif(parent_id, ''), experiment, name, status, started_ms, nullif(ended_ms, 0),
    nullif(cluster, ''), nullif(namespace, ''), nullif(pod, ''), nullif(workload, ''), nullif(planned_epochs, 0),
    metrics::JSON::MAP(VARCHAR, DOUBLE)
FROM progress_runs_batch"""


def load_runs(
    con: duckdb.DuckDBPyConnection, source: str, span: Span, runs: Sequence[ProgressRun], batch: ProgressBatch
) -> ProgressLoad:
    """Replaces a source's runs that were alive in [span), and all values of them and of `runs`."""
    params = {"source": source, "from_ms": span[0], "to_ms": span[1], "run_ids": [run.run_id for run in runs]}
    con.execute(_RUN_VALUES_DELETE, params)
    con.execute(_RUNS_DELETE, params)
    if runs:
        columns = _columns(runs) | {
            "metrics": sqlfiles.objects([json.dumps(dict(run.metrics)) for run in runs]),
        }
        with sqlfiles.frames(con, progress_runs_batch=columns):
            con.execute(_RUNS_INSERT, {"source": source})
    return _insert(con, source, ALWAYS, batch)


def _changes(
    index: NDArray[np.int64], at_ms: NDArray[np.int64], values: NDArray[np.float64], is_event: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Of levels and counters the first and last value of each series, and those that differ from the former; events summed."""
    order = np.lexsort((at_ms, index))
    index, at_ms, values = index[order], at_ms[order], values[order]
    if not len(index):
        return index, at_ms, values
    new_moment = np.ones(len(index), dtype=bool)
    new_moment[1:] = (index[1:] != index[:-1]) | (at_ms[1:] != at_ms[:-1])
    starts = np.flatnonzero(new_moment)
    sums = np.add.reduceat(values, starts)
    index, at_ms = index[starts], at_ms[starts]
    values = np.where(is_event[index], sums, values[starts])
    keep = np.ones(len(index), dtype=bool)
    inner = (index[1:-1] == index[:-2]) & (index[1:-1] == index[2:])
    keep[1:-1] = ~(inner & (values[1:-1] == values[:-2])) | is_event[index[1:-1]]
    return index[keep], at_ms[keep], values[keep]


_SERIES_INSERT = """
INSERT INTO progress_series
SELECT series_id, key, identity, $source, mapping, unit, kind, marks, resumes, is_failure,
    nullif(cluster, ''), nullif(namespace, ''), nullif(pod, ''), nullif(workload, ''), nullif(model, ''), nullif(run_id, ''),
    labels::JSON::MAP(VARCHAR, VARCHAR)
FROM progress_new
ORDER BY series_id"""


def _numbers(
    con: duckdb.DuckDBPyConnection, source: str, keys: NDArray[np.uint64], series: list[ProgressSeries]
) -> tuple[NDArray[np.int32], int]:
    """The numbers of series, and how many of them are new; these are entered."""
    numbers, missing = number(con, "progress_series", keys)
    new = [series[position] for position in missing.tolist()]
    if new:
        columns = _columns(new) | {
            "series_id": numbers[missing],
            "key": keys[missing],
            "identity": np.array([one.identity() for one in new], dtype=np.uint64),
            "labels": sqlfiles.objects([json.dumps(dict(one.labels)) for one in new]),
        }
        with sqlfiles.frames(con, progress_new=columns):
            con.execute(_SERIES_INSERT, {"source": source})
    return numbers, len(new)


def _columns(rows: Sequence[NamedTuple]) -> dict[str, NDArray[Any]]:
    """Columns for `frames`: of numbers and truth values by their type, of all else as objects."""
    columns = {}
    for name, values in zip(rows[0]._fields, zip(*rows, strict=True), strict=True):
        plain = isinstance(values[0], int | float)
        columns[name] = np.array(values) if plain else sqlfiles.objects(values)
    return columns
