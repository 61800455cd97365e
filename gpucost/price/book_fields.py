"""The fields of price books and files of rates: what each text means, and why it is refused."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from gpucost.model import label_name
from gpucost.timeline import local_midnight

# Which nodes a purchase option is meant for, by their capacity type; reserved capacity is priced by on-demand options, too.
PURCHASE_OPTIONS = {
    "on_demand": "on_demand",
    "savings_plan": "on_demand",
    "cud": "on_demand",
    "reserved": "reserved",
    "capacity_block": "capacity_block",
    "flex_start": "flex_start",
    "calendar": "flex_start",
    "spot": "spot",
}

_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+")
_BARE_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WHOLE_DIGITS, _DECIMALS = 9, 12


class BadField(Exception):
    """A field that cannot be used: its column and the reason."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


def capacity_type(purchase_option: str | None) -> str | None:
    """The capacity type that a purchase option is meant for; None (any) for None."""
    return PURCHASE_OPTIONS[purchase_option] if purchase_option else None


def one_of(column: str, text: str, known: dict[str, str] | tuple[str, ...]) -> str | None:
    """`text` in lower case, one of the known words; None for an empty field."""
    word = text.lower()
    if word and word not in known:
        raise BadField(column, f"is {text!r}, not one of {', '.join(known)}")
    return word or None


def exact_price(text: str) -> Decimal:
    """A price as it is written, without any rounding."""
    return exact_number("price_per_hour", text, _WHOLE_DIGITS, _DECIMALS)


def exact_number(column: str, text: str, whole_digits: int, decimals: int) -> Decimal:
    """A number above zero as it is written, without any rounding."""
    if not _NUMBER.fullmatch(text):
        raise BadField(column, f"is {text!r}, not a number above zero such as 3.06" if text else "is empty")
    value = Decimal(text)
    if value <= 0:
        raise BadField(column, f"is {text}; it should be above zero")
    _, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and (-exponent > decimals or len(digits) + exponent > whole_digits):
        raise BadField(column, f"is {text}; at most {whole_digits} digits and {decimals} decimals can be kept exactly")
    return value


def currency_code(text: str) -> str:
    """A currency's three letters in upper case."""
    code = text.upper()
    if not re.fullmatch("[A-Z]{3}", code):
        raise BadField("currency", f"is {text!r}, not a currency such as EUR" if text else "is empty")
    return code


def bare_date(column: str, text: str) -> date:
    """A day, `2026-10-01`."""
    try:
        if not _BARE_DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise BadField(column, f"is {text!r}, not a date such as 2026-10-01" if text else "is empty") from None


def effective_start(text: str, timezone: ZoneInfo) -> tuple[datetime | None, date | None]:
    """The instant a row begins to hold and its local day; (None, None), since ever, for an empty field.

    A bare date is local midnight in `timezone`.
    """
    if not text:
        return None, None
    try:
        if _BARE_DATE.fullmatch(text):
            day = date.fromisoformat(text)
            return local_midnight(day, timezone), day
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise BadField("effective_start", f"is {text!r}, not a date (2026-10-01) or an instant (2026-10-01T12:00:00Z)") from None
    if instant.tzinfo is None:
        raise BadField("effective_start", f"is {text!r}, which has no time zone: end it with Z or an offset such as +02:00")
    return instant, instant.astimezone(timezone).date()


def node_selector(text: str) -> tuple[tuple[str, str], ...]:
    """`label=value;label=value` as sorted pairs, labels named as kube-state-metrics exports them; empty for an empty field."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        label, equals, value = (piece.strip() for piece in part.partition("="))
        if not label or not equals or not value:
            raise BadField("node_selector", f"has {part!r}, which is not label=value")
        name = _exported(label)
        if pairs.setdefault(name, value) != value:
            raise BadField("node_selector", f"asks {label} for two values")
    return tuple(sorted(pairs.items()))


def _exported(label: str) -> str:
    """`node.kubernetes.io/pool` as `label_node_kubernetes_io_pool`; what has that form already stays."""
    name = label_name(label)
    return name.removeprefix("label_") if label.startswith("label_") else name
