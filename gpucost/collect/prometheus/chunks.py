"""Decode Prometheus' XOR chunks with NumPy: all chunks together, one sample of each after the other.

A chunk is a number of samples (16 bits), the first time (a zigzag varint) and value (64 bits), the first distance
in time (a varint), and then bits: for each sample the change of the distance, and the value XOR the previous one.
Source: tsdb/docs/format/chunks.md and tsdb/chunkenc/xor.go of prometheus/prometheus.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import count
from operator import add
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from gpucost.collect.base import TooMuch
from gpucost.collect.prometheus.parse import Garbled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from gpucost.collect.prometheus.parse import Integers, Words
    from gpucost.periods import Span

    Octets = NDArray[np.uint8]

K = TypeVar("K")

# Zero bytes after the data: the decoder reads whole words, before it checks that they belong to a chunk.
_PADDING = bytes(48)
_VALUE_BYTES = 8
_LONGEST_VARINT = 10
# A frame has about a mebibyte, and a chunk some tens of bytes.
_MOST_FIELDS = 1 << 16
# By the first four bits of a changed distance: the length of this prefix, and of the number after it.
_PREFIX = np.array([1] * 8 + [2] * 4 + [3] * 2 + [4] * 2)
_LENGTH = np.array([0] * 8 + [14] * 4 + [17] * 2 + [20, 64])
# The position and the bits of a new window's two numbers in a word.
_WINDOW_AT, _WINDOW_MASK = np.array([[57], [51]], np.uint64), np.array([[31], [63]], np.uint64)


class Chunks(NamedTuple):
    """Decoded chunks: the first value of each, and its pattern, which is equal if only the first values differ.

    Pattern `p` has the times `ts_ms[bounds[p]:bounds[p + 1]]`; the values there are the first one XOR the `changes`,
    as bits of doubles.
    """

    pattern: Integers
    first_value: Words
    bounds: Integers
    ts_ms: Integers
    changes: Words

    def within(self, span: Span) -> Chunks:
        """The chunks without samples outside [from, to)."""
        keep = (self.ts_ms >= span[0]) & (self.ts_ms < span[1])
        if keep.all():
            return self
        bounds = np.append(0, np.cumsum(keep))[self.bounds]
        return self._replace(bounds=bounds, ts_ms=self.ts_ms[keep], changes=self.changes[keep])


def numbered(keys: Iterable[K]) -> tuple[Integers, list[K]]:
    """The number of each key, and the different keys in this order."""
    numbers: defaultdict[K, int] = defaultdict(count().__next__)
    return np.fromiter(map(numbers.__getitem__, keys), np.int64), list(numbers)


class Bits:
    """Random access to all bits of an answer."""

    def __init__(self, data: bytes) -> None:
        self.data = data + _PADDING
        self.octets: Octets = np.frombuffer(self.data, np.uint8)
        self._words = np.ndarray((len(self.data) - 7,), ">u8", self.data, strides=(1,))

    def texts(self, start: Integers, end: Integers) -> Iterator[bytes]:
        """The bytes of each range."""
        return map(self.data.__getitem__, map(slice, start.tolist(), end.tolist()))

    def words(self, octet: Integers) -> Words:
        """The 64 bits from the beginning of each byte."""
        return self._words[octet].astype(np.uint64)

    def from_bit(self, bit: Integers) -> Words:
        """The 64 bits from each bit."""
        octet, shift = bit >> 3, (bit & 7).astype(np.uint64)
        found: Words = self.words(octet) << shift | self.octets[octet + 8] >> (np.uint64(8) - shift)
        return found

    def varints(self, octet: Integers) -> tuple[Words, Integers]:
        """The varint at each byte, and the byte after it."""
        value, is_open, after = np.zeros(len(octet), np.uint64), np.ones(len(octet), np.bool_), octet.copy()
        for nth in range(_LONGEST_VARINT):
            part = self.octets[after].astype(np.uint64)
            value |= np.where(is_open, part & np.uint64(127), np.uint64(0)) << np.uint64(7 * nth)
            after += is_open
            is_open &= part > 127
            if not is_open.any():
                return value, after
        raise Garbled("the answer contains a number that is too long")

    def fields(self, first: Integers, end: Integers) -> Iterator[tuple[Integers, Words, Integers, Integers]]:
        """The fields of protobuf messages, the next of each at a time: its message, tag, first byte and end.

        A field is a text or a number. Raises Garbled.
        """
        message = np.flatnonzero(first < end)
        first = first[message]
        for _ in range(_MOST_FIELDS):
            if not len(message):
                return
            tag, first = self.varints(first)
            number, after = self.varints(first)
            is_text, size = tag & np.uint64(7) == 2, number.view(np.int64)
            first = np.where(is_text, after, first)
            after = np.where(is_text, after + size, after)
            is_known = is_text | (tag & np.uint64(7) == 0)
            if not (is_known & (after >= first) & (after <= end[message])).all():
                raise Garbled("the answer contains an invalid message")
            yield message, tag, first, after
            is_open = after < end[message]
            message, first = message[is_open], after[is_open]
        raise Garbled("the answer contains a message with too many fields")


def decode(bits: Bits, start: Integers, end: Integers, most_samples: int, *, is_shared: bool) -> Chunks:
    """The chunks at these bytes, each with a pattern of its own unless `is_shared`.

    Raises Garbled, and TooMuch for more than `most_samples` samples of patterns.
    """
    if (end - start < 2).any():
        raise Garbled("the answer contains a chunk without a header")
    _, value_at = bits.varints(start + 2)
    if (value_at + _VALUE_BYTES > end)[bits.words(start) >> np.uint64(48) > 0].any():
        raise Garbled("the answer contains a chunk without a sample")
    pattern = chunk = np.arange(len(start))
    if is_shared:
        keys = map(add, bits.texts(start, value_at), bits.texts(value_at + _VALUE_BYTES, end))
        pattern = numbered(keys)[0]
        chunk = np.unique(pattern, return_index=True)[1]
    patterns = _patterns(bits, start[chunk], value_at[chunk], end[chunk], most_samples)
    return Chunks(pattern, bits.words(value_at), *patterns)


def _patterns(
    bits: Bits, start: Integers, value_at: Integers, end: Integers, most_samples: int
) -> tuple[Integers, Integers, Words]:
    """The bounds, times and changes of different chunks."""
    count = (bits.words(start) >> np.uint64(48)).astype(np.int64)
    # From the third sample on, each has at least two bits.
    if (count > 2 + 4 * (end - start)).any():
        raise Garbled("the answer contains a chunk with too many samples")
    if count.sum() > most_samples:
        raise TooMuch("the answer contains too many samples")
    bounds = np.append(0, np.cumsum(count))
    ts_ms, changes = np.empty(bounds[-1], np.int64), np.empty(bounds[-1], np.uint64)
    # The state of all chunks after the same number of samples, the longest chunks first.
    order = np.argsort(-count, kind="stable")
    place, count, last = bounds[order], count[order], end[order] * 8
    zigzag = bits.varints(start[order] + 2)[0]
    first_distance, after = bits.varints(value_at[order] + _VALUE_BYTES)
    bit, distance = after * 8, first_distance.view(np.int64)
    time = (zigzag >> np.uint64(1)).view(np.int64) ^ -(zigzag & np.uint64(1)).view(np.int64)
    change, window = np.zeros(len(order), np.uint64), np.full((2, len(order)), [[0], [64]], np.uint64)
    for nth, chunks in enumerate(np.searchsorted(-count, -np.arange(count.max(initial=0))).tolist()):
        now = slice(chunks)
        if nth:
            word = bits.from_bit(bit[now])
            if nth > 1:
                word = _read_distances(bits, bit[now], word, distance[now])
            time[now] += distance[now]
            _read_values(bits, bit[now], word, change[now], window[:, now])
            if (bit[now] > last[now]).any():
                raise Garbled("the answer contains a truncated chunk")
        ts_ms[place[now] + nth], changes[place[now] + nth] = time[now], change[now]
    return bounds, ts_ms, changes


def _read_distances(bits: Bits, bit: Integers, word: Words, distance: Integers) -> Words:
    """Read changed distances: 0, or a prefix and a number of 14, 17, 20 or 64 bits. Returns the next bits."""
    first = (word >> np.uint64(60)).astype(np.int64)
    changed = np.flatnonzero(first >= 8)
    if not len(changed):
        bit += 1
        return word << np.uint64(1)
    prefix, length = _PREFIX[first], _LENGTH[first]
    size = length[changed]
    number = bits.from_bit(bit[changed] + prefix[changed]) >> (64 - size).astype(np.uint64)
    # The highest number of each length is positive: -8191 to 8192.
    half = np.int64(1) << (size - 1)
    is_negative = (size < 64) & (number.view(np.int64) > half)
    distance[changed] += number.view(np.int64) - np.where(is_negative, half * 2, 0)
    bit += prefix + length
    return bits.from_bit(bit)


def _read_values(bits: Bits, bit: Integers, word: Words, change: Words, window: Words) -> None:
    """Read changed values: 0, or 10 and the bits in the last window, or 11, a window and its bits.

    A window is a number of leading zeros and a number of bits.
    """
    is_changed, is_new = word >> np.uint64(63) == 1, word >> np.uint64(62) == 3
    if not is_changed.any():
        bit += 1
        return
    np.copyto(window, word >> _WINDOW_AT & _WINDOW_MASK, where=is_new)
    lead, size = window
    size[size == 0] = 64
    if (lead + size > 64).any():
        raise Garbled("the answer contains an impossible value")
    before = np.where(is_new, np.uint64(13), np.uint64(2))
    used = is_changed * (before + size)
    # The word has 63 valid bits.
    found = word << before if used.max() <= 63 else bits.from_bit(bit + before.view(np.int64))
    change ^= is_changed * (found >> np.uint64(64) - size << np.uint64(64) - lead - size)
    bit += np.maximum(used.view(np.int64), 1)
