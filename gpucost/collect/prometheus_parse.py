"""Reads an instant query's JSON answer (a matrix) from a stream of bytes, without building Python objects per sample."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucost.collect.prometheus_numbers import samples
from gpucost.errors import SourceError
from gpucost.store.samples import Answer
from gpucost.store.series import Labels

if TYPE_CHECKING:
    from numpy.typing import NDArray

# These byte sequences cannot occur inside a JSON string: a quote in there is escaped, and one that ends a string is
# followed by a comma, a colon or a closing bracket.
_RESULT = b'"result":['
_SERIES = b'{"metric":{'
_VALUES = b',"values":[['
_END = b"]]"
_NEXT = b'"]]},'
_BETWEEN = b"],["

_HEAD_LIMIT = 1 << 16
_CACHE_LIMIT = 300_000


class Truncated(Exception):
    """The body ended before the answer did."""


class LabelCache:
    """Labels by their JSON text: a series that comes back in the next window is not parsed again.

    `metric` is the name that the samples are stored under, whatever spelling the server uses.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, bytes], Labels] = {}

    def labels(self, metric: str, text: bytes) -> Labels:
        """The labels that `text` (a JSON object) says, `__name__` replaced by `metric`."""
        known = self._known.get((metric, text))
        if known is None:
            known = Labels(json.loads(text))
            known["__name__"] = metric
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            self._known[metric, text] = known
        return known


class MatrixReader:
    """Takes the body in chunks of any size; `finish` gives the answer, the server's warnings beside it.

    Whole series are parsed as they arrive, so that only one chunk and an unfinished series are held as text.
    """

    def __init__(self, metric: str, cache: LabelCache) -> None:
        self._metric = metric
        self._cache = cache
        self._head: bytes | None = None
        self._rest = b""
        self._foreign: bytearray | None = None
        self._series: list[Labels] = []
        self._parts: list[tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]] = []
        self.warnings: list[str] = []

    def feed(self, chunk: bytes) -> None:
        """Takes the next bytes of the body."""
        if self._foreign is not None:
            self._foreign += chunk
            return
        self._rest += chunk
        if self._head is None:
            at = self._rest.find(_RESULT)
            if at < 0:
                if len(self._rest) > _HEAD_LIMIT:
                    self._foreign, self._rest = bytearray(self._rest), b""
                return
            self._head, self._rest = self._rest[: at + len(_RESULT)], self._rest[at + len(_RESULT) :]
        last = self._rest.rfind(_SERIES)
        if last > 0:
            self._take(self._rest[:last])
            self._rest = self._rest[last:]

    def finish(self) -> Answer:
        """The whole answer. Raises Truncated for a body cut short, SourceError for one that is no matrix."""
        if self._foreign is not None:
            self._whole(bytes(self._foreign))
        elif self._head is None or not self._rest.startswith(_SERIES):
            # Empty, or laid out with spaces by some proxy: no series was taken yet, and the slow way reads everything.
            self._whole((self._head or b"") + self._rest)
        else:
            self._check(_document(self._head + self._last()))
        if not self._parts:
            return Answer([], np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.float64))
        index, ts_ms, values = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return Answer(self._series, index, ts_ms, values)

    def _last(self) -> bytes:
        """Takes the last series; returns the bytes after it, which close the document."""
        values = self._rest.find(_VALUES)
        end = self._rest.find(_END, values) + len(_END) if values >= 0 else -1
        if end >= len(_END) and self._rest[end : end + 2] == b"}]":
            self._take(self._rest[: end + 1])
            return self._rest[end + 1 :]
        try:
            item, length = json.JSONDecoder().raw_decode(text := self._rest.decode())
        except ValueError as error:
            raise Truncated("the answer ends in the middle of a series") from error
        self._take_slowly(item)
        return text[length:].encode()

    def _take(self, text: bytes) -> None:
        """Parses complete series: their labels one by one, all their samples at once."""
        bodies: list[bytes] = []
        first = len(self._series)
        for part in text.split(_SERIES)[1:]:
            at = part.find(_VALUES)
            if at < 0:
                continue  # only native histograms
            body = part[at + len(_VALUES) :]
            # Native histograms may follow the values; they end with another bracket.
            bodies.append(body[: 1 - len(_NEXT)] if body.endswith(_NEXT) else body[: body.find(_END)])
            self._series.append(self._cache.labels(self._metric, b"{" + part[:at]))
        if not bodies:
            return
        joined = _BETWEEN.join(bodies)
        ts_ms, values, starts = samples(joined) or _any_samples(joined)
        ends = np.cumsum([len(body) + len(_BETWEEN) for body in bodies])
        counts = np.diff(np.searchsorted(starts, ends), prepend=0)
        self._parts.append((np.repeat(np.arange(first, len(self._series), dtype=np.int32), counts), ts_ms, values))

    def _whole(self, body: bytes) -> None:
        document = _document(body)
        self._check(document)
        for item in document["data"]["result"] or []:
            self._take_slowly(item)

    def _take_slowly(self, item: dict[str, Any]) -> None:
        pairs = item.get("values") or []
        if not pairs:
            return
        index = np.full(len(pairs), len(self._series), dtype=np.int32)
        self._series.append(self._cache.labels(self._metric, json.dumps(item["metric"]).encode()))
        times = np.rint(np.array([float(t) for t, _ in pairs]) * 1000).astype(np.int64)
        values = np.array([float("nan" if v is None else v) for _, v in pairs], dtype=np.float64)
        self._parts.append((index, times, values))

    def _check(self, document: dict[str, Any]) -> None:
        if document.get("status") != "success":
            raise SourceError(f"the server answered: {document.get('error') or document.get('status')}")
        data = document.get("data")
        if not isinstance(data, dict) or data.get("resultType", "matrix") != "matrix":
            raise SourceError("the server did not answer with a matrix: is it a Prometheus?")
        self.warnings = [str(w) for w in document.get("warnings") or []]
        if document.get("isPartial"):
            self.warnings.append("the server says that its answer is partial")


def _any_samples(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """The same as `samples` for numbers of any shape, more slowly."""
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(np.frombuffer(text, np.uint8) == ord("[")) + 1))
    plain = text.translate(None, b'[]"')
    if b"null" in plain:  # how some servers write NaN
        plain = plain.replace(b"null", b"nan")
    try:
        numbers = np.fromstring(plain, dtype=np.float64, sep=",")
    except ValueError:
        numbers = np.empty(0)
    if len(numbers) != 2 * len(starts):
        raise SourceError("the server's answer holds a sample that is no number")
    return np.rint(numbers[::2] * 1000).astype(np.int64), numbers[1::2].copy(), starts


def _document(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError as error:
        raise Truncated("the answer is no complete JSON document") from error
    if not isinstance(document, dict):
        raise SourceError("the server did not answer like a Prometheus")
    return document
