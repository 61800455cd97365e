"""The price book: a CSV file of the user's own prices. Any broken row refuses the whole file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

from pydantic import BaseModel, BeforeValidator, ValidationError, ValidationInfo

from gpucost import inputs
from gpucost.errors import PriceError
from gpucost.periods import label_name, local_midnight, to_ms
from gpucost.records import frozen_dataclass
from gpucost.suggest import did_you_mean

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.price.fx import FxRates

# Purchase option -> the capacity type of its nodes. On-demand options price reserved capacity, too.
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


# The field readers raise ValueError with a reason that follows the name of the column.


def exact_number(text: str, whole_digits: int, decimals: int) -> Decimal:
    """Read a number above zero exactly as written."""
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"is {text!r}, not a number above zero such as 3.06" if text else "is empty")
    value = Decimal(text)
    if value <= 0:
        raise ValueError(f"is {text}; it must be above zero")
    _, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and (-exponent > decimals or len(digits) + exponent > whole_digits):
        raise ValueError(f"is {text}; gpucost keeps at most {whole_digits} digits and {decimals} decimals")
    return value


def currency_code(text: str) -> str:
    """A currency's three letters in upper case."""
    code = text.upper()
    if not re.fullmatch("[A-Z]{3}", code):
        raise ValueError(f"is {text!r}, not a currency such as EUR" if text else "is empty")
    return code


def bare_date(text: str) -> date:
    """A day, `2026-10-01`."""
    try:
        if not _BARE_DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"is {text!r}, not a date such as 2026-10-01" if text else "is empty") from None


def effective_start(text: str, timezone: ZoneInfo) -> tuple[datetime | None, date | None]:
    """The start of a row and its local day; (None, None) for an empty field.

    A row without a start is always in effect. A bare date is local midnight in `timezone`.
    """
    if not text:
        return None, None
    try:
        if _BARE_DATE.fullmatch(text):
            day = date.fromisoformat(text)
            return local_midnight(day, timezone), day
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"is {text!r}, not a date (2026-10-01) or an instant (2026-10-01T12:00:00Z)"
        ) from None
    if instant.tzinfo is None:
        raise ValueError(f"is {text!r}, which has no time zone: end it with Z or an offset such as +02:00")
    return instant, instant.astimezone(timezone).date()


def node_selector(text: str) -> tuple[tuple[str, str], ...]:
    """Read `label=value;label=value` as sorted pairs.

    Labels have kube-state-metrics' names. An empty field has no pairs.
    """
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        label, equals, value = (piece.strip() for piece in part.partition("="))
        if not label or not equals or not value:
            raise ValueError(f"has {part!r}, which is not label=value")
        name = _exported(label)
        if pairs.setdefault(name, value) != value:
            raise ValueError(f"requires two values of {label}")
    return tuple(sorted(pairs.items()))


def _exported(label: str) -> str:
    """`node.kubernetes.io/pool` as `label_node_kubernetes_io_pool`; a name of that form stays."""
    name = label_name(label)
    return name.removeprefix("label_") if label.startswith("label_") else name


def _purchase_option(text: str) -> str | None:
    """One of PURCHASE_OPTIONS, with hyphens or underscores."""
    option = text.replace("-", "_")
    if option and option.lower() not in PURCHASE_OPTIONS:
        raise ValueError(f"is {option!r}, not one of {', '.join(PURCHASE_OPTIONS)}")
    return option.lower() or None


def _one_of(*names: str) -> BeforeValidator:
    """Read one of `names`; an empty field is the first."""

    def read(text: str) -> str:
        if text and text.lower() not in names:
            raise ValueError(f"is {text!r}, not one of {', '.join(names)}")
        return text.lower() or names[0]

    return BeforeValidator(read)


def _convertible(text: str, info: ValidationInfo) -> str:
    currency = currency_code(text)
    if currency not in (info.context or {})["currencies"]:
        raise ValueError(
            f"is {currency!r}, which has no exchange rate: set [prices] fx = {{ {currency} = … }}, or fx_rates"
        )
    return currency


