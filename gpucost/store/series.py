"""The dictionary of series: labels are stored once, samples refer to them by number."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from gpucost.store.samples import SampleWindow

UNKNOWN = -1


class Labels(dict[str, str]):
    """Labels that remember their hash: a series that comes back in every window is hashed once."""

    __slots__ = ("_key", "_source")

    def key(self, source: str) -> int:
        """The same as `series_key(source, self)`."""
        if getattr(self, "_source", None) != source:
            self._source = source
            self._key = _hash(source, self)
        return self._key


def series_key(source: str, labels: Mapping[str, str]) -> int:
    """A 64-bit hash of source, metric and labels; empty labels do not count (Prometheus knows no difference)."""
    return labels.key(source) if isinstance(labels, Labels) else _hash(source, labels)


def _hash(source: str, labels: Mapping[str, str]) -> int:
    pairs = sorted((name, value) for name, value in labels.items() if value)
    text = "\x00".join([source, *(part for pair in pairs for part in pair)])
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


@dataclass(frozen=True, slots=True)
class Known:
    """Series numbers, by answer and position (UNKNOWN where a series had no sample), and the labels behind each number."""

    ids: list[NDArray[np.int32]]
    labels: dict[int, Mapping[str, str]]
    new: int


def identify(
    con: duckdb.DuckDBPyConnection,
    window: SampleWindow,
    answers: Sequence[Sequence[Mapping[str, str]]],
    seen: Sequence[NDArray[np.bool_]],
) -> Known:
    """Looks up the numbers of all series that were seen, and enters those that are new."""
    by_key: dict[int, Mapping[str, str]] = {}
    keys: list[NDArray[np.uint64]] = []
    for series, used in zip(answers, seen, strict=True):
        found = np.zeros(len(series), dtype=np.uint64)
        for i in np.flatnonzero(used).tolist():
            key = series_key(window.source, series[i])
            by_key[key] = series[i]
            found[i] = key
        keys.append(found)
    distinct = np.fromiter(by_key, dtype=np.uint64, count=len(by_key))
    wanted: dict[str, NDArray[Any]] = {"key": distinct, "position": np.arange(len(distinct), dtype=np.int32)}
    with sqlfiles.frames(con, window_keys=wanted):
        rows = sqlfiles.run(con, "series_known").fetchnumpy()
    numbers = np.full(len(distinct), UNKNOWN, dtype=np.int32)
    numbers[np.asarray(rows["position"])] = np.asarray(rows["series_id"])
    missing = np.flatnonzero(numbers == UNKNOWN)
    if len(missing):
        first = 1 + con.execute("SELECT coalesce(max(series_id), 0) FROM series").fetchall()[0][0]
        numbers[missing] = np.arange(first, first + len(missing), dtype=np.int32)
        labels = list(by_key.values())
        _enter(con, window, distinct[missing], numbers[missing], [labels[i] for i in missing.tolist()])
    return Known(
        ids=_numbers_of(keys, seen, distinct, numbers),
        labels=dict(zip(numbers.tolist(), by_key.values(), strict=True)),
        new=len(missing),
    )


def _numbers_of(
    keys: Sequence[NDArray[np.uint64]],
    seen: Sequence[NDArray[np.bool_]],
    distinct: NDArray[np.uint64],
    numbers: NDArray[np.int32],
) -> list[NDArray[np.int32]]:
    order = np.argsort(distinct)
    result: list[NDArray[np.int32]] = []
    for found, used in zip(keys, seen, strict=True):
        ids = np.full(len(found), UNKNOWN, dtype=np.int32)
        ids[used] = numbers[order[np.searchsorted(distinct, found[used], sorter=order)]]
        result.append(ids)
    return result


def _enter(
    con: duckdb.DuckDBPyConnection,
    window: SampleWindow,
    keys: NDArray[np.uint64],
    numbers: NDArray[np.int32],
    labels: list[Mapping[str, str]],
) -> None:
    shown = [sorted((n, v) for n, v in one.items() if v and n != "__name__") for one in labels]
    new_series: dict[str, NDArray[Any]] = {
        "series_id": numbers,
        "key": keys,
        "cluster": _objects([one.get(window.cluster_label) or window.default_cluster for one in labels]),
        "metric": _objects([one["__name__"] for one in labels]),
        # A metric without labels gets an empty name, which the query takes away again: DuckDB reads types from elements.
        "label_names": _objects([[n for n, _ in pairs] or [""] for pairs in shown]),
        "label_values": _objects([[v for _, v in pairs] or [""] for pairs in shown]),
    }
    with sqlfiles.frames(con, new_series=new_series):
        sqlfiles.run(con, "series_insert", {"source": window.source})


def _objects(items: Sequence[object]) -> NDArray[Any]:
    column = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        column[i] = item
    return column
