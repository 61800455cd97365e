"""The price book: a CSV file of the user's own prices. Any broken row refuses the whole file."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost.engine.local import run_stage
from gpucost.errors import PriceError
from gpucost.price.book_fields import (
    PURCHASE_OPTIONS,
    BadField,
    currency_code,
    effective_start,
    exact_price,
    node_selector,
    one_of,
)
from gpucost.price.book_lines import Kind, read_lines, unreadable

if TYPE_CHECKING:
    from datetime import date, datetime
    from decimal import Decimal
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.price.fx import FxRates

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
    run_stage(con, __package__ or "", "11_price_book", columns)


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
