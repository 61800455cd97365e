"""What `gpucost prices` answers: rows of prices, cheapest GPU-hour first, each in one currency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

_KEPT = Decimal("1e-12")
_PERCENT_KEPT = Decimal("0.1")


@dataclass(frozen=True, slots=True)
class ListedPrice:
    """One list price of an instance; None where a field does not apply, or nothing is known.

    price_per_hour is of the whole instance in `currency`, which is the config's where a rate is known, else the one it is
    listed in. gpu_count may be a part of a GPU. more_regions counts dearer regions that are not shown.
    """

    provider: str
    region: str | None
    zone: str | None
    instance_type: str
    gpu_model: str | None
    gpu_count: Decimal | None
    purchase_option: str
    term_years: int | None
    payment_option: str | None
    offering: str | None
    price_per_hour: Decimal
    currency: str
    listed_price_per_hour: Decimal
    listed_currency: str
    spot_discount_percent: Decimal | None
    price_as_of: date
    effective_start: date | None
    source: str
    origin: str  # 'catalog', 'store' (gpucost collect prices) or 'spot_history' (gpucost collect spot)
    status: str  # 'current', 'superseded' by a newer one, or 'upcoming'
    is_stale: bool
    more_regions: int | None = None

    @property
    def price_per_gpu_hour(self) -> Decimal | None:
        """price_per_hour over gpu_count, at most 12 decimals; None where the instance's GPUs are not known."""
        if self.gpu_count is None:
            return None
        return (self.price_per_hour / self.gpu_count).quantize(_KEPT).normalize()


@dataclass(frozen=True, slots=True)
class Listing:
    """The prices of one GPU or instance type."""

    name: str
    gpu_models: tuple[str, ...]
    today: date
    currency: str
    stale_after_days: int
    rows: tuple[ListedPrice, ...]
    superseded: tuple[ListedPrice, ...]
    not_sold_on_demand: tuple[str, ...] = ()  # sentences on instance types asked for: how they are sold instead

    @property
    def cheapest_fresh(self) -> ListedPrice | None:
        """The first row that is not stale, where a stale one of the same currency stands before all; else None."""
        if not self.rows or not self.rows[0].is_stale:
            return None
        return next((row for row in self.rows if not row.is_stale and row.currency == self.rows[0].currency), None)

    @property
    def unconverted(self) -> tuple[str, ...]:
        """Currencies of rows that no rate converts, and which are sorted after the others."""
        return tuple(sorted({row.currency for row in self.rows} - {self.currency}))


@dataclass(frozen=True, slots=True)
class Overview:
    """Every GPU model with its cheapest price by purchase option."""

    today: date
    currency: str
    stale_after_days: int
    purchase_options: tuple[str, ...]
    rows: tuple[tuple[str, dict[str, ListedPrice]], ...]  # (GPU model, purchase option -> its cheapest price)


def converted(price: Decimal, rate: Decimal) -> Decimal:
    """`price` in another currency, at most 12 decimals."""
    return (price * rate).quantize(_KEPT).normalize()


def spot_discount_percent(spot: Decimal, on_demand: Decimal) -> Decimal:
    """100 × (1 − spot ÷ on demand), to a tenth of a percent; 0 or less where spot is no cheaper."""
    return ((1 - spot / on_demand) * 100).quantize(_PERCENT_KEPT)


def by_price(rows: Iterable[ListedPrice], currency: str) -> list[ListedPrice]:
    """`rows` in `currency` first, cheapest GPU-hour first; then those in others, one currency after the other."""

    def rank(row: ListedPrice) -> tuple[object, ...]:
        per_gpu = row.price_per_gpu_hour
        place = (row.provider, row.instance_type, row.purchase_option, row.term_years or 0, row.region or "", row.zone or "")
        details = (row.payment_option or "", row.offering or "", -row.price_as_of.toordinal(), row.source)
        return (row.currency != currency, row.currency, per_gpu is None, per_gpu or row.price_per_hour, *place, *details)

    return sorted(rows, key=rank)


def cheapest_regions(rows: Sequence[ListedPrice]) -> list[ListedPrice]:
    """Of `rows`, sorted by price, the first of every kind of price of an instance type; more_regions counts its others."""
    regions: dict[tuple[object, ...], set[str | None]] = {}
    firsts: dict[tuple[object, ...], ListedPrice] = {}
    for row in rows:
        kind = (
            row.provider,
            row.instance_type.lower(),
            row.purchase_option,
            row.term_years,
            row.payment_option,
            row.offering,
            row.currency,
        )
        firsts.setdefault(kind, row)
        regions.setdefault(kind, set()).add(row.region)
    return [replace(first, more_regions=len(regions[kind]) - 1) for kind, first in firsts.items()]
