"""Valid server answers, and damaged copies of them."""

from __future__ import annotations

import random
from collections.abc import Iterator

TOKENS = rb"""
    null true NaN Infinity -1 1e999 0 [] {} "" "NaN" "+Inf" "x" 253402300799 99999999999999999999 "\ud800" "\u0000" , ] } "
    {"metric":{ ,"values":[[ "]]}, "],[ "result":[ "isPartial":true, "warnings":"x", "status":"error", <html> 1700000000 1_0 0x1p3
""".split()
TOKENS += [
    b"1" * 5000,
    b"[" * 2000,
    b"\xff",
    b"\x00",
    b" ",
    b"\n",
    b"\xd9\xa1",
    b'"warnings":["a store is gone"],',
]


def mutations(text: bytes, seed: int, count: int) -> Iterator[bytes]:
    """`count` texts that differ from `text` in one or a few places."""
    draw = random.Random(seed)
    for _ in range(count):
        changed = bytearray(text)
        for _ in range(draw.choice([1, 1, 1, 2, 4])):
            _mutate(changed, draw)
        yield bytes(changed)


def _mutate(text: bytearray, draw: random.Random) -> None:
    at = draw.randrange(len(text) + 1)
    end = min(len(text), at + draw.choice([1, 1, 2, 5, 20, 200]))
    how = draw.randrange(8)
    if how == 0 and at < len(text):
        text[at] ^= 1 << draw.randrange(8)
    elif how == 1:
        del text[at:]
    elif how == 2:
        del text[at:end]
    elif how == 3:
        other = draw.randrange(len(text) + 1)
        text[other:other] = text[at:end]
    elif how == 4:
        digits = [place for place, byte in enumerate(text) if 48 <= byte <= 57]
        if digits:
            text[draw.choice(digits)] = draw.randrange(48, 58)
    elif how == 5:
        text[at:at] = draw.choice(TOKENS)
    elif how == 6:
        text[at:end] = draw.choice(TOKENS)
    else:
        quotes = [place for place, byte in enumerate(text) if byte == ord('"')]
        if len(quotes) > 1:
            first = draw.randrange(len(quotes) - 1)
            text[quotes[first] : quotes[first + 1] + 1] = draw.choice(TOKENS)
