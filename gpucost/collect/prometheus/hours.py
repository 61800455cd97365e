"""Tells constant series without their samples: all series of a scrape target have their samples at the moments of its scrapes.

The moments are read from few series. Of the others a sum by hour is asked for: where it is the series' value times the hour's
scrapes, the series was there at each of them and had that value, since no sample exceeds the value and none lies between scrapes.
What that does not prove is asked for raw. This goes for whole hours: ranges [h, h + 1 h).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.store.metrics import LONGEST_SILENCE_MS, ReadAnswer, series_key

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from gpucost.collect.prometheus.queries import Selector
    from gpucost.periods import Span

# Of kube_node_info, what no scrape target says; and what says an object where labels are honored, else a target.
_OF_OBJECTS = {
    "__name__", "node", "kernel_version", "os_image", "container_runtime_version", "kubelet_version", "kubeproxy_version",
    "deprecated_kubelet_version", "deprecated_kubeproxy_version", "provider_id", "pod_cidr", "system_uuid", "internal_ip",
    "namespace", "pod", "container", "uid",
}  # fmt: skip
# More series than these for the scrapes of one target, and they are too unsteady to tell anything.
_MOST_SPEAKERS = 8

Target = tuple[str | None, ...]


def is_by_hour(answer: ReadAnswer, span: Span) -> bool:
    """Whether an answer's steps are the last milliseconds of hours of `span`: some servers move them."""
    ts_ms = answer.ts_ms
    return bool((((ts_ms + 1 - span[0]) % MS_PER_HOUR == 0) & (ts_ms > span[0]) & (ts_ms < span[1])).all())


def _hours(answer: ReadAnswer, span: Span) -> NDArray[np.int64]:
    return (answer.ts_ms - span[0]) // MS_PER_HOUR


@record
class Scrapes:
    """When the targets of kube-state-metrics were scraped: `ts_ms[first[target, hour]:][: count[target, hour]]`.

    `count` is 0 where that is not known for sure; `is_even` where they lay equally far apart, by no silence.
    """

    span: Span
    names: tuple[str, ...]
    targets: Mapping[Target, int]
    ts_ms: NDArray[np.int64]
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    is_even: NDArray[np.bool_]

    def target(self, labels: Mapping[str, str]) -> int:
        """The number of the target that a series comes from; -1 where it is none of these."""
        return self.targets.get(tuple(map(labels.get, self.names)), -1)


def speakers(counts: ReadAnswer, span: Span) -> set[str]:
    """Names of the nodes whose series of kube_node_info tell, together, of all scrapes.

    `counts` holds how many samples each series has in each hour.
    """
    table = _table(counts, span)
    by_target: dict[Target, list[int]] = {}
    labels_of_targets = _target_names(counts.series)
    for position, labels in enumerate(counts.series):
        by_target.setdefault(tuple(map(labels.get, labels_of_targets)), []).append(position)
    nodes: set[str] = set()
    for positions in by_target.values():
        most = table[positions].max(axis=0)
        missing = most > 0
        for _ in range(_MOST_SPEAKERS):
            complete = (table[positions] == most) & missing
            best = int(complete.sum(axis=1).argmax())
            if not complete[best].any():
                break
            missing &= ~complete[best]
            nodes.add(counts.series[positions[best]].get("node", ""))
    return nodes


def scrapes(counts: ReadAnswer, samples: Sequence[ReadAnswer], span: Span) -> Scrapes:
    """The scrapes of all targets, from the samples of their speakers; known where no series has more of them."""
    names = _target_names(counts.series)
    table = _table(counts, span)
    targets: dict[Target, int] = {}
    of_series = [targets.setdefault(tuple(map(labels.get, names)), len(targets)) for labels in counts.series]
    most = np.zeros((len(targets), table.shape[1]), np.int64)
    np.maximum.at(most, np.array(of_series), table)
    moments: list[set[int]] = [set() for _ in targets]
    for answer in samples:
        places = [targets.get(tuple(map(labels.get, names)), -1) for labels in answer.series]
        for place, ts_ms in _by_series(answer):
            if places[place] >= 0:
                moments[places[place]].update(ts_ms.tolist())
    first, count = np.zeros_like(most), np.zeros_like(most)
    parts: list[NDArray[np.int64]] = []
    at = 0
    edges = np.arange(span[0], span[1] + 1, MS_PER_HOUR)
    for place, instants in enumerate(moments):
        ts_ms = np.array(sorted(instants), np.int64)
        bounds = np.searchsorted(ts_ms, edges)
        first[place], count[place] = at + bounds[:-1], np.diff(bounds)
        # Prometheus 2 takes a range's left end in, Prometheus 3 does not: scrapes there may be counted twice
        if ((ts_ms + 1) % MS_PER_HOUR == 0).any():
            count[place] = 0
        parts.append(ts_ms)
        at += len(ts_ms)
    count[count != most] = 0
    all_ms = np.concatenate(parts)
    is_even = np.zeros(count.shape, np.bool_)
    for row, hour in np.argwhere(count > 2).tolist():
        apart = np.diff(all_ms[first[row, hour] :][: count[row, hour]])
        is_even[row, hour] = apart[0] <= LONGEST_SILENCE_MS and bool((apart == apart[0]).all())
    return Scrapes(span, names, targets, all_ms, first, count, is_even)


