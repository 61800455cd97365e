"""State samples (kube-state-metrics) as runs of equal values, and how often their targets were scraped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpucost.model import MS_PER_HOUR
from gpucost.store import sqlfiles
from gpucost.store.blocks import Samples, lower_medians, ordered

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb
    from numpy.typing import NDArray

    from gpucost.store.samples import SampleWindow
    from gpucost.store.series import Known

# A silence longer than this ends a run: the source may have said something else meanwhile, and coverage has a gap there.
LONGEST_SILENCE_MS = 10 * 60_000


def load(con: duckdb.DuckDBPyConnection, parts: Sequence[Samples], known: Known, window: SampleWindow) -> int:
    """Merges the window's runs into the stored ones; returns the number of samples."""
    if not parts:
        return 0
    samples = ordered(parts)
    with sqlfiles.frames(con, window_runs=runs_of(samples)):
        sqlfiles.run(con, "states_touched", {"silence": LONGEST_SILENCE_MS})
        sqlfiles.run(con, "states_merged", {"silence": LONGEST_SILENCE_MS})
        sqlfiles.run(con, "states_extend")
        sqlfiles.run(con, "states_delete")
        sqlfiles.run(con, "states_insert")
    _load_gaps(con, samples, known, window)
    return len(samples.ts_ms)


def runs_of(samples: Samples) -> dict[str, NDArray[Any]]:
    """Runs of equal value without a long silence inside: series, value, first and last moment."""
    series_id, ts_ms, values, _ = samples
    new = np.concatenate(
        ([True], (series_id[1:] != series_id[:-1]) | (values[1:] != values[:-1]) | (np.diff(ts_ms) > LONGEST_SILENCE_MS))
    )
    starts = np.flatnonzero(new)
    ends = np.concatenate((starts[1:], [len(ts_ms)])) - 1
    return {"series_id": series_id[starts], "value": values[starts], "first_ms": ts_ms[starts], "last_ms": ts_ms[ends]}


def _load_gaps(con: duckdb.DuckDBPyConnection, samples: Samples, known: Known, window: SampleWindow) -> None:
    """Writes the lower median of the distances between samples, per scrape target and hour."""
    series_id, ts_ms, _, _ = samples
    target_of: dict[tuple[str, str, str], int] = {}
    starts = np.flatnonzero(np.concatenate(([True], series_id[1:] != series_id[:-1])))
    targets = np.empty(len(starts), dtype=np.int64)
    for position, number in enumerate(series_id[starts].tolist()):
        labels = known.labels[number]
        name = (labels.get(window.cluster_label) or window.default_cluster, labels.get("job", ""), labels.get("instance", ""))
        targets[position] = target_of.setdefault(name, len(target_of))
    target = np.repeat(targets, np.diff(np.append(starts, len(ts_ms))))
    hour = ts_ms // MS_PER_HOUR
    inside = np.flatnonzero((series_id[1:] == series_id[:-1]) & (hour[1:] == hour[:-1]))
    if not len(inside):
        return
    hours = int(hour.max() - hour.min()) + 1
    group = target[inside] * hours + (hour[inside] - hour.min())
    groups, medians = lower_medians(group, ts_ms[inside + 1] - ts_ms[inside])
    names = list(target_of)
    columns = [np.array([names[g // hours][part] for g in groups.tolist()], dtype=object) for part in range(3)]
    window_gaps = {
        "cluster": columns[0],
        "job": columns[1],
        "instance": columns[2],
        "hour": (groups % hours + hour.min()).astype(np.int32),
        "gap_ms": medians.astype(np.int32),
    }
    with sqlfiles.frames(con, window_gaps=window_gaps):
        sqlfiles.run(con, "scrape_gaps_clear", {"source": window.source})
        sqlfiles.run(con, "scrape_gaps_insert", {"source": window.source})
