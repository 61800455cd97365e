"""Prometheus' remote read: a request for XOR chunks, and its streamed answer.

An answer is a sequence of frames: a length, a checksum (CRC-32C) and a message with the labels and some chunks of a
series. Source: storage/remote/chunked.go, prompb/remote.proto and prompb/types.proto of prometheus/prometheus.
"""

from __future__ import annotations

import json
import re
import struct
from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Any

import google_crc32c
import numpy as np

from gpucost.collect.base import TooMuch
from gpucost.collect.prometheus.chunks import Bits, Chunks, decode, numbered
from gpucost.collect.prometheus.hours import Kept
from gpucost.collect.prometheus.parse import CACHE_LIMIT, NO_SAMPLES, SERIES_WEIGHT, Garbled
from gpucost.errors import SourceError
from gpucost.periods import MS_PER_HOUR, Span
from gpucost.records import frozen_dataclass
from gpucost.store.metrics import NONE, Labels, ReadAnswer, alike, reasons_against, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from gpucost.collect.prometheus.parse import Flags, Floats, Integers
    from gpucost.config.model import PrometheusSource

    Int32s = NDArray[np.int32]

HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Read-Version": "0.1.0",
}
STREAMED = "application/x-streamed-protobuf"

_MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)("(?:[^"\\]|\\.)*")')
_EQUAL, _NOT_EQUAL, _MATCHES, _MATCHES_NOT = range(4)
_OPERATORS = {"=": _MATCHES, "!=": _NOT_EQUAL, "=~": _MATCHES, "!~": _MATCHES_NOT}
_STREAMED_XOR_CHUNKS = 1
_XOR = 1
# Prometheus ends a series with this NaN; queries leave it out.
_STALE = np.uint64(0x7FF0000000000002)
# Number of chunks whose samples are decoded together: with fewer, steps take longer; with more, memory.
_PART_CHUNKS = 4096
# Size limit of an answer: the bytes of its samples before compression.
SAMPLE_BYTES = 16


class NotOffered(SourceError):
    """The server has no remote read, or not in a form that is read here."""


_EXTERNAL = re.compile(r"^  external_labels:\n((?:    .*\n)*)", re.MULTILINE)
_PLAIN_LABEL = re.compile(r"    (\w+): ([\w./:-]+|\"(?:[^\"\\]|\\.)*\")")


def external_labels(settings: str) -> dict[str, str] | None:
    """The external labels in Prometheus' settings, as it prints them; None if they are written in an unusual way."""
    found = _EXTERNAL.search(settings)
    labels = {}
    for line in found[1].splitlines() if found else []:
        pair = _PLAIN_LABEL.fullmatch(line)
        if pair is None:
            return None
        labels[pair[1]] = json.loads(pair[2]) if pair[2].startswith('"') else pair[2]
    return labels


# Write a request.


def request(name: str, matchers: Sequence[str], span: Span) -> bytes:
    """The body of a request for chunks of a metric in [from, to).

    `matchers` are PromQL, with JSON's strings. Raises NotOffered for another matcher.
    """
    found = [(_EQUAL, "__name__", name)]
    for matcher in matchers:
        parsed = _MATCHER.fullmatch(matcher)
        if parsed is None:
            raise NotOffered(f"remote read cannot send the matcher {matcher}")
        label, operator, text = parsed.groups()
        value = json.loads(text)
        # Prometheus ignores a matcher that is equal to its external label; a missing one is equal to "".
        found.append((_OPERATORS[operator], label, re.escape(value) if operator == "=" else value))
    query = _number(1, span[0]) + _number(2, span[1] - 1)
    for kind, label, value in found:
        query += _text(3, _number(1, kind) + _text(2, label.encode()) + _text(3, value.encode()))
    return _uncompressed(_text(1, query) + _number(2, _STREAMED_XOR_CHUNKS))


def _varint(number: int) -> bytes:
    octets = bytearray()
    while number > 127:
        octets.append(number & 127 | 128)
        number >>= 7
    octets.append(number)
    return bytes(octets)


def _number(field: int, number: int) -> bytes:
    return _varint(field << 3) + _varint(number)


def _text(field: int, text: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(text)) + text


def _uncompressed(data: bytes) -> bytes:
    """Data in snappy's format, as literals."""
    parts = [data[at : at + 65_536] for at in range(0, len(data), 65_536)]
    return _varint(len(data)) + b"".join(b"\xf4" + struct.pack("<H", len(part) - 1) + part for part in parts)


