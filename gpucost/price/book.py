"""The price book: a CSV file of the user's own prices. Any broken row refuses the whole file."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from gpucost.errors import PriceError
from gpucost.periods import label_name, local_midnight

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.price.fx import FxRates

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


Lines = Iterator[tuple[int, list[str]]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: what messages call it, the config key that names it, and its columns."""

    name: str
    key: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


_FIX = "correct the file; nothing of it was used"


def read_lines(path: Path, kind: Kind) -> tuple[list[str], Lines]:
    """The header and (line number, fields) of each further row, fields stripped of blanks around them.

    Blank lines, lines of commas only and lines beginning with # are passed over. Raises PriceError.
    """
    lines = _fields(path, _text(path, kind))
    required, optional = kind.required, kind.optional
    first = next(lines, None)
    if first is None:
        raise PriceError(f"{path}: is empty; its first line must name the columns {','.join((*optional[:5], *required))}", _FIX)
    number, header = first[0], [name.lower() for name in first[1]]
    for name in header:
        if name not in (*required, *optional):
            near = difflib.get_close_matches(name, (*required, *optional), 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join((*optional, *required))}"
            raise PriceError(f"{path}:{number}: {name or '(empty)'}: is no column of a {kind.name}; {hint}", _FIX)
        if header.count(name) > 1:
            raise PriceError(f"{path}:{number}: {name}: stands twice in the header", _FIX)
    for name in required:
        if name not in header:
            raise PriceError(f"{path}:{number}: {name}: is missing in the header, which names {', '.join(header)}", _FIX)
    return header, _full(path, header, lines)


def _text(path: Path, kind: Kind) -> str:
    try:
        # -sig: spreadsheets begin a UTF-8 file with a byte order mark
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise unreadable(path, kind, error) from None
    except UnicodeDecodeError as error:
        raise PriceError(f"{path}: is not UTF-8 text (byte {error.start})", "save it as CSV in UTF-8") from None


def unreadable(path: Path, kind: Kind, error: OSError) -> PriceError:
    """The error for a file that cannot be opened or read."""
    return PriceError(f"cannot read the {kind.name} {path}: {error.strerror}", f"set {kind.key} in gpucost.toml")


def _fields(path: Path, text: str) -> Lines:
    # line by line, not as a whole: no field holds a line break, and every message needs its line
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if line.lstrip().startswith("#"):
            continue
        try:
            fields = [field.strip() for field in next(csv.reader([line], strict=True), [])]
        except csv.Error as error:
            raise PriceError(f"{path}:{number}: is not a line of CSV: {error}", _FIX) from None
        if any(fields):
            yield number, fields


def _full(path: Path, header: list[str], lines: Lines) -> Lines:
    for number, fields in lines:
        if len(fields) != len(header):
            column = header[len(fields)] if len(fields) < len(header) else f"column {len(header) + 1}"
            raise PriceError(f"{path}:{number}: {column}: the line has {len(fields)} fields, the header {len(header)}", _FIX)
        yield number, fields


FILE = Kind(
    name="price book",
    key="[prices] book",
    required=("price_per_hour", "currency"),
    optional=("provider", "region", "zone", "instance_type", "purchase_option", "effective_start", "per", "node_selector"),
)


@dataclass(frozen=True, slots=True)
class BookRow:
    """One price: None in a field matches anything; prices are per hour of a whole node, or of one GPU where per_gpu."""

    line: int
    provider: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    purchase_option: str | None
    price_per_hour: Decimal
    currency: str
    per_gpu: bool
    selector: tuple[tuple[str, str], ...]  # (label as kube-state-metrics sanitizes it, value), sorted
    start: datetime | None
    as_of: date | None  # the day, in the config's time zone, that start falls on

    @property
    def specificity(self) -> int:
        """Higher wins: labels selected, instance type, zone, region, provider, purchase option, in that order."""
        given = (self.instance_type, self.zone, self.region, self.provider, self.purchase_option)
        return len(self.selector) << 5 | sum((field is not None) << bit for bit, field in enumerate(reversed(given)))

    @property
    def key(self) -> tuple[object, ...]:
        """What the row prices; rows of one key are steps in time."""
        # these price the same nodes, and none comes before another
        option = "on_demand" if self.purchase_option in ("savings_plan", "cud") else self.purchase_option
        return (self.provider, self.region, self.zone, self.instance_type, option, self.selector)


