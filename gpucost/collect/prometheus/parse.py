"""Parse an instant query's JSON answer (a matrix) from a byte stream, without Python objects per sample.

Every byte is checked: text in another layout than Prometheus' is parsed by json.loads, and anything that
json.loads rejects, or that is not a matrix of numbers, is garbled.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucost.collect.base import TooMuch
from gpucost.store.metrics import Labels, ReadAnswer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Flags = NDArray[np.bool_]
    Words = NDArray[np.uint64]

# These byte sequences cannot occur inside a JSON string: quotes inside are escaped, and a quote that ends a
# string is followed by a comma, a colon or a closing bracket.
_RESULT = b'"result":['
_SERIES = b'{"metric":{'
_VALUES = b',"values":[['
_NEXT = b'"]]},'
_BETWEEN = b"],["

_PIECE = 1 << 20
# The labels of a series take as much memory as this many samples.
SERIES_WEIGHT = 50
# Number of label sets kept for the next window.
CACHE_LIMIT = 300_000
# Limit of text parsed by json.loads, a series or an answer in another layout; it takes about ten times as
# much memory.
_TEXT_LIMIT = 32 << 20

_NUMBER = rb"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]{1,3}+)?+"
_TIME = rb"(?:0|[1-9][0-9]{0,11}+)(?:\.[0-9]++)?+(?:[eE][+]?[0-9]{1,2}+)?+"
_VALUE = rb"(?:%b|NaN|[+-]?Inf)" % _NUMBER
_SAMPLES = re.compile(rb'%b,(?:"%b"|null)(?:\],\[%b,(?:"%b"|null))*+' % (_TIME, _VALUE, _TIME, _VALUE))
_LATEST_SECOND = 1e12


NO_SAMPLES = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)


class Garbled(Exception):
    """The body is truncated or is not an answer. A retry may succeed."""


@lru_cache(CACHE_LIMIT)
def labels_of(metric: str, text: bytes) -> Labels:
    """The labels in `text` (a JSON object), cached per series. Raises Garbled.

    `metric` is the stored name for any spelling of the server; if it is empty, the server's name is kept.
    """
    document = whole_json(text)
    if not isinstance(document, dict) or not all(isinstance(value, str) for value in document.values()):
        raise Garbled("the answer contains invalid labels")
    return Labels(document | {"__name__": metric or document.get("__name__", "")})


class MatrixReader:
    """Parser of a body in chunks of any size. `finish` returns the answer; `warnings` and `is_partial` are
    the server's.

    Whole series are parsed as they arrive, so only one chunk and an unfinished series are kept as text.
    Raises Garbled, and TooMuch if the answer takes more memory than `most_samples`.
    """

    def __init__(self, metric: str, most_samples: int = 1 << 62) -> None:
        self._metric = metric
        self._most_samples = most_samples
        self._samples = 0
        self._head: bytes | None = None  # the text before the first series
        self._text = bytearray()  # the unparsed text
        self._next = _PIECE  # the length from which it is parsed
        self._series: list[Labels] = []
        self._parts: list[tuple[NDArray[np.int32], Integers, Floats]] = [NO_SAMPLES]
        self.warnings: list[str] = []
        self.is_partial = False

    def feed(self, chunk: bytes) -> None:
        """Parse the next bytes of the body."""
        self._text += chunk
        if len(self._text) >= self._next:
            self._take_in()

    def finish(self) -> ReadAnswer:
        """The whole answer."""
        self._take_in()
        if self._head is None:
            for item in self._series_of(whole_json(bytes(self._text))):  # empty, or reformatted by a proxy
                self._take_slowly(item)
        else:
            closing = self._last()
            # A mark in place of the series proves that they were in their usual position.
            if self._series_of(whole_json(self._head + b"0" + closing)) != [0]:
                raise Garbled("the answer is not a matrix")
        index, ts_ms, values = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return ReadAnswer(self._series, index, ts_ms, values, self.is_partial)

    def _take_in(self) -> None:
        text = self._text
        if self._head is None:
            at = text.find(_RESULT) + len(_RESULT)
            if at >= len(_RESULT) and text.startswith(_SERIES, at):
                self._head = bytes(text[:at])
                del text[:at]
        if self._head is not None and (last := text.rfind(_SERIES)) > 0:
            self._take(bytes(text[:last]))
            del text[:last]
        if len(text) > _TEXT_LIMIT:
            raise TooMuch(
                f"the answer contains more than {_TEXT_LIMIT >> 20} MiB that have to be parsed at once"
            )
        self._next = len(text) + _PIECE

    def _last(self) -> bytes:
        """Parse the last series; return the bytes after it, which close the document."""
        try:
            item, length = json.JSONDecoder().raw_decode(decoded := self._text.decode())
        except (ValueError, RecursionError) as error:
            raise Garbled("the answer ends in the middle of a series") from error
        self._take_slowly(item)
        return decoded[length:].encode()

    def _take(self, text: bytes) -> None:
        """Parse complete series, each followed by a comma: their labels one by one, all samples at once."""
        bodies: list[bytes] = []
        first = len(self._series)
        before, *parts = text.split(_SERIES)
        if before:
            raise Garbled("the answer contains unexpected text between series")
        for part in parts:
            at = part.find(_VALUES)
            if at < 0 or not part.endswith(_NEXT):
                self._flush(first, bodies)
                if not part.endswith(b"},"):
                    raise Garbled("the answer contains unexpected text between series")
                self._take_slowly(whole_json(_SERIES + part[:-1]))  # next to native histograms
                first, bodies = len(self._series), []
                continue
            bodies.append(part[at + len(_VALUES) : 1 - len(_NEXT)])
            self._series.append(labels_of(self._metric, b"{" + part[:at]))
        self._flush(first, bodies)

    def _flush(self, first: int, bodies: list[bytes]) -> None:
        """Add the samples of the last series, starting at `first`."""
        if not bodies:
            return
        joined = _BETWEEN.join(bodies)
        ts_ms, values, starts = _samples(joined)
        ends = np.cumsum([len(body) + len(_BETWEEN) for body in bodies])
        counts = np.diff(np.searchsorted(starts, ends), prepend=0)
        index = np.repeat(np.arange(first, len(self._series), dtype=np.int32), counts)
        self._parts.append((index, ts_ms, values))
        self._samples += len(ts_ms)
        if self._samples + SERIES_WEIGHT * len(self._series) > self._most_samples:
            raise TooMuch(
                f"the answer contains more than {self._samples:,} samples of {len(self._series):,} series"
            )

    def _take_slowly(self, item: object) -> None:
        if (
            not isinstance(item, dict)
            or not isinstance(item.get("metric"), dict)
            or not {"values", "histograms"} & item.keys()
        ):
            raise Garbled("the answer contains a series without labels or samples")
        pairs = item.get("values") or []
        if not isinstance(pairs, list) or not all(
            isinstance(pair, list) and len(pair) == 2 for pair in pairs
        ):
            raise Garbled("the answer contains an invalid sample")
        labels = labels_of(self._metric, json.dumps(item["metric"]).encode())
        if pairs:
            self._series.append(labels)
            # in Prometheus' layout, without the brackets around all of them
            self._flush(len(self._series) - 1, [json.dumps(pairs, separators=(",", ":")).encode()[2:-2]])

    def _series_of(self, document: object) -> list[Any]:
        """The series of a whole document; its warnings are kept."""
        data = document.get("data") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(data, dict):
            raise Garbled("the answer is not Prometheus' JSON")
        if document.get("status") != "success" or data.get("resultType") != "matrix":
            raise Garbled(f"the answer is not a matrix: {document.get('error') or document.get('status')}")
        result = data.get("result", 0)
        if result is not None and not isinstance(result, list):
            raise Garbled("the answer is not a matrix")
        self.warnings, self.is_partial = remarks(document)
        return result or []


def remarks(document: dict[str, Any]) -> tuple[list[str], bool]:
    """The server's warnings, and whether they mean that the answer is partial.

    Prometheus annotates queries (`PromQL info: …`, `PromQL warning: …`), as warnings or infos; any other
    warning is from a store that did not answer. VictoriaMetrics sets `isPartial`. Raises Garbled.
    """
    warnings, infos = document.get("warnings") or [], document.get("infos") or []
    if not isinstance(warnings, list) or not isinstance(infos, list):
        raise Garbled("the answer contains invalid warnings")
    texts = [str(text) for text in (*warnings, *infos)]
    is_partial = not all(text.startswith(("PromQL info:", "PromQL warning:")) for text in map(str, warnings))
    if document.get("isPartial") not in (None, False):
        return [*texts, "the server marked its answer as partial"], True
    return texts, is_partial


def whole_json(text: bytes) -> object:
    """A whole JSON text in well-formed UTF-8, parsed. Raises Garbled."""
    try:
        decoded = text.decode()
        document: object = json.loads(decoded)
        if "\\u" in decoded:
            json.dumps(document, ensure_ascii=False).encode()  # half a surrogate pair is not text
    except (ValueError, RecursionError) as error:
        raise Garbled("the answer is not a complete JSON document") from error
    return document


def _samples(text: bytes) -> tuple[Integers, Floats, Integers]:
    """Times (ms), values and byte positions of samples in text like
    `1700000000.123,"45"],[1700000060.123,"46"`.

    Raises Garbled.
    """
    if not _SAMPLES.fullmatch(text):
        raise Garbled("the answer contains a sample that is not a number")
    starts = np.concatenate(
        (np.zeros(1, np.int64), np.flatnonzero(np.frombuffer(text, np.uint8) == ord("[")) + 1)
    )
    # Some servers write NaN as null.
    plain = text.translate(None, b'[]"').replace(b"null", b"nan")
    seconds, values = np.fromstring(plain, dtype=np.float64, sep=",").reshape(-1, 2).T
    if not ((seconds >= 0) & (seconds < _LATEST_SECOND)).all():
        raise Garbled("the answer contains a sample at an impossible time")
    return np.rint(seconds * 1000).astype(np.int64), values.copy(), starts