# Read an answer.


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at a byte, and the byte after it."""
    if data[at] < 128:  # nearly always
        return data[at], at + 1
    number = 0
    for shift in range(0, 70, 7):
        octet = data[at]
        at += 1
        number |= (octet & 127) << shift
        if octet < 128:
            return number, at
    raise Garbled("the answer contains a number that is too long")


@lru_cache(CACHE_LIMIT)
def _labels_of(metric: str, text: bytes, external: frozenset[tuple[str, str]]) -> Labels:
    """The labels in these fields, without external ones, cached per series. `metric` is the stored name."""
    labels, at = Labels(), 0
    try:
        while at < len(text):
            size, start = _read_varint(text, at + 1)
            end = start + size
            size, start = _read_varint(text, start + 1)
            name, start = intern(text[start : start + size].decode()), start + size
            size, start = _read_varint(text, start + 1) if start < end else (0, end)
            labels[name], at = intern(text[start : start + size].decode()), start + size
            if at != end:
                raise Garbled("the answer contains invalid labels")
    except (IndexError, UnicodeDecodeError):
        raise Garbled("the answer contains invalid labels") from None
    for name, value in external:
        if labels.get(name) == value:
            del labels[name]
    labels["__name__"] = metric
    return labels


# Tags: fields 1, 2 and 4 as texts, 3 as a number.
_FIRST, _SECOND, _ENCODING, _DATA = 10, 18, 24, 34


@frozen_dataclass
class ChunkReader:
    """Parser of the answer for one metric in [from, to).

    `is_state`: only first and last samples of equal values matter, and the distances between scrapes. `external`:
    labels that the server adds. Raises Garbled, NotOffered and TooMuch.
    """

    source: PrometheusSource
    metric: str
    span: Span
    most_samples: int
    is_state: bool
    external: frozenset[tuple[str, str]] = frozenset()

    def answer(self, data: bytes) -> ReadAnswer:
        """The samples in an answer."""
        bits = Bits(data)
        message, tag, start, end = _fields(bits, *_frames(data))
        is_series = tag == _FIRST
        start, end = start[is_series], end[is_series]
        message, tag, first, after = _fields(bits, start, end)
        # The labels of a series come first, then its chunks.
        labels_end = start.copy()
        np.maximum.at(labels_end, message[tag == _FIRST], after[tag == _FIRST])
        number, texts = numbered(bits.texts(start, labels_end))
        if SERIES_WEIGHT * len(texts) > self.most_samples:
            raise TooMuch(f"the answer contains {len(texts):,} series")
        series = [_labels_of(self.metric, text, self.external) for text in texts]
        is_chunk = tag == _SECOND
        owner = number[message[is_chunk]]
        # By series and time, as far as the fields of a message and the frames are.
        order = np.argsort(owner, kind="stable")
        owner = owner[order]
        first, after = _chunks(bits, first[is_chunk][order], after[is_chunk][order])
        if self.is_state:
            return self._states(series, owner, decode(bits, first, after, self.most_samples, is_shared=True))
        parts, most = [NO_SAMPLES], self.most_samples
        for at in range(0, len(owner), _PART_CHUNKS):
            part = slice(at, at + _PART_CHUNKS)
            chunks = decode(bits, first[part], after[part], most, is_shared=False)
            parts.append(self._raw(owner[part].astype(np.int32), chunks))
            most -= len(parts[-1][0])
        index, ts_ms, values = map(np.concatenate, zip(*parts, strict=True))
        return ReadAnswer(series, index, ts_ms, values)

    def _raw(self, owner: Int32s, chunks: Chunks) -> tuple[Int32s, Integers, Floats]:
        """All samples in the window of chunks without shared patterns: series, times and values."""
        chunks = chunks.within(self.span)
        chunk = np.repeat(chunks.pattern, np.diff(chunks.bounds))
        values = chunks.first_value[chunk] ^ chunks.changes
        is_sample = values != _STALE
        keep = slice(None) if is_sample.all() else is_sample
        return owner[chunk][keep], chunks.ts_ms[keep], values.view(np.float64)[keep]

    def _states(self, series: list[Labels], owner: Integers, chunks: Chunks) -> ReadAnswer:
        """The samples that represent all chunks in the window."""
        chunks = chunks.within(self.span)
        ts_ms, bounds = chunks.ts_ms, chunks.bounds
        chunk = np.flatnonzero(np.diff(bounds)[chunks.pattern])
        owner, pattern, first_value = owner[chunk], chunks.pattern[chunk], chunks.first_value[chunk]

        def expanded(kept: Kept, group: Integers) -> tuple[Integers, ReadAnswer]:
            """The kept samples of a group for each chunk, and the chunk of each."""
            count = np.diff(kept.bounds)[group]
            if count.sum() > self.most_samples:
                raise TooMuch(f"the answer contains more than {self.most_samples:,} samples")
            chunk, row = spread(kept.bounds[group], count)
            position = kept.position[row]
            values = first_value[chunk] ^ chunks.changes[position]
            index, left_out = owner[chunk].astype(np.int32), kept.left_out[row].astype(np.int32)
            answer = ReadAnswer(series, index, ts_ms[position], values.view(np.float64), left_out=left_out)
            is_sample = values != _STALE
            return chunk[is_sample], answer.only(is_sample)

        is_early = ts_ms[bounds[pattern[1:]]] <= ts_ms[bounds[pattern[:-1] + 1] - 1]
        if (is_early & (owner[1:] == owner[:-1])).any():  # chunks that overlap: the store sorts their samples
            return expanded(Kept(np.arange(len(ts_ms)), bounds, np.zeros(len(ts_ms), np.int64)), pattern)[1]
        kept = Kept.of(ts_ms, bounds, ts_ms // MS_PER_HOUR, chunks.changes.view(np.int64))
        of_sample, answer = expanded(kept, pattern)
        if not kept.has_uneven:
            return answer
        has_runs = np.zeros(len(pattern), np.int64)
        # The store leaves invalid samples out: then their series has scrapes of its own.
        is_valid = reasons_against(self.metric, answer.values) == NONE
        has_runs[of_sample[is_valid][self._is_first(answer.only(is_valid))]] = 1
        return expanded(kept, pattern + has_runs * (len(bounds) - 1))[1]

    def _is_first(self, answer: ReadAnswer) -> Flags:
        """Whether a sample's series is the first of the series with equal scrapes in that hour."""
        names = self.source.cluster_label, "job", "instance"
        target, _ = numbered(tuple(map(labels.get, names)) for labels in answer.series)
        starts, ends, kind = alike(answer.series_index, answer.ts_ms, answer.weights, target)
        is_first = np.zeros(len(starts), np.bool_)
        is_first[np.unique(kind, return_index=True)[1]] = True
        return np.repeat(is_first, ends - starts)


