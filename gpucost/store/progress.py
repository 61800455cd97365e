"""Progress in the store: series of units of work, and runs of experiment trackers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpucost.periods import Span
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store import sqlfiles
from gpucost.store.metrics import begins, hash64

if TYPE_CHECKING:
    from gpucost.store.metrics import Bools, Floats, Int64s

# Labels that differ between replicas of a Prometheus.
_REPLICAS = frozenset(
    {"prometheus", "prometheus_replica", "__replica__", "replica", "receive", "receive_replica", "__name__"}
)
# Labels that differ if two jobs scrape one target; ignored only if pod and instance identify the target.
_JOBS = frozenset({"job", "service", "endpoint", "container"})
ALWAYS: Span = (-(2**62), 2**62)


class ProgressSeries(NamedTuple):
    """The subject of a series of values; empty texts are unknown.

    Migrations 0006 and 0021 explain the columns.
    """

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
    tenant: str = ""

    @property
    def _tenant(self) -> list[str]:
        """The tenant, if there is one: other series keep their keys of earlier versions."""
        return [f"tenant\x01{self.tenant}"] if self.tenant else []

    def key(self, source: str) -> int:
        """A 64-bit hash of everything that identifies the series."""
        return hash64([source, *(str(value) for value in self[:-1]), *self._tenant])

    def identity(self) -> int:
        """Equal for series that count the same work: replicas of a server, a target scraped twice."""
        names = {name for name, _ in self.labels}
        ignored = _REPLICAS | _JOBS if {"pod", "instance"} <= names else _REPLICAS
        labels = [f"{name}\x01{value}" for name, value in self.labels if name not in ignored]
        place = self.cluster, self.namespace, self.pod, self.workload
        about = self.unit, self.kind, *place, self.model, self.run_id, str(self.is_failure)
        return hash64([*about, *labels, *self._tenant])


@dataclass(slots=True)
class ProgressBatch:
    """Values: `series[i]` had `values[i]` at `at_ms[i]`."""

    series: list[ProgressSeries] = field(default_factory=list)
    at_ms: list[Int64s] = field(default_factory=list)
    values: list[Floats] = field(default_factory=list)

    def add(self, series: ProgressSeries, at_ms: Int64s, values: Floats) -> None:
        """Add the values of one series."""
        self.series.append(series)
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


@frozen_dataclass
class ProgressLoad:
    """The result of a batch: values read, rows stored, new series, and values that are not numbers."""

    values: int
    rows: int
    new_series: int
    dropped: int


_VALUES_DELETE = """
DELETE FROM progress_values
WHERE at_ms >= $from_ms AND at_ms < $to_ms
    AND series_id IN (SELECT series_id FROM progress_series WHERE source = $source)"""


def load_values(con: DuckDBPyConnection, source: str, span: Span, batch: ProgressBatch) -> ProgressLoad:
    """Replace a source's values in [span) inside the caller's transaction.

    Values outside are left out.
    """
    con.execute(_VALUES_DELETE, {"source": source, "from_ms": span[0], "to_ms": span[1]})
    return _insert(con, source, span, batch)


_SERIES_INSERT = """
INSERT INTO progress_series
SELECT (SELECT coalesce(max(series_id), 0) FROM progress_series) + row_number() OVER (ORDER BY min(position)), key,
    first(identity), $source, first(mapping), first(unit), first(kind), first(marks), first(resumes), first(is_failure),
    nullif(first(cluster), ''), nullif(first(namespace), ''), nullif(first(pod), ''), nullif(first(workload), ''),
    nullif(first(model), ''), nullif(first(run_id), ''), first(labels)::JSON::MAP(VARCHAR, VARCHAR),
    nullif(first(tenant), '')
FROM progress_batch_series
WHERE key IN (SELECT key FROM progress_batch) AND key NOT IN (SELECT key FROM progress_series)
GROUP BY key
ORDER BY 1"""
_VALUES_INSERT = """
INSERT INTO progress_values
SELECT s.series_id, b.at_ms, b.value FROM progress_batch AS b JOIN progress_series AS s USING (key) ORDER BY ALL"""


def _insert(con: DuckDBPyConnection, source: str, span: Span, batch: ProgressBatch) -> ProgressLoad:
    if not batch.series:
        return ProgressLoad(0, 0, 0, 0)
    key = np.array([series.key(source) for series in batch.series], dtype=np.uint64)
    columns = sqlfiles.columns_of(ProgressSeries, batch.series) | {
        "position": range(len(key)),
        "key": key,
        "identity": np.array([series.identity() for series in batch.series], dtype=np.uint64),
        "labels": [json.dumps(dict(series.labels)) for series in batch.series],
    }
    # one series may come in several parts
    keys, first, number = np.unique(key, return_index=True, return_inverse=True)
    index = np.repeat(number, list(map(len, batch.at_ms)))
    at_ms, values = np.concatenate(batch.at_ms), np.concatenate(batch.values)
    inside = (at_ms >= span[0]) & (at_ms < span[1])
    valid = inside & np.isfinite(values)
    is_event = np.array([series.kind == "event" for series in batch.series])[first]
    index, at_ms, values = _changes(index[valid], at_ms[valid], values[valid], is_event)
    rows = {"key": keys[index], "at_ms": at_ms, "value": values}
    with sqlfiles.frames(con, progress_batch=rows, progress_batch_series=columns):
        new = sqlfiles.value(con, _SERIES_INSERT, {"source": source})
        con.execute(_VALUES_INSERT)
    return ProgressLoad(int(inside.sum()), len(at_ms), new, int(inside.sum() - valid.sum()))


def _changes(index: Int64s, at_ms: Int64s, values: Floats, is_event: Bools) -> tuple[Int64s, Int64s, Floats]:
    """All events, summed by moment; for other series the first, last and changed values.

    At each change, the values before and after it are kept.
    """
    if not len(index):
        return index, at_ms, values
    order = np.lexsort((at_ms, index))
    index, at_ms, values = index[order], at_ms[order], values[order]
    starts = np.flatnonzero(begins(index, at_ms))
    sums = np.add.reduceat(values, starts)
    index, at_ms = index[starts], at_ms[starts]
    values = np.where(is_event[index], sums, values[starts])
    keep = np.ones(len(index), dtype=bool)
    inner = (index[1:-1] == index[:-2]) & (index[1:-1] == index[2:])
    is_constant = inner & (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    keep[1:-1] = ~is_constant | is_event[index[1:-1]]
    return index[keep], at_ms[keep], values[keep]


# values of runs that were active in [from_ms, to_ms) or are listed
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
    con: DuckDBPyConnection, source: str, span: Span, runs: Sequence[ProgressRun], batch: ProgressBatch
) -> ProgressLoad:
    """Replace a source's runs active in [span), and all values of these runs and of `runs`."""
    params = {"source": source, "from_ms": span[0], "to_ms": span[1], "run_ids": [run.run_id for run in runs]}
    con.execute(_RUN_VALUES_DELETE, params)
    con.execute(_RUNS_DELETE, params)
    if runs:
        columns = sqlfiles.columns_of(ProgressRun, runs)
        columns["metrics"] = [json.dumps(dict(run.metrics)) for run in runs]
        with sqlfiles.frames(con, progress_runs_batch=columns):
            con.execute(_RUNS_INSERT, {"source": source})
    return _insert(con, source, ALWAYS, batch)