class FileRow(BaseModel, frozen=True):
    """A line of a file: one field per column, with defaults for optional ones."""

    line: int

    @classmethod
    def columns(cls, *, required: bool) -> list[str]:
        """Names of the required columns, or of the optional ones."""
        return [
            name
            for name, info in cls.model_fields.items()
            if name != "line" and info.is_required() == required
        ]


# Types of fields with their readers.
Folded = Annotated[str | None, BeforeValidator(lambda text: text.lower() or None)]
Option = Annotated[str | None, BeforeValidator(_purchase_option)]
# the instant, and its day in the config's time zone
Start = Annotated[
    tuple[datetime | None, date | None],
    BeforeValidator(lambda text, info: effective_start(text, info.context["timezone"])),
]
# (label as kube-state-metrics exports it, value), sorted
Selector = Annotated[tuple[tuple[str, str], ...], BeforeValidator(node_selector)]


class BookRow(FileRow, frozen=True):
    """One price per hour of a whole node or of one GPU; None in a field matches anything."""

    provider: Folded = None
    region: Folded = None
    zone: Folded = None
    instance_type: Folded = None
    purchase_option: Option = None
    effective_start: Start = (None, None)
    per: Annotated[Literal["node", "gpu"], _one_of("node", "gpu")] = "node"
    final: Annotated[bool, _one_of("false", "true")] = False
    node_selector: Selector = ()
    price_per_hour: Annotated[Decimal, BeforeValidator(lambda text: exact_number(text, 9, 12))]
    currency: Annotated[str, BeforeValidator(_convertible)]

    @property
    def specificity(self) -> int:
        """Rank of the row; the highest wins.

        Fields in order of weight: labels selected, instance type, zone, region, provider, purchase option.
        """
        fields = (self.instance_type, self.zone, self.region, self.provider, self.purchase_option)
        return len(self.node_selector) << 5 | sum(
            (field is not None) << bit for bit, field in enumerate(reversed(fields))
        )

    @property
    def key(self) -> tuple[object, ...]:
        """The nodes that the row prices; rows of one key are steps in time."""
        # these options price the same nodes with the same rank
        option = "on_demand" if self.purchase_option in ("savings_plan", "cud") else self.purchase_option
        return (self.provider, self.region, self.zone, self.instance_type, option, self.node_selector)


_Row = TypeVar("_Row", bound=FileRow)


