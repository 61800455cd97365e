"""The only entry of samples into the store: a window of time, complete or not at all."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from itertools import chain, compress, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gpucost.periods import MS_PER_HOUR
from gpucost.records import frozen_dataclass
from gpucost.store import runs, sqlfiles

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    Bools = NDArray[np.bool_]
    Floats = NDArray[np.float64]
    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

# A metric of gpucost: label `family` ('nodes', 'pods', 'requests', 'phases') has samples, including objects
# that are not collected.
FAMILY_SAMPLES = "kube_family_samples"

NONE = -1  # null in integer columns


class Samples(NamedTuple):
    """Samples with their series numbers; `thresholds` (idle below) per sample, empty for states.

    `left_out` counts the samples of equal value and hour, without a long silence, between the previous sample
    and this one. They are evenly spaced in at least one of the series with equal scrapes in the hour.
    """

    series_id: Int32s
    ts_ms: Int64s
    values: Floats
    thresholds: Floats
    left_out: Int32s


def begins(*columns: NDArray[Any]) -> Bools:
    """Marks the first element, and each that differs in any column from the previous one."""
    begins = np.zeros(len(columns[0]), np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return begins


def spread(first: Int64s, count: Int64s) -> tuple[Int64s, Int64s]:
    """All rows of ranges of rows: the number of each row's range, and the row."""
    number = np.repeat(np.arange(len(count)), count)
    return number, first[number] + np.arange(len(number)) - np.repeat(np.cumsum(count) - count, count)


