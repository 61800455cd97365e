"""Decimal text to numbers, eight characters at a time: several times faster than parsing each number by itself.

The trick is known as SWAR: eight ASCII digits in one 64-bit word become one integer by three multiplications
(Daniel Lemire, "Quickly parsing eight digits", 2018).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ZEROS = np.uint64(0x3030303030303030)
_HIGH_NIBBLES = np.uint64(0xF0F0F0F0F0F0F0F0)
_SIXES = np.uint64(0x0606060606060606)
_DOTS = np.uint64(0x2E2E2E2E2E2E2E2E)
_ONES = np.uint64(0x0101010101010101)
_TOPS = np.uint64(0x8080808080808080)
_TEN_POWERS = 10.0 ** np.arange(9)
_PADDING = b"\x00" * 24
_HALF = np.uint64(0xFFFFFFFF)
_BETWEEN = np.uint64(int.from_bytes(b'"],[', "little"))


def samples(text: bytes) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]] | None:
    """Moments (ms), values and byte positions of samples in text like `1700000000.123,"45"],[1700000060.123,"46"`.

    None where anything is not of the usual shape: seconds of ten digits with no or three decimals, and an unsigned
    decimal value of at most eight characters. Values are rounded as correctly as by strtod.
    """
    padded = text + _PADDING
    chars = np.frombuffer(padded, dtype=np.uint8)
    words = np.ndarray((len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))
    starts = np.concatenate((np.zeros(1, np.int64), np.flatnonzero(chars == ord("[")) + 1))
    mark = chars[starts + 10]
    fraction = mark == ord(".")
    if not ((fraction & (chars[starts + 14] == ord(","))) | (mark == ord(","))).all():
        return None
    begin = np.where(fraction, starts + 16, starts + 12)
    end = np.append(starts[1:] - 4, len(text) - 1)
    seconds, valid = _seconds(words, starts)
    values, usual = _values(words[begin], end - begin)
    millis, whole = _milliseconds(chars, starts + 11)
    if not (valid & usual & (whole | ~fraction) & (chars[begin - 1] == ord('"'))).all():
        return None
    if text[-1:] != b'"' or not ((words[starts[1:] - 4] & _HALF) == _BETWEEN).all():
        return None
    return seconds * 1000 + np.where(fraction, millis, 0), values, starts


def _seconds(words: NDArray[np.uint64], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    head, tail = words[at], words[at + 2]  # ten digits as two words that share six
    valid = _digits(head) & _digits(tail) & ((head & np.uint64(0xFF)) != np.uint64(ord("0")))
    return (_integer(head).astype(np.int64) * 100 + _integer(tail).astype(np.int64) % 100), valid


def _milliseconds(chars: NDArray[np.uint8], at: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    first, second, third = (chars[at + place].astype(np.int64) - ord("0") for place in range(3))
    valid = (np.minimum(np.minimum(first, second), third) >= 0) & (np.maximum(np.maximum(first, second), third) <= 9)
    return first * 100 + second * 10 + third, valid


def _values(word: NDArray[np.uint64], length: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    usual = (length > 0) & (length <= 8)
    size = np.where(usual, length, 1).astype(np.uint64)
    kept = word & _below(size)
    dotted = (kept ^ _DOTS) & _below(size) | ~_below(size)
    found = (dotted - _ONES) & ~dotted & _TOPS  # the lowest set bit marks the first dot (a zero byte of `dotted`)
    decimals = np.zeros(len(word), dtype=np.int64)
    if found.any():
        has = found != 0
        lowest = found & (~found + np.uint64(1))
        place = np.where(has, (np.log2(np.maximum(lowest, 1).astype(np.float64)).astype(np.uint64) >> np.uint64(3)), size)
        before = _below(place)
        kept = np.where(has, (kept & before) | ((kept >> np.uint64(8)) & ~before), kept)
        decimals = np.where(has, (size - place).astype(np.int64) - 1, 0)
        size = np.where(has, size - np.uint64(1), size)
        usual &= size > 0
    shift = (np.uint64(8) - size) << np.uint64(3)
    aligned = (kept << shift) | (_ZEROS & _below(np.uint64(8) - size))
    usual &= _digits(aligned)
    return _integer(aligned).astype(np.float64) / _TEN_POWERS[decimals], usual


def _below(count: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words whose lowest `count` bytes are set."""
    # shifting a 64-bit word by 64 gives 0 in NumPy
    return (np.uint64(1) << (count << np.uint64(3))) - np.uint64(1)


def _digits(word: NDArray[np.uint64]) -> NDArray[np.bool_]:
    both: NDArray[np.bool_] = ((word & _HIGH_NIBBLES) == _ZEROS) & (((word + _SIXES) & _HIGH_NIBBLES) == _ZEROS)
    return both


def _integer(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    digits = word - _ZEROS
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    left = (pairs & mask) * np.uint64(0x000F424000000064)
    right = ((pairs >> np.uint64(16)) & mask) * np.uint64(0x0000271000000001)
    return (left + right) >> np.uint64(32)
