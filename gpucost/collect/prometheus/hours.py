"""Derive constant series from hourly sums: all series of a scrape target have samples at its scrapes.

The scrape times are read from a few series. For the others, only an hourly sum is queried. If it is the
series' value times the number of scrapes, the series had that value at each scrape, because no sample exceeds
the value and none is between scrapes. Hours without this proof are queried raw. All of this holds for whole
hours: ranges [h, h + 1 h).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gpucost.periods import MS_PER_HOUR, Span
from gpucost.records import frozen_dataclass, grouped
from gpucost.store.metrics import LONGEST_SILENCE_MS, ReadAnswer, series_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpucost.collect.prometheus.parse import Flags, Floats, Integers
    from gpucost.collect.prometheus.queries import Selector

# Labels of kube_node_info that no scrape target has, and labels that name an object if labels are honored,
# otherwise a target.
_OF_OBJECTS = """
    __name__ node kernel_version os_image container_runtime_version kubelet_version kubeproxy_version
    deprecated_kubelet_version deprecated_kubeproxy_version provider_id pod_cidr system_uuid internal_ip
    namespace pod container uid
"""
# Maximum number of series used to determine the scrapes of one target; with more, the target is too unsteady.
_MOST_SPEAKERS = 8

Target = tuple[str | None, ...]


def _hours(answer: ReadAnswer, span: Span) -> Integers:
    return (answer.ts_ms - span[0]) // MS_PER_HOUR


@frozen_dataclass
class Scrapes:
    """Scrape times of the kube-state-metrics targets, by target and hour of `span`.

    `ts_ms`: all times. `first`: position of a target's first time in an hour. `count`: number of times, 0 if
    not proven. `is_even`: evenly spaced, without a silence.
    """

    span: Span
    names: tuple[str, ...]
    targets: Mapping[Target, int]
    ts_ms: Integers
    first: Integers
    count: Integers
    is_even: Flags

    def moments(self, target: int, hour: int) -> Integers:
        """The scrapes of a target in an hour."""
        return self.ts_ms[self.first[target, hour] :][: self.count[target, hour]]


def _target_names(series: Sequence[Mapping[str, str]]) -> tuple[str, ...]:
    return tuple(sorted({name for labels in series for name in labels}.difference(_OF_OBJECTS.split())))


def _target_numbers(
    series: Sequence[Mapping[str, str]], names: tuple[str, ...], targets: Mapping[Target, int]
) -> Integers:
    """The target number of each series; -1 for other targets."""
    return np.array([targets.get(tuple(map(labels.get, names)), -1) for labels in series], np.int64)


def _table(counts: ReadAnswer, span: Span) -> Integers:
    """Samples by series and hour."""
    table = np.zeros((len(counts.series), (span[1] - span[0]) // MS_PER_HOUR), np.int64)
    table[counts.series_index, _hours(counts, span)] = counts.values.astype(np.int64)
    return table


def speakers(counts: ReadAnswer, span: Span) -> set[str]:
    """Names of the nodes whose kube_node_info series together include all scrapes.

    `counts` is the number of samples of each series in each hour.
    """
    table = _table(counts, span)
    names = _target_names(counts.series)
    nodes: set[str] = set()
    by_target = grouped((tuple(map(labels.get, names)), at) for at, labels in enumerate(counts.series))
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
    """The scrapes of all targets, from their speakers' samples; known if no series has more."""
    names, table = _target_names(counts.series), _table(counts, span)
    found = dict.fromkeys(tuple(map(labels.get, names)) for labels in counts.series)
    targets = {target: number for number, target in enumerate(found)}
    most = np.zeros((len(targets), table.shape[1]), np.int64)
    np.maximum.at(most, _target_numbers(counts.series, names, targets), table)
    scraped = np.concatenate(
        [
            np.stack((_target_numbers(answer.series, names, targets)[answer.series_index], answer.ts_ms))
            for answer in samples
        ],
        axis=1,
    )
    is_inside = (scraped[0] >= 0) & (scraped[1] >= span[0]) & (scraped[1] < span[1])
    target, ts_ms = np.unique(scraped[:, is_inside], axis=1)
    slot = target * table.shape[1] + (ts_ms - span[0]) // MS_PER_HOUR
    count = np.bincount(slot, minlength=most.size)
    first = np.cumsum(count) - count
    count, first = count.reshape(most.shape), first.reshape(most.shape)
    # Prometheus 2 includes a range's left end, Prometheus 3 does not: scrapes there may be counted twice.
    count[scraped[0, (scraped[0] >= 0) & ((scraped[1] + 1) % MS_PER_HOUR == 0)]] = 0
    count[count != most] = 0
    result = Scrapes(span, names, targets, ts_ms, first, count, np.zeros(count.shape, np.bool_))
    for row, hour in np.argwhere(count > 2).tolist():
        apart = np.diff(result.moments(row, hour))
        result.is_even[row, hour] = apart[0] <= LONGEST_SILENCE_MS and (apart == apart[0]).all()
    return result