def alike(series: Int32s, ts_ms: Int64s, weights: Int32s, target: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """The hours of series: first sample, end, and a number that hours with equal scrapes share.

    Series of a `target` with as many samples from the same first to the same last one have the same distances.
    """
    starts = np.flatnonzero(begins(series, ts_ms // MS_PER_HOUR))
    ends = np.append(starts, len(ts_ms))[1:]
    columns = np.add.reduceat(weights, starts), ts_ms[ends - 1], ts_ms[starts], target[series[starts]]
    order = np.lexsort(columns)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(begins(*(column[order] for column in columns))) - 1
    return starts, ends, number


def ordered(parts: Sequence[Samples]) -> Samples:
    """All parts joined: each series' samples together, ordered by time, each moment once.

    The last part's sample takes precedence.
    """
    joined = parts[0] if len(parts) == 1 else Samples(*map(np.concatenate, zip(*parts, strict=True)))
    new = begins(joined.series_id)
    starts = np.flatnonzero(new)
    in_order = bool((new[1:] | (joined.ts_ms[1:] > joined.ts_ms[:-1])).all())
    if in_order and len(np.unique(joined.series_id[starts])) == len(starts):
        return joined
    # stable sort: the last part's sample is the last of equal moments
    order = np.lexsort((joined.ts_ms, joined.series_id))
    order = order[np.append(begins(joined.series_id[order], joined.ts_ms[order])[1:], True)]
    return Samples._make(column[order] if len(column) else column for column in joined)


# one row per (series, hour), written in that order, so that values compress and scans can skip
_BLOCKS_REPLACE = """
DELETE FROM blocks USING incoming WHERE blocks.series_id = incoming.series_id AND blocks.hour = incoming.hour;
INSERT INTO blocks BY NAME
SELECT series_id, hour, samples, value_sum, idle_samples, idle_threshold, first_offset_ms, step_ms, offsets_ms,
    gap_ms, last_offset_ms, last_value, vals, idle_ms, value_ms, longest_ms
FROM incoming
ORDER BY series_id, hour;
DROP TABLE incoming"""


# Number of samples from which a part of a window's blocks is built on its own, to bound memory.
_PART_SAMPLES = 250_000


def build(samples: Samples) -> dict[str, Any]:
    """Columns of blocks, one element per (series, hour).

    Only blocks without a constant step have offsets and sums of time.
    """
    series = np.flatnonzero(begins(samples.series_id))
    at = np.searchsorted(series, np.arange(0, len(samples.ts_ms), _PART_SAMPLES))
    bounds = [*np.unique(series[at[at < len(series)]]).tolist(), None]
    parts = []
    for first, end in pairwise(bounds):
        parts.append(_build(Samples._make(column[first:end] for column in samples)))
    columns = {}
    for name, head in parts[0].items():
        column = [part[name] for part in parts]
        columns[name] = (
            list(chain.from_iterable(column)) if isinstance(head, list) else np.concatenate(column)
        )
    return columns


def _build(samples: Samples) -> dict[str, Any]:
    """Columns of the blocks of some series."""
    series_id, ts_ms, values, thresholds, _ = samples
    hour = ts_ms // MS_PER_HOUR
    new = begins(series_id, hour)
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(ts_ms))
    last, counts = ends - 1, ends - starts
    # Distances within a block only: its first sample, which follows another block, gets the second's.
    distances = np.diff(ts_ms, prepend=ts_ms[0])
    distances[starts] = distances[np.minimum(starts + 1, len(distances) - 1)]
    shortest, longest = np.minimum.reduceat(distances, starts), np.maximum.reduceat(distances, starts)
    constant = (counts > 1) & (shortest == longest)
    idle = values < thresholds
    # the last sample is valid into the next hour, so its value and time are used separately
    idle[last] = False
    lasts = np.diff(ts_ms, append=0)
    lasts[last] = 0
    idle_ms, value_ms = np.add.reduceat(idle * lasts, starts), np.add.reduceat(values * lasts, starts)
    gaps = np.where(constant, shortest, NONE)
    within = np.flatnonzero(~new)
    block = np.repeat(np.arange(len(starts)), counts)[within]
    irregular = ~constant[block]
    irregular_blocks, medians = lower_medians(block[irregular], distances[within[irregular]])
    gaps[irregular_blocks] = medians
    offset = (ts_ms - hour * MS_PER_HOUR).astype(np.int32)
    bounds = list(map(slice, starts.tolist(), ends.tolist()))
    offsets = [offset[:0] if even else offset[place] for place, even in zip(bounds, constant, strict=True)]
    return {
        "series_id": series_id[starts],
        "hour": hour[starts].astype(np.int32),
        "samples": counts.astype(np.int32),
        "value_sum": np.add.reduceat(values, starts),
        "idle_samples": np.add.reduceat(idle, starts, dtype=np.int32),
        "idle_threshold": thresholds[starts],
        "first_offset_ms": offset[starts],
        "last_offset_ms": offset[last],
        "gap_ms": gaps.astype(np.int32),
        "step_ms": np.where(constant, shortest, NONE).astype(np.int32),
        "last_value": values[last],
        "vals": [values[place] for place in bounds],
        "idle_ms": idle_ms.astype(np.int32),
        "value_ms": value_ms,
        "longest_ms": longest.astype(np.int32),
        "offsets_ms": offsets,
    }


def lower_medians(group: Int64s, distance: Int64s, times: Int32s | int = 1) -> tuple[Int64s, Int64s]:
    """Each group, and the lower median of its distances.

    Distances are in milliseconds, under one hour; each counts `times` times.
    """
    # One sort of one integer per distance orders by group and distance; a median is then a position.
    keys = group * MS_PER_HOUR + distance
    order = np.argsort(keys)
    keys, ranks = keys[order], np.cumsum(np.append(0, np.broadcast_to(times, keys.shape)[order]))
    groups, first = np.unique(keys // MS_PER_HOUR, return_index=True)
    counts = np.diff(ranks[np.append(first, len(keys))])
    return groups, keys[
        np.searchsorted(ranks, ranks[first] + (counts - 1) // 2, side="right") - 1
    ] % MS_PER_HOUR


class Labels(dict[str, str]):
    """Labels that cache their hash: a series that recurs in every window is hashed once."""

    __slots__ = ("hashed",)
    hashed: tuple[str, int]


def series_key(source: str, labels: Mapping[str, str]) -> int:
    """A 64-bit hash of source, metric and labels, without empty labels, as in Prometheus."""
    hashed_source, key = getattr(labels, "hashed", (None, 0))
    if hashed_source != source:
        pairs = sorted((name, value) for name, value in labels.items() if value)
        key = hash64([source, *(part for pair in pairs for part in pair)])
        if isinstance(labels, Labels):
            labels.hashed = source, key
    return key


def hash64(parts: Iterable[str]) -> int:
    """A hash of texts in their order, equal on every machine."""
    text = "\x00".join(parts)
    return int.from_bytes(
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


_SERIES_KNOWN = "SELECT w.position, s.series_id FROM wanted_keys AS w JOIN series AS s USING (key)"
_SERIES_INSERT = """
INSERT INTO series
SELECT series_id, key, $source, cluster, metric, labels::JSON::MAP(VARCHAR, VARCHAR)
FROM new_series
ORDER BY series_id"""


def identify(
    con: DuckDBPyConnection, window: SampleWindow, answers: Sequence[Valid]
) -> tuple[list[Int32s], int]:
    """The numbers of all series, by answer and position, and the number of new series.

    Series without a sample have the number NONE.
    """
    seen = np.concatenate([valid.seen for valid in answers] or [np.empty(0, np.bool_)])
    labels = list(compress(chain.from_iterable(valid.answer.series for valid in answers), seen))
    hashes = np.array([series_key(window.source, series) for series in labels], np.uint64)
    keys, first, places = np.unique(hashes, return_index=True, return_inverse=True)
    with sqlfiles.frames(con, wanted_keys={"key": keys, "position": np.arange(len(keys))}):
        rows = con.execute(_SERIES_KNOWN).fetchnumpy()
    numbers = np.full(len(keys), NONE, np.int32)
    numbers[np.asarray(rows["position"])] = np.asarray(rows["series_id"])
    missing = np.flatnonzero(numbers == NONE)
    missing = missing[np.argsort(first[missing])]  # numbered in order of appearance
    newest = sqlfiles.value(con, "SELECT coalesce(max(series_id), 0) FROM series")
    numbers[missing] = np.arange(newest + 1, newest + 1 + len(missing), dtype=np.int32)
    if len(missing):
        new = [labels[at] for at in first[missing].tolist()]
        new_series: dict[str, Any] = {
            "series_id": numbers[missing],
            "key": keys[missing],
            "cluster": [series.get(window.cluster_label) or window.default_cluster for series in new],
            "metric": [series["__name__"] for series in new],
            "labels": list(map(_stored_labels, new)),
        }
        with sqlfiles.frames(con, new_series=new_series):
            con.execute(_SERIES_INSERT, {"source": window.source})
    found = np.full(len(seen), NONE, np.int32)
    found[seen] = numbers[places]
    ends = np.cumsum([len(valid.seen) for valid in answers])
    return np.split(found, ends)[:-1], len(missing)


def _stored_labels(labels: Mapping[str, str]) -> str:
    """Labels as JSON, without the metric's name and empty values."""
    return json.dumps({name: labels[name] for name in sorted(labels) if labels[name] and name != "__name__"})


# A longer silence ends a run: the value may have changed meanwhile, and coverage has a gap there.
LONGEST_SILENCE_MS = 10 * 60_000

# the stored runs that a window's samples meet or adjoin, with the span of those samples; other runs cannot
# change
_STATES_TOUCHED = """
CREATE OR REPLACE TEMP TABLE touched AS
WITH span AS (
    SELECT series_id, min(first_ms) AS from_ms, max(last_ms) AS to_ms FROM window_runs GROUP BY series_id
)
SELECT s.series_id, s.value, s.first_ms, s.last_ms, span.from_ms, span.to_ms
FROM states s JOIN span USING (series_id)
WHERE s.last_ms >= span.from_ms - $silence AND s.first_ms <= span.to_ms + $silence"""
# a run that only continues keeps its row, so that a month of windows does not rewrite the table repeatedly
_STATES_REPLACE = """
UPDATE states SET last_ms = m.last_ms
FROM merged m JOIN touched t ON t.series_id = m.series_id AND t.first_ms = m.first_ms AND t.value = m.value
WHERE states.series_id = m.series_id AND states.first_ms = m.first_ms AND states.last_ms <> m.last_ms;
DELETE FROM states USING (
    SELECT t.series_id, t.first_ms
    FROM touched t ANTI JOIN merged m ON m.series_id = t.series_id AND m.first_ms = t.first_ms AND m.value = t.value
) gone
WHERE states.series_id = gone.series_id AND states.first_ms = gone.first_ms;
INSERT INTO states
SELECT m.series_id, m.value, m.first_ms, m.last_ms
FROM merged m ANTI JOIN touched t ON t.series_id = m.series_id AND t.first_ms = m.first_ms AND t.value = m.value
ORDER BY m.series_id, m.first_ms"""


def _merge_runs(con: DuckDBPyConnection, samples: Samples) -> None:
    with sqlfiles.frames(con, window_runs=runs_of(samples)):
        con.execute(_STATES_TOUCHED, {"silence": LONGEST_SILENCE_MS})
        sqlfiles.run(con, "states_merged", {"silence": LONGEST_SILENCE_MS})
        con.execute(_STATES_REPLACE)


def load_presence(con: DuckDBPyConnection, window: SampleWindow) -> None:
    """Load the moments at which a server has samples of a family, as samples of FAMILY_SAMPLES.

    They are fewer than the scrapes, so they do not define a scrape interval; no load is logged.
    """
    answers = [_valid(FAMILY_SAMPLES, answer, window, Counter()) for answer in window.answers]
    ids, _ = identify(con, window, answers)
    parts = [
        _samples(valid.answer, numbers)
        for valid, numbers in zip(answers, ids, strict=True)
        if len(valid.answer.ts_ms)
    ]
    if parts:
        _merge_runs(con, ordered(parts))


def runs_of(samples: Samples) -> dict[str, NDArray[Any]]:
    """Runs of equal value without a long silence inside: series, value, first and last moment."""
    series_id, ts_ms, values, _, left_out = samples
    new = begins(series_id, values)
    new[1:] |= np.diff(ts_ms) > LONGEST_SILENCE_MS * (left_out[1:] + 1)
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(ts_ms)) - 1
    return {
        "series_id": series_id[starts],
        "value": values[starts],
        "first_ms": ts_ms[starts],
        "last_ms": ts_ms[ends],
    }


# a scrape target is identified by the lowest number among its series
_TARGETS = """
SELECT s.series_id, min(s.series_id) OVER (
    PARTITION BY coalesce(s.labels[$cluster_label], $default_cluster), s.labels['job'], s.labels['instance']) AS target
FROM window_series AS w JOIN series AS s USING (series_id)
ORDER BY s.series_id"""
_GAPS = """
MERGE INTO scrape_gaps AS g
USING (
    SELECT coalesce(s.labels[$cluster_label], $default_cluster) AS cluster, coalesce(s.labels['job'], '') AS job,
        coalesce(s.labels['instance'], '') AS instance, w.hour, w.gap_ms
    FROM window_gaps AS w JOIN series AS s USING (series_id)
) AS w ON g.source = $source AND (g.cluster, g.job, g.instance, g.hour) = (w.cluster, w.job, w.instance, w.hour)
WHEN MATCHED THEN UPDATE SET gap_ms = w.gap_ms
WHEN NOT MATCHED THEN INSERT VALUES ($source, w.cluster, w.job, w.instance, w.hour, w.gap_ms)"""


def _load_gaps(con: DuckDBPyConnection, samples: Samples, window: SampleWindow) -> None:
    """Write the lower median of the distances between samples, per scrape target and hour.

    Series with equal scrapes have the distances of the one with the fewest samples left out.
    """
    series_id, ts_ms, _, _, left_out = samples
    clusters = {"cluster_label": window.cluster_label, "default_cluster": window.default_cluster}
    with sqlfiles.frames(con, window_series={"series_id": np.unique(series_id)}):
        rows = con.execute(_TARGETS, clusters).fetchnumpy()
    target = np.zeros(series_id.max() + 1, np.int64)
    target[rows["series_id"]] = rows["target"]
    starts, ends, kind = alike(series_id, ts_ms, left_out + 1, target)
    hour = ts_ms[starts] // MS_PER_HOUR
    first = hour.min()
    hours = hour.max() - first + 1
    group = target[series_id[starts]] * hours + hour - first
    # the row of each kind with the most samples
    order = np.lexsort((ends - starts, kind))
    fullest = order[np.append(np.diff(kind[order]) > 0, True)]
    number, row = spread(starts[fullest] + 1, (ends - starts)[fullest] - 1)
    times = left_out[row] + 1
    groups, medians = lower_medians(
        group[fullest][number], (ts_ms[row] - ts_ms[row - 1]) // times, times * np.bincount(kind)[number]
    )
    gaps = {"series_id": groups // hours, "hour": groups % hours + first, "gap_ms": medians}
    with sqlfiles.frames(con, window_gaps=gaps):
        con.execute(_GAPS, {"source": window.source, **clusters})


# DCGM encodes "blank", "not found", "not supported" and "not permitted" as numbers: dcgm_fields.h and
# dcgm_structs.h, DCGM_INT32_BLANK.., DCGM_INT64_BLANK.., DCGM_FP64_BLANK.. (140737488355328.0 and the three
# above it), and unsigned -1.
SENTINELS = np.array(
    [2147483632.0, 2147483633.0, 2147483634.0, 2147483635.0, 4294967295.0,
     140737488355328.0, 140737488355329.0, 140737488355330.0, 140737488355331.0, 9.223372036854776e18]
)  # fmt: skip
# Kueue reports +Inf for a queue without a borrowing limit.
UNLIMITED = frozenset({"kueue_cluster_queue_borrowing_limit"})
REASONS = ("nan", "sentinel", "out_of_range")
_LOWEST = np.finfo(np.float64).min


_DROPPED_DELETE = """
DELETE FROM dropped_samples
WHERE source = $source AND hour >= $from_hour AND hour < $to_hour AND list_contains($metrics, metric)"""


class Threshold(NamedTuple):
    """An activity metric's limits in its own unit: idle below `idle`, valid in [lowest, highest]."""

    idle: float
    lowest: float
    highest: float


@frozen_dataclass
class ReadAnswer:
    """Samples of a server's answer: `series[series_index[i]]` had `values[i]` at `ts_ms[i]`.

    `series` are labels including `__name__`; `series_index` is int32, `ts_ms` int64, `values` float64.
    `is_partial`: the server marked its answer as incomplete, and the settings accept that. `left_out`, if
    set, counts for each sample the ones left out after the previous one, as in Samples.
    """

    series: Sequence[Mapping[str, str]]
    series_index: Int32s
    ts_ms: Int64s
    values: Floats
    is_partial: bool = False
    left_out: Int32s | None = None

    @property
    def weights(self) -> Int32s:
        """The number of samples that each one represents."""
        return np.ones(len(self.ts_ms), np.int32) if self.left_out is None else self.left_out + 1

    @property
    def samples(self) -> MetricSamples:
        """The number of samples, and their first and last moment; there must be one."""
        return MetricSamples(int(self.weights.sum()), int(self.ts_ms.min()), int(self.ts_ms.max()))

    def only(self, keep: Bools) -> ReadAnswer:
        """The answer with only the samples in `keep`."""
        if keep.all():
            return self
        left_out = None if self.left_out is None else self.left_out[keep]
        return ReadAnswer(
            self.series,
            self.series_index[keep],
            self.ts_ms[keep],
            self.values[keep],
            self.is_partial,
            left_out,
        )


@frozen_dataclass
class SampleWindow:
    """A source's answers for [from_ms, to_ms): whole epoch hours, except a last one in progress.

    `activity` maps a metric to (idle threshold, lowest, highest valid value) in the metric's own unit; every
    other metric is a state. A series' cluster is its label `cluster_label`, otherwise `default_cluster`.
    """

    source: str
    run_id: int
    from_ms: int
    to_ms: int
    cluster_label: str
    default_cluster: str
    activity: Mapping[str, Threshold]
    answers: Sequence[ReadAnswer]


@frozen_dataclass
class MetricSamples:
    """Valid samples of one metric in a load, with their first and last moment."""

    samples: int
    first_ms: int
    last_ms: int

    def __add__(self, other: MetricSamples) -> MetricSamples:
        first_ms, last_ms = min(self.first_ms, other.first_ms), max(self.last_ms, other.last_ms)
        return MetricSamples(self.samples + other.samples, first_ms, last_ms)


@frozen_dataclass
class LoadResult:
    """The result of one window.

    `dropped` counts by (metric, reason); `size` counts samples, without those left out between others.
    """

    rows: int
    new_series: int
    dropped: dict[tuple[str, str], int]
    metrics: dict[str, MetricSamples]
    size: int = 0


def load_window(con: DuckDBPyConnection, window: SampleWindow) -> LoadResult:
    """Load one window inside the caller's transaction.

    Loading it twice changes only the log of loads. Samples outside the window are left out, as are duplicates
    of (series, moment) and impossible values (counted). Raises ValueError if the window does not begin at a
    full hour.
    """
    if window.from_ms % MS_PER_HOUR or window.to_ms <= window.from_ms:
        raise ValueError("a window begins at a full hour and ends after it begins")
    dropped = Counter[tuple[str, int, str]]()
    answers = [_valid(*part, window, dropped) for answer in window.answers for part in _by_metric(answer)]
    ids, new = identify(con, window, answers)
    activity: list[Samples] = []
    states: list[Samples] = []
    metrics: dict[str, MetricSamples] = {}
    for (metric, answer, _), numbers in zip(answers, ids, strict=True):
        if not len(answer.ts_ms):
            continue
        seen = answer.samples
        metrics[metric] = metrics[metric] + seen if metric in metrics else seen
        limits = window.activity.get(metric)
        (activity if limits else states).append(_samples(answer, numbers, limits))
    rows, hours = 0, {"from_hour": window.from_ms // MS_PER_HOUR, "to_hour": -(-window.to_ms // MS_PER_HOUR)}
    if activity:
        samples = ordered(activity)
        rows += len(samples.ts_ms)
        with sqlfiles.frames(con, window_blocks=build(samples)):
            sqlfiles.run(con, "blocks_incoming", hours)
            con.execute(_BLOCKS_REPLACE)
    if states:
        samples = ordered(states)
        rows += len(samples.ts_ms) + int(samples.left_out.sum())
        _merge_runs(con, samples)
        _load_gaps(con, samples, window)
    con.execute(
        _DROPPED_DELETE, {"source": window.source, "metrics": [metric for metric, _, _ in answers], **hours}
    )
    by_metric = Counter[tuple[str, str]]()
    for (metric, hour, reason), count in sorted(dropped.items()):
        con.execute(
            "INSERT INTO dropped_samples VALUES ($1, $2, $3, $4, $5)",
            [window.source, metric, hour, reason, count],
        )
        by_metric[metric, reason] += count
    span = (window.from_ms, window.to_ms)
    runs.log_load(con, window.run_id, "prometheus", window.source, span, rows=rows, dropped=dropped.total())
    size = sum(len(part.ts_ms) for part in (*activity, *states)) + dropped.total()
    return LoadResult(rows, new, by_metric, metrics, size)


def _samples(answer: ReadAnswer, numbers: Int32s, limits: Threshold | None = None) -> Samples:
    """An answer's samples with their series numbers and, for activity, the idle threshold."""
    thresholds = np.broadcast_to(limits.idle, answer.ts_ms.shape) if limits else np.empty(0)
    left_out = np.empty(0, np.int32) if limits else answer.weights - 1
    return Samples(numbers[answer.series_index], answer.ts_ms, answer.values, thresholds, left_out)


def _by_metric(answer: ReadAnswer) -> Iterator[tuple[str, ReadAnswer]]:
    """An answer's samples by metric; most answers have one."""
    names = [labels["__name__"] for labels in answer.series]
    metrics = sorted(set(names))
    codes = np.array([metrics.index(name) for name in names])
    for code, metric in enumerate(metrics):
        yield metric, answer if len(metrics) == 1 else answer.only(codes[answer.series_index] == code)


def reasons_against(metric: str, values: Floats, limits: Threshold | None = None) -> NDArray[np.int8]:
    """The place in REASONS of each invalid value; NONE for valid values. States have no `limits`."""
    _, lowest, highest = limits or (0, _LOWEST, np.inf if metric in UNLIMITED else -_LOWEST)
    reasons = np.full(len(values), NONE, np.int8)
    # passes nearly every answer in one step; only the rest is examined
    suspect = np.flatnonzero(~((values >= lowest) & (values <= min(highest, SENTINELS[0] - 1))))
    rest = values[suspect]
    outside = (rest < lowest) | (rest > highest)
    reasons[suspect] = np.select([np.isnan(rest), np.isin(rest, SENTINELS), outside], [0, 1, 2], NONE)
    return reasons


class Valid(NamedTuple):
    """The valid samples of a metric's answer; `seen` marks series with any sample in the window."""

    metric: str
    answer: ReadAnswer
    seen: Bools


def _valid(
    metric: str, answer: ReadAnswer, window: SampleWindow, dropped: Counter[tuple[str, int, str]]
) -> Valid:
    """The valid samples inside the window.

    The others are added to `dropped`, by metric, epoch hour and reason.
    """
    answer = answer.only((answer.ts_ms >= window.from_ms) & (answer.ts_ms < window.to_ms))
    seen = np.zeros(len(answer.series), np.bool_)
    seen[answer.series_index] = True
    reasons = reasons_against(metric, answer.values, window.activity.get(metric))
    wrong = reasons != NONE
    hours = answer.ts_ms[wrong] // MS_PER_HOUR
    keys, number = np.unique(hours * len(REASONS) + reasons[wrong], return_inverse=True)
    counts = np.bincount(number, answer.weights[wrong], len(keys)).astype(np.int64)
    for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
        dropped[metric, key // len(REASONS), REASONS[key % len(REASONS)]] += count
    return Valid(metric, answer.only(~wrong), seen)