def read_book(path: Path, currency: str, timezone: ZoneInfo, fx: FxRates | None = None) -> list[BookRow]:
    """All rows of a price book, in the file's order; prices in another currency than `currency` need a rate in `fx`.

    Raises PriceError naming file, line and column where anything in it cannot be used, also for two rows
    that price the same thing from the same moment.
    """
    header, lines = read_lines(path, FILE)
    known = frozenset({currency, *(fx.steps if fx else ())})
    rows = []
    for number, fields in lines:
        record = dict(zip(header, fields, strict=True))
        try:
            rows.append(_row(number, record, known, timezone))
        except BadField as error:
            raise PriceError(
                f"{path}:{number}: {error.column}: {error.reason}", "correct the line; nothing of the file was used"
            ) from None
    seen: dict[tuple[object, ...], int] = {}
    for row in rows:
        first = seen.setdefault((row.key, row.start), row.line)
        if first != row.line:
            raise PriceError(
                f"{path}: lines {first} and {row.line} price the same nodes from the same moment",
                "remove one of them, or give them different effective_start",
            )
    return rows


# One row per line of the file; a null field matches anything, a null start_ms is since ever.
_BOOK = """
CREATE OR REPLACE TEMP TABLE price_book AS
SELECT unnest($line::INTEGER[]) AS line, unnest($specificity::INTEGER[]) AS specificity, unnest($provider::VARCHAR[]) AS provider,
    unnest($region::VARCHAR[]) AS region, unnest($zone::VARCHAR[]) AS zone, unnest($instance_type::VARCHAR[]) AS instance_type,
    unnest($purchase_option::VARCHAR[]) AS purchase_option, unnest($price_per_hour::VARCHAR[])::DECIMAL(21, 12) AS price_per_hour,
    unnest($currency::VARCHAR[]) AS currency, unnest($per_gpu::BOOLEAN[]) AS per_gpu,
    unnest($selector_labels::VARCHAR[][]) AS selector_labels, unnest($selector_values::VARCHAR[][]) AS selector_values,
    unnest($start_ms::BIGINT[]) AS start_ms, unnest($price_as_of::DATE[]) AS price_as_of"""


def load_book(con: DuckDBPyConnection, config: Config, fx: FxRates) -> None:
    """Create the temporary table price_book from the config's price book; empty where there is none. Raises PriceError."""
    rows = read_book(config.prices.book, config.currency, config.tz, fx) if config.prices.book else []
    columns = {
        "line": [row.line for row in rows],
        "specificity": [row.specificity for row in rows],
        "provider": [row.provider for row in rows],
        "region": [row.region for row in rows],
        "zone": [row.zone for row in rows],
        "instance_type": [row.instance_type for row in rows],
        "purchase_option": [row.purchase_option for row in rows],
        "price_per_hour": [str(row.price_per_hour) for row in rows],
        "currency": [row.currency for row in rows],
        "per_gpu": [row.per_gpu for row in rows],
        "selector_labels": [[label for label, _ in row.selector] for row in rows],
        "selector_values": [[value for _, value in row.selector] for row in rows],
        "start_ms": [round(row.start.timestamp() * 1000) if row.start else None for row in rows],
        "price_as_of": [row.as_of for row in rows],
    }
    con.execute(_BOOK, columns)


def book_digest(config: Config) -> str:
    """A digest of the price book's text; empty where there is none. Raises PriceError if it cannot be read."""
    if config.prices.book is None:
        return ""
    try:
        return sha256(config.prices.book.read_bytes()).hexdigest()
    except OSError as error:
        raise unreadable(config.prices.book, FILE, error) from None


def _row(number: int, record: dict[str, str], currencies: frozenset[str], timezone: ZoneInfo) -> BookRow:
    currency = currency_code(record["currency"])
    if currency not in currencies:
        raise BadField(
            "currency", f"is {currency!r}, but the config has no rate for it: set [prices] fx = {{ {currency} = … }}, or fx_rates"
        )
    start, as_of = effective_start(record.get("effective_start", ""), timezone)
    option = one_of("purchase_option", record.get("purchase_option", "").replace("-", "_"), PURCHASE_OPTIONS)
    return BookRow(
        line=number,
        provider=_folded(record, "provider"),
        region=_folded(record, "region"),
        zone=_folded(record, "zone"),
        instance_type=_folded(record, "instance_type"),
        purchase_option=option,
        price_per_hour=exact_price(record["price_per_hour"]),
        currency=currency,
        per_gpu=one_of("per", record.get("per", ""), ("node", "gpu")) == "gpu",
        selector=node_selector(record.get("node_selector", "")),
        start=start,
        as_of=as_of,
    )


def _folded(record: dict[str, str], column: str) -> str | None:
    return record.get(column, "").lower() or None