@frozen_dataclass
class Kind(Generic[_Row]):
    """A kind of CSV file: its name in messages, its config key and its rows."""

    name: str
    key: str
    row: type[_Row]

    def digest(self, path: Path | None) -> str:
        """A digest of the file's text; empty without a file.

        Raises PriceError if it cannot be read.
        """
        return sha256(self._bytes(path)).hexdigest() if path else ""

    def _bytes(self, path: Path) -> bytes:
        try:
            return inputs.whole(path)
        except OSError as error:
            raise PriceError(
                f"cannot read the {self.name} {path}: {error.strerror}", f"set {self.key} in gpucost.toml"
            ) from None

    def read(self, path: Path, context: dict[str, Any]) -> list[_Row]:
        """Read the rows of the file at `path`; `context` goes to the field readers.

        Skips blank lines, lines of commas only and lines beginning with #. Raises PriceError naming file,
        line and column if anything cannot be used.
        """
        try:
            # -sig: spreadsheets begin a UTF-8 file with a byte order mark
            text = self._bytes(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise PriceError(
                f"{path}: is not UTF-8 text (byte {error.start})", "save it as CSV in UTF-8"
            ) from None
        lines = lines_of(path, text)
        header = self._header(path, lines)
        rows = []
        for number, fields in lines:
            if len(fields) != len(header):
                column = header[len(fields)] if len(fields) < len(header) else f"column {len(header) + 1}"
                message = f"{path}:{number}: {column}: the line has {len(fields)} fields, the header has {len(header)}"
                raise PriceError(message, _FIX)
            try:
                rows.append(
                    self.row.model_validate(
                        {"line": number, **dict(zip(header, fields, strict=True))}, context=context
                    )
                )
            except ValidationError as error:
                first = error.errors()[0]
                message = f"{path}:{number}: {first['loc'][0]}: {first['ctx']['error']}"
                raise PriceError(message, "correct the line; gpucost used no row of the file") from None
        return rows

    def _header(self, path: Path, lines: Iterator[tuple[int, list[str]]]) -> list[str]:
        required, optional = self.row.columns(required=True), self.row.columns(required=False)
        number, names = next(lines, (0, []))
        if not names:
            raise PriceError(
                f"{path}: is empty; its first line must name the columns {','.join((*optional[:5], *required))}",
                _FIX,
            )
        header = [name.lower() for name in names]
        for name in header:
            if name not in (*required, *optional):
                hint = did_you_mean(
                    name, (*required, *optional), f"columns: {', '.join((*optional, *required))}"
                )
                raise PriceError(
                    f"{path}:{number}: {name or '(empty)'}: not a column of a {self.name}; {hint}", _FIX
                )
            if header.count(name) > 1:
                raise PriceError(f"{path}:{number}: {name}: appears twice in the header", _FIX)
        for name in required:
            if name not in header:
                raise PriceError(
                    f"{path}:{number}: {name}: is missing in the header, which names {', '.join(header)}",
                    _FIX,
                )
        return header


_FIX = "correct the file; gpucost used no row of it"


def lines_of(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """The number and stripped fields of each line that is not blank or a comment."""
    # line by line: no field holds a line break, and every message needs its line
    for number, line in enumerate(re.split(r"\r\n|\n|\r", text), start=1):
        if line.lstrip().startswith("#"):
            continue
        try:
            fields = [field.strip() for field in next(csv.reader([line], strict=True), [])]
        except csv.Error as error:
            raise PriceError(f"{path}:{number}: is not a line of CSV: {error}", _FIX) from None
        if any(fields):
            yield number, fields


BOOK = Kind("price book", "[prices] book", BookRow)


def read_book(path: Path, currency: str, timezone: ZoneInfo, fx: FxRates | None = None) -> list[BookRow]:
    """Read all rows of a price book, in its order.

    Prices in a currency other than `currency` need a rate in `fx`. Raises PriceError naming file, line and
    column if anything cannot be used, also for two rows that price the same nodes from the same moment.
    """
    rows = BOOK.read(path, {"currencies": {currency, *(fx.steps if fx else ())}, "timezone": timezone})
    lines: dict[tuple[object, ...], int] = {}
    for row in rows:
        first = lines.setdefault((row.key, row.effective_start[0]), row.line)
        if first != row.line:
            raise PriceError(
                f"{path}: lines {first} and {row.line} price the same nodes from the same moment",
                "remove one of them, or give them different values of effective_start",
            )
    return rows


# One row per line of the file; a null field matches anything, a null start_ms is always in effect.
_BOOK = """
CREATE OR REPLACE TEMP TABLE price_book AS
SELECT b.* EXCLUDE (per) REPLACE (b.price_per_hour::DECIMAL(21, 12) AS price_per_hour), b.per = 'gpu' AS per_gpu
FROM (SELECT unnest($rows::STRUCT(
    line INTEGER, specificity INTEGER, provider VARCHAR, region VARCHAR, zone VARCHAR, instance_type VARCHAR,
    purchase_option VARCHAR, price_per_hour VARCHAR, currency VARCHAR, per VARCHAR, final BOOLEAN,
    selector_labels VARCHAR[], selector_values VARCHAR[], start_ms BIGINT, price_as_of DATE
)[]) AS b)"""


def load_book(con: DuckDBPyConnection, config: Config, fx: FxRates) -> None:
    """Create the temporary table price_book; empty without a configured price book.

    Raises PriceError.
    """
    rows = []
    for row in read_book(config.prices.book, config.currency, config.tz, fx) if config.prices.book else ():
        start, day = row.effective_start
        rows.append(
            row.model_dump(exclude={"effective_start", "node_selector"})
            | {
                "specificity": row.specificity,
                "price_per_hour": str(row.price_per_hour),
                "selector_labels": [label for label, _ in row.node_selector],
                "selector_values": [value for _, value in row.node_selector],
                "start_ms": start and to_ms(start),
                "price_as_of": day,
            }
        )
    con.execute(_BOOK, {"rows": rows})


def book_digest(config: Config) -> str:
    """A digest of the price book's text; empty without a price book.

    Raises PriceError if it cannot be read.
    """
    return BOOK.digest(config.prices.book)
