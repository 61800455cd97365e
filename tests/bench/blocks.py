"""A Prometheus data folder with a block per day, written without Prometheus: its tools take minutes for 75 million samples.

Format: prometheus/tsdb/docs/format in the Prometheus repository (index version 2, chunks version 1, XOR encoding).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import google_crc32c
import numpy as np

from tests.replay.series import Series, Times, Values

# At most two hours in a chunk, at fixed boundaries: equal stretches of samples are encoded once.
CHUNK_MS = 7_200_000
DAY_MS = 86_400_000
# Samples differ in time by these many bits (prefix, bits); 14, 17 and 20 bits suffice here.
_DISTANCES = ((14, 0b10, 2), (17, 0b110, 3), (20, 0b1110, 4))


def write_data(series: Iterable[Series], data: Path) -> int:
    """Write a folder with the series' samples, a block per UTC day; return the number of samples."""
    days: dict[int, _Block] = {}
    count = 0
    for one in series:
        count += len(one.times)
        bounds = np.flatnonzero(np.diff(one.times // CHUNK_MS)) + 1
        labels = tuple(sorted(one.labels.items()))
        for first, last in zip([0, *bounds], [*bounds, len(one.times)], strict=True):
            times, values = one.times[first:last], one.values[first:last]
            day = int(times[0]) // DAY_MS
            if day not in days:
                days[day] = _Block(data / f"{day:026}", day * DAY_MS)
            days[day].add(labels, times, values)
    for block in days.values():
        block.close()
    return count


class _Block:
    """A block that is being written; `held` are the chunks of each series: first and last time, and place."""

    def __init__(self, folder: Path, start_ms: int) -> None:
        self.folder, self.start_ms = folder, start_ms
        (folder / "chunks").mkdir(parents=True)
        self.out = (folder / "chunks" / "000001").open("wb")
        self.out.write(struct.pack(">IB3x", 0x85BD40DD, 1))
        self.at = 8
        self.held: dict[tuple[tuple[str, str], ...], list[tuple[int, int, int]]] = {}
        self.samples = 0

    def add(self, labels: tuple[tuple[str, str], ...], times: Times, values: Values) -> None:
        """Append a chunk."""
        start = int(times[0])
        tail = _tail(np.diff(times).tobytes(), values.tobytes())
        body = b"\x01" + struct.pack(">H", len(times)) + _varint(start) + tail
        record = _uvarint(len(body) - 1) + body + struct.pack(">I", google_crc32c.value(body))
        self.out.write(record)
        self.held.setdefault(labels, []).append((start, int(times[-1]), self.at))
        self.at += len(record)
        self.samples += len(times)

    def close(self) -> None:
        """Write the index and the block's description."""
        self.out.close()
        (self.folder / "index").write_bytes(_index(self.held))
        chunks = sum(map(len, self.held.values()))
        facts = {
            "ulid": self.folder.name,
            "minTime": self.start_ms,
            "maxTime": self.start_ms + DAY_MS,
            "stats": {"numSamples": self.samples, "numSeries": len(self.held), "numChunks": chunks},
            "compaction": {"level": 1, "sources": [self.folder.name]},
            "version": 1,
        }
        (self.folder / "meta.json").write_text(json.dumps(facts))


def _index(held: dict[tuple[tuple[str, str], ...], list[tuple[int, int, int]]]) -> bytes:
    """The index of a block: symbols, series, postings and their offsets."""
    out = bytearray(struct.pack(">IB", 0xBAAAD700, 2))
    symbols = sorted({word for labels in held for pair in labels for word in pair} | {""}, key=str.encode)
    number = {word: at for at, word in enumerate(symbols)}
    places = [len(out)]
    _section(out, struct.pack(">I", len(symbols)) + b"".join(map(_text, symbols)))
    places.append(_padded(out, 16))
    postings: dict[tuple[str, str], list[int]] = {("", ""): []}
    for labels in sorted(held):
        ref = _padded(out, 16) // 16
        entry = bytearray(_uvarint(len(labels)))
        for name, value in labels:
            entry += _uvarint(number[name]) + _uvarint(number[value])
            postings.setdefault((name, value), []).append(ref)
        postings["", ""].append(ref)
        entry += _chunk_list(held[labels])
        out += _uvarint(len(entry)) + entry + struct.pack(">I", google_crc32c.value(bytes(entry)))
    places += [_padded(out, 4)] * 2
    _section(out, struct.pack(">I", 0))  # no label indices: the offsets of postings replace them
    places.append(len(out))
    offsets = bytearray(struct.pack(">I", len(postings)))
    for name, value in sorted(postings):
        at = _padded(out, 4)
        refs = postings[name, value]
        _section(out, struct.pack(f">{len(refs) + 1}I", len(refs), *refs))
        offsets += b"\x02" + _text(name) + _text(value) + _uvarint(at)
    places.append(_padded(out, 4))
    _section(out, bytes(offsets))
    contents = struct.pack(">6Q", *places)
    return bytes(out) + contents + struct.pack(">I", google_crc32c.value(contents))


def _chunk_list(chunks: list[tuple[int, int, int]]) -> bytes:
    out = bytearray(_uvarint(len(chunks)))
    before_ms = before = 0
    for place, (first, last, at) in enumerate(chunks):
        out += _varint(first) if place == 0 else _uvarint(first - before_ms)
        out += _uvarint(last - first) + (_uvarint(at) if place == 0 else _varint(at - before))
        before_ms, before = last, at
    return bytes(out)


def _section(out: bytearray, content: bytes) -> None:
    out += struct.pack(">I", len(content)) + content + struct.pack(">I", google_crc32c.value(content))


def _padded(out: bytearray, size: int) -> int:
    """Pad to a multiple of `size`; return the length."""
    out += bytes(-len(out) % size)
    return len(out)


@cache
def _tail(distances: bytes, values: bytes) -> bytes:
    """A chunk after its first time: the first value, then each sample's distance of time and changed bits."""
    steps = np.frombuffer(distances, np.int64).tolist()
    bits = np.frombuffer(values, np.uint64).tolist()
    start = struct.pack(">Q", bits[0]) + (_uvarint(steps[0]) if steps else b"")
    stream, length = 0, 0
    leading, trailing = 65, 0
    for at, step in enumerate(steps):
        parts = [_time_bits(step - steps[at - 1])] if at else []
        changed = bits[at] ^ bits[at + 1]
        if changed == 0:
            parts.append((0, 1))
        else:
            zeros, ends = min(64 - changed.bit_length(), 31), (changed & -changed).bit_length() - 1
            if zeros >= leading and ends >= trailing:
                parts += [(0b10, 2), (changed >> trailing, 64 - leading - trailing)]
            else:
                leading, trailing = zeros, ends
                used = 64 - leading - trailing
                parts += [(0b11, 2), (leading, 5), (used & 63, 6), (changed >> trailing, used)]
        for value, size in parts:
            stream, length = stream << size | value, length + size
    pad = -length % 8
    return start + (stream << pad).to_bytes((length + pad) // 8, "big")


def _time_bits(change: int) -> tuple[int, int]:
    """The code of a change of the distance between samples, and its number of bits."""
    if change == 0:
        return 0, 1
    for size, prefix, length in _DISTANCES:
        if -(1 << size - 1) < change <= 1 << size - 1:
            return prefix << size | change & (1 << size) - 1, length + size
    return 0b1111 << 64 | change & (1 << 64) - 1, 68


def _text(word: str) -> bytes:
    return _uvarint(len(word.encode())) + word.encode()


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _varint(number: int) -> bytes:
    return _uvarint(number << 1 if number >= 0 else (-number << 1) - 1)
