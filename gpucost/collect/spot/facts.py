"""A change of price as sources spell it, checked: moments and prices as text, whatever wrote them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from gpucost.model import to_ms

_PRICE = re.compile(r"\d{1,9}(?:\.\d{1,12}0*)?")
_EPOCH = datetime(1970, 1, 2, tzinfo=UTC)


class BadFact(ValueError):
    """A field that says nothing usable; the message names field and value."""


def text_of(fields: dict[str, object], name: str) -> str:
    """A field that must stand there as text. Raises BadFact."""
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BadFact(f"{name} is missing" if value in (None, "") else f"{name} is {value!r}, not text")
    return value.strip()


def price_of(name: str, text: str) -> str:
    """A price per hour above zero, as decimal digits. Raises BadFact."""
    if not _PRICE.fullmatch(text) or not text.strip("0."):
        raise BadFact(f"{name} {text!r} is no price above zero")
    return text


def moment_of(name: str, text: str) -> int:
    """Milliseconds since 1970-01-01T00:00Z; a moment without an offset is UTC. Raises BadFact."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        if moment < _EPOCH:
            raise ValueError
        return to_ms(moment)
    except (ValueError, OverflowError):
        raise BadFact(f"{name} {text!r} is no moment") from None
