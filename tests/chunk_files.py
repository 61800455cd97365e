"""Prometheus' XOR chunks and streamed answers, written bit by bit: the counterpart of the decoder, in plain Python."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

Sample = tuple[int, float]

STREAMED = "application/x-streamed-protobuf; proto=prometheus.ChunkedReadResponse"
STALE = struct.unpack(">d", bytes.fromhex("7ff0000000000002"))[0]


def varint(number: int) -> bytes:
    """Return a number below 2^64 as a varint."""
    octets = []
    while number > 127:
        octets.append(number % 128 + 128)
        number //= 128
    return bytes([*octets, number])


def zigzag(number: int) -> bytes:
    """Return a signed number as a varint."""
    return varint(number * 2 if number >= 0 else -number * 2 - 1)


def _bits(number: int, size: int) -> str:
    return format(number % 2**size, f"0{size}b")


def _change(change: int) -> str:
    """The bits of a changed distance."""
    if change == 0:
        return "0"
    for prefix, size in (("10", 14), ("110", 17), ("1110", 20)):
        if -(2 ** (size - 1)) < change <= 2 ** (size - 1):
            return prefix + _bits(change, size)
    return "1111" + _bits(change, 64)


def chunk(samples: Sequence[Sample]) -> bytes:
    """Return the data of a chunk."""
    head, bits = struct.pack(">H", len(samples)), ""
    window = None
    values = [int.from_bytes(struct.pack(">d", value), "big") for _, value in samples]
    for at, (time, _) in enumerate(samples):
        if at == 0:
            head += zigzag(time) + struct.pack(">Q", values[0])
            continue
        distance = time - samples[at - 1][0]
        if at == 1:
            head += varint(distance % 2**64)
        else:
            bits += _change(distance - (samples[at - 1][0] - samples[at - 2][0]))
        xor = values[at] ^ values[at - 1]
        if xor == 0:
            bits += "0"
            continue
        lead = min(64 - xor.bit_length(), 31)
        trail = (xor & -xor).bit_length() - 1
        if window and lead >= window[0] and trail >= window[1]:
            bits += "10" + _bits(xor >> window[1], 64 - sum(window))
        else:
            window = lead, trail
            size = 64 - lead - trail
            bits += "11" + _bits(lead, 5) + _bits(size, 6) + _bits(xor >> trail, size)
    bits += "0" * (-len(bits) % 8)
    return head + int(bits or "0", 2).to_bytes(len(bits) // 8, "big")


def text(field: int, content: bytes) -> bytes:
    """Return a field of a protobuf message."""
    return varint(field * 8 + 2) + varint(len(content)) + content


def number(field: int, content: int) -> bytes:
    """Return a number as a field of a protobuf message."""
    return varint(field * 8) + varint(content)


def series(labels: Mapping[str, str], chunks: Iterable[bytes], encoding: int = 1) -> bytes:
    """Return the message of a series with chunks."""
    message = b"".join(text(1, text(1, k.encode()) + text(2, v.encode())) for k, v in sorted(labels.items()))
    for data in chunks:
        message += text(2, number(1, 1) + number(2, 2) + number(3, encoding) + text(4, data))
    return text(1, message)


def crc32c(content: bytes) -> int:
    """Return the CRC-32C, bit by bit."""
    value = 0xFFFFFFFF
    for octet in content:
        value ^= octet
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def frame(message: bytes) -> bytes:
    """Return a frame of an answer."""
    return varint(len(message)) + struct.pack(">I", crc32c(message)) + message
