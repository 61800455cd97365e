"""The one door through which a cloud's list prices enter the store: a provider's answer, whole or not at all."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from gpucost.model import MS_PER_HOUR, to_ms
from gpucost.store import runs, sqlfiles

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime
    from decimal import Decimal

    from gpucost.store.connection import Store

KIND = "prices"  # in loads and collect_runs


@dataclass(frozen=True, slots=True)
class ListPrice:
    """What one whole instance costs per hour, upfront payments spread over the term. Fields as in the table."""

    region: str
    instance_type: str
    purchase_option: str
    price_per_hour: Decimal
    currency: str
    source: str
    term_years: int = 0
    payment_option: str = ""
    offering: str = ""
    zone: str = ""
    effective_start: date | None = None

    @property
    def key(self) -> tuple[object, ...]:
        """What it is the price of."""
        return (
            self.region,
            self.zone,
            self.instance_type,
            self.purchase_option,
            self.term_years,
            self.payment_option,
            self.offering,
            self.currency,
        )


@dataclass(frozen=True, slots=True)
class ComponentPrice:
    """What one vCPU, GiB or GPU costs per hour, where a cloud sells them apart."""

    region: str
    component: str
    purchase_option: str
    term_years: int
    price_per_hour: Decimal
    currency: str
    source: str


@dataclass(frozen=True, slots=True)
class InstanceType:
    """What an instance type holds; `gpu_count` may be a part of a GPU, `gpu_memory_mib` is of one GPU or part."""

    instance_type: str
    gpu_model: str
    gpu_count: float
    gpu_memory_mib: int | None
    vcpus: float | None
    memory_gib: float | None
    source: str


@dataclass(frozen=True, slots=True)
class ProviderPrices:
    """What one provider answered for `regions`; facts of other regions must not be among them."""

    provider: str
    regions: Sequence[str]
    prices: Sequence[ListPrice]
    components: Sequence[ComponentPrice] = ()
    instance_types: Sequence[InstanceType] = field(default=())

    @property
    def rows(self) -> int:
        """How many facts there are."""
        return len(self.prices) + len(self.components) + len(self.instance_types)


def load_prices(store: Store, found: ProviderPrices, asked_at: datetime) -> None:
    """Writes one provider's facts as of the UTC day of `asked_at`, in one transaction.

    The same day asked again replaces that day's facts of the same regions; other days stay, as history. Raises StoreError.
    """
    day = asked_at.date()
    # the log knows windows only: this one is the day so far
    now_ms = to_ms(asked_at)
    span = (min(now_ms - now_ms % (24 * MS_PER_HOUR), now_ms - 1), now_ms)
    shared = {"provider": found.provider}
    dated = {**shared, "price_as_of": day}
    regions = {**dated, "regions": list(found.regions)}
    with store.write() as con:
        run_id = runs.begin(con, KIND, found.provider, span)
        sqlfiles.run(con, "list_prices_delete", regions)
        sqlfiles.run(con, "list_prices_insert", {**dated, **columns_of(ListPrice, found.prices)})
        sqlfiles.run(con, "component_prices_delete", regions)
        sqlfiles.run(con, "component_prices_insert", {**dated, **columns_of(ComponentPrice, found.components)})
        types = columns_of(InstanceType, found.instance_types)
        seen = {**shared, "seen_on": day}
        sqlfiles.run(con, "instance_types_delete", {**seen, "instance_type": types["instance_type"]})
        sqlfiles.run(con, "instance_types_insert", {**seen, **types})
        runs.log_load(con, run_id, KIND, found.provider, span, rows=found.rows)
        runs.finish(con, run_id)


def node_regions(store: Store) -> list[str]:
    """The regions, of any cloud, in which nodes were seen; none where there is no store yet."""
    if not store.exists:
        return []
    with store.read() as con:
        return [str(region) for (region,) in sqlfiles.run(con, "node_regions").fetchall()]


def columns_of(kind: type[Any], rows: Sequence[Any]) -> dict[str, list[object]]:
    """`rows` of a class as parallel lists by field, as statements take them; prices as text, which keeps every digit."""
    names = [item.name for item in fields(kind)]
    columns: dict[str, list[object]] = {name: [getattr(row, name) for row in rows] for name in names}
    if "price_per_hour" in columns:
        columns["price_per_hour"] = [f"{price:f}" for price in columns["price_per_hour"]]
    return columns
