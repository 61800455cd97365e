"""Derive constant series from hourly sums: all series of a scrape target have samples at its scrapes.

The scrape times are read from a few series. For the others, only an hourly sum is queried. If it is the
series' value times the number of scrapes, the series had that value at each scrape, because no sample exceeds
the value and none is between scrapes. Hours without this proof are queried raw. All of this holds for whole
hours: ranges [h, h + 1 h).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpucost.periods import MS_PER_HOUR, Span
from gpucost.records import frozen_dataclass, grouped
from gpucost.store.metrics import LONGEST_SILENCE_MS, ReadAnswer, begins, series_key, spread

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpucost.collect.prometheus.parse import Floats, Integers
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


class Kept(NamedTuple):
    """Samples that represent groups of samples: positions, bounds by group, and the number left out before each.

    With `n` groups, `g` is the first and last of equal samples in group `g`, and `n + g` their evenly spaced runs.
    """

    position: Integers
    bounds: Integers
    left_out: Integers

    @property
    def has_uneven(self) -> bool:
        """Whether some runs are not evenly spaced from their first to their last sample."""
        return len(self.position) > 2 * int(self.bounds[len(self.bounds) // 2])

    @classmethod
    def of(cls, ts_ms: Integers, bounds: Integers, *columns: Integers) -> Kept:
        """The samples to keep of groups of samples, which are equal in all columns."""
        apart = np.diff(ts_ms)
        new = begins(np.repeat(np.arange(len(bounds) - 1), np.diff(bounds)), *columns)
        new[1:] |= apart > LONGEST_SILENCE_MS
        is_kept = new | np.append(new[1:], True)
        ends = np.flatnonzero(is_kept)
        is_kept[1:-1] |= apart[1:] != apart[:-1]
        runs = np.flatnonzero(is_kept)
        return cls(
            np.append(ends, runs),
            np.append(np.searchsorted(ends, bounds[:-1]), len(ends) + np.searchsorted(runs, bounds)),
            np.append(np.diff(ends, prepend=-1), np.diff(runs, prepend=-1)) - 1,
        )


def _hours(answer: ReadAnswer, span: Span) -> Integers:
    return (answer.ts_ms - span[0]) // MS_PER_HOUR


@frozen_dataclass
class Scrapes:
    """Scrape times of the kube-state-metrics targets, by target and hour of `span`.

    `ts_ms`: all times, by target and hour. `count`: number of times, 0 if not proven. `kept`: the times to keep of
    each hour of each target.
    """

    span: Span
    names: tuple[str, ...]
    targets: Mapping[Target, int]
    ts_ms: Integers
    count: Integers
    kept: Kept


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
    kept = Kept.of(ts_ms, np.append(0, np.cumsum(count)))
    count = count.reshape(most.shape)
    # Prometheus 2 includes a range's left end, Prometheus 3 does not: scrapes there may be counted twice.
    count[scraped[0, (scraped[0] >= 0) & ((scraped[1] + 1) % MS_PER_HOUR == 0)]] = 0
    count[count != most] = 0
    return Scrapes(span, names, targets, ts_ms, count, kept)


@dataclass
class Hours:
    """The series of one metric, queried as `name`, by hour, and the times of their samples: at a target's
    scrapes, or as in an answer.

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
        targets = _target_numbers(self.series, self.scrapes.names, self.scrapes.targets)
        self._target = targets[self._index]
        count = np.where(self._target >= 0, self.scrapes.count[self._target, self._hour], 0)
        # Sums of fractions have rounding errors.
        slack = np.where(self.unit == np.floor(self.unit), 0.0, 1e-14 * self.sums.values)
        self._is_whole = (count > 0) & (np.abs(self.sums.values - self.unit * count) <= slack)
        self._numbers: dict[int, int] = {}
        # from answers: series, hour, times, values
        self._samples: list[tuple[int, int, Integers, Floats]] = []

    def unproven(self) -> dict[int, set[str]]:
        """Hours to query raw, and their objects; a series without a name is listed under ''."""
        objects: dict[int, set[str]] = defaultdict(set)
        for row in np.flatnonzero(~self._is_whole).tolist():
            objects[int(self._hour[row])].add(self._name(row))
        return objects

    def read(self, answers: Sequence[ReadAnswer], hour: int | None = None) -> None:
        """Add raw samples: of unproven rows of an hour, or all samples after the last whole hour."""
        if not self._numbers:
            keys = (series_key(self.source, labels) for labels in self.series)
            self._numbers = {key: position for position, key in enumerate(keys)}
        concerned = set(self._index[~self._is_whole & (self._hour == hour)].tolist())
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

    def answer(self) -> ReadAnswer:
        """All samples, by series and in time order; for each whole hour the ones to keep."""
        scrapes, whole = self.scrapes, np.flatnonzero(self._is_whole)
        slot = self._target[whole] * scrapes.count.shape[1] + self._hour[whole]
        # the first of the series with these scrapes has the distances between them
        group = slot.copy()
        group[np.unique(slot, return_index=True)[1]] += scrapes.count.size
        bounds = scrapes.kept.bounds
        row, at = spread(bounds[group], np.diff(bounds)[group])
        positions = [np.full(len(ts_ms), position) for position, _, ts_ms, _ in self._samples]
        index = np.concatenate((self._index[whole][row], *positions))
        moments = scrapes.ts_ms[scrapes.kept.position[at]]
        ts_ms = np.concatenate((moments, *(ts_ms for _, _, ts_ms, _ in self._samples)))
        values = np.concatenate((self.value[whole][row], *(values for *_, values in self._samples)))
        left_out = np.pad(scrapes.kept.left_out[at], (0, len(index) - len(row)))
        order = np.lexsort((ts_ms, index))
        return ReadAnswer(
            self.series,
            index[order].astype(np.int32),
            ts_ms[order],
            values[order],
            self.is_partial,
            left_out[order].astype(np.int32),
        )

    def _name(self, row: int) -> str:
        return str(self.series[self._index[row]].get(self.selector.shard_label, ""))