def _target_names(series: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({name for labels in series for name in labels} - _OF_OBJECTS))


def _table(counts: ReadAnswer, span: Span) -> NDArray[np.int64]:
    """Samples by series and hour."""
    table = np.zeros((len(counts.series), (span[1] - span[0]) // MS_PER_HOUR), np.int64)
    table[counts.series_index, _hours(counts, span)] = counts.values.astype(np.int64)
    return table


def _by_series(answer: ReadAnswer) -> Iterator[tuple[int, NDArray[np.int64]]]:
    starts = _starts(answer.series_index)
    for start, ts_ms in zip(starts.tolist(), np.split(answer.ts_ms, starts[1:]), strict=False):
        yield int(answer.series_index[start]), ts_ms


def _starts(*columns: NDArray[np.int32] | NDArray[np.int64]) -> NDArray[np.intp]:
    """Where a row differs from the one before it."""
    return np.flatnonzero(np.any([np.diff(column, prepend=column[:1] - 1) for column in columns], axis=0))


_ANY_NODE = "*"
_ON_NODES = {"kube_pod_status_scheduled_time", "kube_pod_start_time", "kube_pod_container_info"}
Life = tuple[
    int, str, str | None, int
]  # target, object, its node (None: with or without one), hour of the window


class Hours:
    """The series of one metric, asked for as `name`, by hour, and when they have samples: at a target's scrapes, in an object's
    life, or as an answer says.

    `total` is, by row, what its samples sum up to, `unit` what each of them adds to that, NaN where it is not known, and `value`
    what each of them says. Rows are (series, hour) pairs, those of `answer`.
    """

    def __init__(
        self,
        scrapes: Scrapes,
        source: str,
        selector: Selector,
        name: str,
        answer: ReadAnswer,
        unit: NDArray[np.float64],
        value: NDArray[np.float64],
    ) -> None:
        hours = _hours(answer, scrapes.span)
        self.selector, self.name = selector, name
        self.series = list(answer.series)
        self.is_partial = answer.is_partial
        self._scrapes = scrapes
        self._source, self._label, self._from_ms = source, selector.shard_label, scrapes.span[0]
        self._number: dict[int, int] = {}
        self._hours = (scrapes.span[1] - scrapes.span[0]) // MS_PER_HOUR
        self._index, self._hour = answer.series_index.astype(np.int64), hours
        self._total, self._unit, self._value = answer.values, unit, value
        self._target = np.array([scrapes.target(labels) for labels in self.series], np.int64)[self._index]
        self._moments, self._values, self._length = (
            [scrapes.ts_ms],
            [np.empty(len(scrapes.ts_ms))],
            len(scrapes.ts_ms),
        )
        count = np.where(self._target >= 0, scrapes.count[self._target, hours], 0)
        self._is_whole = is_whole = (count > 0) & self._proves(slice(None), count)
        self._first = np.where(is_whole, scrapes.first[self._target, hours], -1)
        self._count = np.where(is_whole, count, 0)
        self._is_even = is_whole & scrapes.is_even[self._target, hours]
        self._samples: list[tuple[int, int, int, int]] = []  # of answers: series, hour, first, count

    def borrow(self, lives: Mapping[Life, NDArray[np.int64]]) -> None:
        """Gives rows the moments of the object that they tell of, where they have as many: none has samples without it.

        A series that names its node, or of a metric that pods have on nodes alone, has none where the pod is elsewhere.
        """
        says_node = any("node" in labels for labels in self.series)
        is_bound = bool(self.series) and self.series[0]["__name__"] in _ON_NODES
        for row in np.flatnonzero(self._first < 0).tolist():
            node = (
                self.series[self._index[row]].get("node", "")
                if says_node
                else _ANY_NODE
                if is_bound
                else None
            )
            for place in (None, node):
                life = lives.get((int(self._target[row]), self._name(row), place, int(self._hour[row])))
                if life is not None and self._proves(row, np.int64(len(life))):
                    self._first[row], self._count[row] = self._add(life, np.empty(len(life))), len(life)
                    break

    def unproven(self) -> dict[int, set[str]]:
        """Hours to be asked for raw, and the objects concerned; a series without a name is there under the empty one."""
        objects: dict[int, set[str]] = {}
        for row in np.flatnonzero(self._first < 0).tolist():
            objects.setdefault(int(self._hour[row]), set()).add(self._name(row))
        return objects

    def read(self, answers: Sequence[ReadAnswer], hour: int | None = None) -> None:
        """Takes in raw samples: of unproven rows of an hour, or all that lie past the last whole hour."""
        if not self._number:
            self._number = {
                series_key(self._source, labels): position for position, labels in enumerate(self.series)
            }
        rows = np.flatnonzero((self._first < 0) & (self._hour == hour))
        concerned = set(self._index[rows].tolist())
        for answer in answers:
            self.is_partial |= answer.is_partial
            if not len(answer.ts_ms):
                continue
            at = self._add(answer.ts_ms, answer.values)
            hours = (answer.ts_ms - self._from_ms) // MS_PER_HOUR
            starts = _starts(answer.series_index, hours)
            for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(hours)], strict=True):
                labels = answer.series[answer.series_index[start]]
                key = series_key(self._source, labels)
                if hour is None and hours[start] >= self._hours and key not in self._number:
                    self._number[key] = len(self.series)
                    self.series.append(labels)
                position = self._number.get(key, -1)
                if (
                    hours[start] >= self._hours
                    if hour is None
                    else position in concerned and hours[start] == hour
                ):
                    self._samples.append((position, int(hours[start]), at + start, end - start))

    def lives(self) -> dict[Life, NDArray[np.int64]]:
        """Moments at which objects were there, in hours in which not all of their series were throughout.

        None where they were away between two scrapes: whatever loses samples may have lost those of other series.
        """
        pool = np.concatenate(self._moments)
        pieces: dict[Life, list[NDArray[np.int64]]] = {}
        target = dict(zip(self._index.tolist(), self._target.tolist(), strict=True))

        def put(position: int, hour: int, first: int, count: int) -> None:
            name, node = self.series[position].get(self._label), self.series[position].get("node", "")
            if name and target.get(position, -1) >= 0:
                for place in (None, node, _ANY_NODE) if node else (None, node):
                    pieces.setdefault((target[position], name, place, hour), []).append(
                        pool[first : first + count]
                    )

        for one in self._samples:
            put(*one)
        names = {(self.series[position].get(self._label), hour) for position, hour, _, _ in self._samples}
        for row in np.flatnonzero(self._is_whole).tolist() if names else ():
            if (self._name(row), int(self._hour[row])) in names:
                put(int(self._index[row]), int(self._hour[row]), int(self._first[row]), int(self._count[row]))
        lives = {key: np.unique(np.concatenate(parts)) for key, parts in pieces.items()}
        return {key: life for key, life in lives.items() if self._is_unbroken(key[0], key[-1], life)}

    def _is_unbroken(self, target: int, hour: int, life: NDArray[np.int64]) -> bool:
        if hour >= self._hours:
            return False
        first = self._scrapes.first[target, hour]
        moments = self._scrapes.ts_ms[first : first + self._scrapes.count[target, hour]]
        begin, end = np.searchsorted(moments, life[0]), np.searchsorted(moments, life[-1], side="right")
        return np.array_equal(moments[begin:end], life)

    def answer(self) -> ReadAnswer:
        """All samples, by series and in order of time; of an hour's even scrapes the first and the last."""
        proven = np.flatnonzero(self._first >= 0)
        raw = np.array(self._samples, np.int64).reshape(-1, 4)
        own = self._index, self._hour, self._first, self._count
        index, hour, first, count = (np.concatenate((a[proven], b)) for a, b in zip(own, raw.T, strict=True))
        value = np.concatenate((self._value[proven], np.full(len(raw), np.nan)))
        is_even = np.concatenate((self._is_even[proven], np.zeros(len(raw), np.bool_)))
        is_raw = np.arange(len(index)) >= len(proven)
        order = np.lexsort((hour, index))
        size = np.where(is_even, 2, count)
        ends = np.cumsum(size[order])
        row = np.repeat(order, size[order])
        nth = np.arange(len(row)) - np.repeat(ends - size[order], size[order])
        left_out = np.where(is_even[row] & (nth == 1), count[row] - 2, 0)
        places = first[row] + nth + left_out
        values = np.where(is_raw[row], np.concatenate(self._values)[places], value[row])
        moments = np.concatenate(self._moments)[places]
        return ReadAnswer(
            self.series,
            index[row].astype(np.int32),
            moments,
            values,
            self.is_partial,
            left_out.astype(np.int32),
        )

    def _proves(self, rows: slice | int, count: NDArray[np.int64] | np.int64) -> NDArray[np.bool_]:
        """Whether rows have a sample at each of `count` moments, all of their value; sums of fractions are off by rounding."""
        total, unit = self._total[rows], self._unit[rows]
        slack = np.where(unit == np.floor(unit), 0.0, 1e-14 * total)
        return np.asarray(np.abs(total - unit * count) <= slack)

    def _name(self, row: int) -> str:
        return str(self.series[self._index[row]].get(self._label, ""))

    def _add(self, moments: NDArray[np.int64], values: NDArray[np.float64]) -> int:
        at = self._length
        self._moments.append(moments)
        self._values.append(values)
        self._length += len(moments)
        return at