_ANY_NODE = "*"
_ON_NODES = {"kube_pod_status_scheduled_time", "kube_pod_start_time", "kube_pod_container_info"}
# target, object, its node (None: with or without one), hour of the window
Life = tuple[int, str, str | None, int]


@dataclass
class Hours:
    """The series of one metric, queried as `name`, by hour, and the times of their samples: at a target's
    scrapes, during an object's life, or as in an answer.

    Rows are (series, hour) pairs, as in `sums`, the sums of their samples. `unit` is the contribution of each
    sample to the sum, NaN if unknown; `value` is the value of each sample.
    """

    scrapes: Scrapes
    source: str
    selector: Selector
    name: str
    sums: ReadAnswer
    unit: Floats
    value: Floats

    def __post_init__(self) -> None:
        self.series, self.is_partial = list(self.sums.series), self.sums.is_partial
        self._index, self._hour = self.sums.series_index, _hours(self.sums, self.scrapes.span)
        self._targets = _target_numbers(self.series, self.scrapes.names, self.scrapes.targets)
        self._target = self._targets[self._index]
        count = np.where(self._target >= 0, self.scrapes.count[self._target, self._hour], 0)
        self._is_whole = (count > 0) & self._proves(slice(None), count)
        self._is_open = ~self._is_whole
        self._numbers: dict[int, int] = {}
        # from answers and lives: series, hour, times, values
        self._samples: list[tuple[int, int, Integers, Floats]] = []

    def borrow(self, lives: Mapping[Life, Integers]) -> None:
        """Give rows the times of their object, if the numbers of samples agree: no series has samples without
        its object.

        A series with a node, or of a metric that only pods on nodes have, has no samples while the pod is on
        another node.
        """
        has_node = any("node" in labels for labels in self.series)
        node = _ANY_NODE if self.selector.metric in _ON_NODES else None
        for row in np.flatnonzero(self._is_open).tolist():
            position, hour = int(self._index[row]), int(self._hour[row])
            if has_node:
                node = self.series[position].get("node", "")
            for place in (None, node):
                life = lives.get((int(self._target[row]), self._name(row), place, hour))
                if life is not None and self._proves(row, np.int64(len(life))):
                    self._samples.append((position, hour, life, np.full(len(life), self.value[row])))
                    self._is_open[row] = False
                    break

    def unproven(self) -> dict[int, set[str]]:
        """Hours to query raw, and their objects; a series without a name is listed under ''."""
        objects: dict[int, set[str]] = defaultdict(set)
        for row in np.flatnonzero(self._is_open).tolist():
            objects[int(self._hour[row])].add(self._name(row))
        return objects

    def read(self, answers: Sequence[ReadAnswer], hour: int | None = None) -> None:
        """Add raw samples: of unproven rows of an hour, or all samples after the last whole hour."""
        if not self._numbers:
            keys = (series_key(self.source, labels) for labels in self.series)
            self._numbers = {key: position for position, key in enumerate(keys)}
        concerned = set(self._index[self._is_open & (self._hour == hour)].tolist())
        for answer in answers:
            self.is_partial |= answer.is_partial
            hours = _hours(answer, self.scrapes.span)
            wanted = np.flatnonzero(hours >= self.scrapes.count.shape[1] if hour is None else hours == hour)
            cuts = np.flatnonzero(np.diff(answer.series_index[wanted]) | np.diff(hours[wanted])) + 1
            for part in np.split(wanted, cuts) if len(wanted) else ():
                labels = answer.series[answer.series_index[part[0]]]
                key = series_key(self.source, labels)
                if hour is None and key not in self._numbers:
                    self._numbers[key] = len(self.series)
                    self.series.append(labels)
                position = self._numbers.get(key, -1)
                if hour is None or position in concerned:
                    at = int(hours[part[0]])
                    self._samples.append((position, at, answer.ts_ms[part], answer.values[part]))

    def lives(self) -> dict[Life, Integers]:
        """Times at which objects existed, in hours that were incomplete for some of their series.

        Empty if an object was absent between two scrapes: the cause may have hidden samples of other series,
        too.
        """
        label, end = self.selector.shard_label, self.scrapes.count.shape[1]
        found = [(position, hour, ts_ms) for position, hour, ts_ms, _ in self._samples if hour < end]
        names = {(self.series[position].get(label), hour) for position, hour, _ in found}
        for row in np.flatnonzero(self._is_whole).tolist() if names else ():
            hour = int(self._hour[row])
            if (self._name(row), hour) in names:
                found.append((int(self._index[row]), hour, self.scrapes.moments(self._target[row], hour)))
        pieces: dict[Life, list[Integers]] = defaultdict(list)
        for position, hour, ts_ms in found:
            labels, target = self.series[position], int(self._targets[position])
            name, node = labels.get(label), labels.get("node", "")
            if name and target >= 0:
                for place in {None, node, _ANY_NODE if node else None}:
                    pieces[target, name, place, hour].append(ts_ms)
        lives = {}
        for key, parts in pieces.items():
            life, scraped = np.unique(np.concatenate(parts)), self.scrapes.moments(key[0], key[-1])
            if np.array_equal(scraped[(scraped >= life[0]) & (scraped <= life[-1])], life):
                lives[key] = life
        return lives

    def answer(self) -> ReadAnswer:
        """All samples, by series and in time order; only the first and last of an hour's even scrapes."""
        scrapes, whole = self.scrapes, np.flatnonzero(self._is_whole)
        slots = self._target[whole], self._hour[whole]
        first, count, is_even = scrapes.first[slots], scrapes.count[slots], scrapes.is_even[slots]
        size = np.where(is_even, 2, count)
        row = np.repeat(np.arange(len(whole)), size)
        nth = np.arange(len(row)) - np.repeat(np.cumsum(size) - size, size)
        left_out = np.where(is_even[row] & (nth == 1), count[row] - 2, 0)
        moments = scrapes.ts_ms[first[row] + nth + left_out]
        positions = [np.full(len(ts_ms), position) for position, _, ts_ms, _ in self._samples]
        index = np.concatenate((self._index[whole][row], *positions))
        ts_ms = np.concatenate((moments, *(ts_ms for _, _, ts_ms, _ in self._samples)))
        values = np.concatenate((self.value[whole][row], *(values for *_, values in self._samples)))
        left_out = np.pad(left_out, (0, len(index) - len(row)))
        order = np.lexsort((ts_ms, index))
        return ReadAnswer(
            self.series,
            index[order].astype(np.int32),
            ts_ms[order],
            values[order],
            self.is_partial,
            left_out[order].astype(np.int32),
        )

    def _proves(self, rows: slice | int, count: Integers | np.int64) -> Flags:
        """Whether rows have `count` samples with their value; sums of fractions have rounding errors."""
        total, unit = self.sums.values[rows], self.unit[rows]
        slack = np.where(unit == np.floor(unit), 0.0, 1e-14 * total)
        return np.asarray(np.abs(total - unit * count) <= slack)

    def _name(self, row: int) -> str:
        return str(self.series[self._index[row]].get(self.selector.shard_label, ""))