def _frames(data: bytes) -> tuple[Integers, Integers]:
    """First byte and end of each frame's message, after a check of its checksum."""
    starts, ends, end = [], [], 0
    while end < len(data):
        try:
            size, at = _read_varint(data, end)
        except IndexError:
            size, at = 0, end
        start = at + 4
        end = start + size
        if size < 4 or end > len(data):
            raise Garbled("the answer ends in the middle of a frame")
        if google_crc32c.value(data[start:end]) != int.from_bytes(data[at:start]):
            raise Garbled("the answer contains a wrong checksum")
        starts.append(start)
        ends.append(end)
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _fields(bits: Bits, start: Integers, end: Integers) -> list[Any]:
    """The fields of all messages, in no order: message, tag, first byte and end."""
    steps = list(bits.fields(start, end))
    return (
        [np.concatenate(column) for column in zip(*steps, strict=True)]
        if steps
        else [np.empty(0, np.int64)] * 4
    )


def _chunks(bits: Bits, start: Integers, end: Integers) -> tuple[Integers, Integers]:
    """First byte and end of each chunk's data. Raises NotOffered for an unknown encoding."""
    encoding = np.zeros(len(start), np.int64)
    first, after = end.copy(), end.copy()
    for message, tag, at, field_end in bits.fields(start, end):
        is_encoding, is_data = tag == _ENCODING, tag == _DATA
        encoding[message[is_encoding]] = bits.octets[at[is_encoding]]
        first[message[is_data]], after[message[is_data]] = at[is_data], field_end[is_data]
    unknown = encoding[encoding != _XOR]
    if len(unknown):
        raise NotOffered(f"the server sends chunks in another encoding: {unknown[0]}")
    return first, after
