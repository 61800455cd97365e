"""The cost of a number of GPUs for a number of hours.

All purchase options side by side, at today's list prices.
"""

from collections.abc import Iterable
from datetime import date
from decimal import ROUND_CEILING, Decimal
from operator import attrgetter
from typing import Any

from gpucost.errors import UsageError
from gpucost.price.listing import ListedPrice, Listing
from gpucost.price.onprem import HOURS_PER_YEAR, Tco
from gpucost.records import frozen_dataclass
from gpucost.shapes import Shape

_BINDING = {"reserved", "savings_plan", "cud"}
_AS_LISTED = (
    "provider",
    "region",
    "zone",
    "instance_type",
    "payment_option",
    "offering",
    "currency",
    "price_as_of",
    "is_stale",
    "source",
)


# A way to buy GPUs.
_WAY = attrgetter(
    "provider", "purchase_option", "term_years", "payment_option", "offering", "currency", "is_single_gpu_host", "is_stale"
)  # fmt: skip


@frozen_dataclass
class Quoted:
    """One way to get the GPUs.

    `cost` covers the requested hours, `to_pay` the whole obligation, in `currency`. They differ if a
    commitment or an own node binds for term_years. price_per_hour covers all GPUs. `gpus` may exceed the
    request, because instances are bought whole. `instances` is None for a price per GPU, price_as_of without
    a list price.
    """

    purchase_option: str  # a purchase option, 'given' or 'own'
    price_per_hour: Decimal
    cost: Decimal
    to_pay: Decimal
    currency: str
    source: str
    instances: int | None
    gpus: Decimal | None
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    term_years: Decimal | None = None
    payment_option: str | None = None
    offering: str | None = None
    price_as_of: date | None = None
    is_stale: bool = False
    is_single_gpu_host: bool = False


@frozen_dataclass
class Quote(Shape):
    """The answer of `gpucost quote`.

    Rows in the config's currency come first, fresh prices before old ones, then by `to_pay`. Hosts with one
    GPU come after nodes with several: GPUs of different hosts have no NVLink between them.
    """

    today: date
    currency: str
    stale_after_days: int
    name: str | None
    hours: Decimal
    rows: tuple[Quoted, ...]


@frozen_dataclass
class Quantity:
    """The requested amount and duration: instances or GPUs, by default one instance."""

    hours: Decimal
    instances: int | None
    gpus: int | None

    def instances_of(self, gpu_count: Decimal | None) -> int:
        """Number of instances with `gpu_count` GPUs each."""
        if self.gpus is None or not gpu_count:
            return self.instances or 1
        return int((self.gpus / gpu_count).to_integral_value(ROUND_CEILING))


def list_prices(listing: Listing, need: Quantity) -> list[Quoted]:
    """List prices of an instance type or a GPU model.

    For a model, each provider's cheapest per way to buy it. Raises UsageError if a GPU model comes without a
    number of GPUs, or an instance type has an unknown number of GPUs.
    """
    names = {listing.name.strip().lower(), f"standard_{listing.name.strip().lower()}"}
    is_type = all(row.instance_type.lower() in names for row in listing.rows)
    if need.gpus is None and not is_type:
        wrong = (
            "--count counts instances, and"
            if need.instances is not None
            else "the number of GPUs is missing:"
        )
        raise UsageError(f"{wrong} {listing.name} is a GPU model", "add --gpus 16")
    if need.gpus is not None and not any(row.gpu_count for row in listing.rows):
        raise UsageError(
            f"the number of GPUs of {listing.name} is unknown", "set the number of instances with --count"
        )
    cheapest: dict[tuple[object, ...], Quoted] = {}
    for row in listing.rows:
        if need.gpus is not None and not row.gpu_count:
            continue
        quoted = _list_price(row, need)
        way = _WAY(quoted)
        cheapest[way] = min(cheapest.get(way, quoted), quoted, key=lambda row: row.to_pay)
    return list(cheapest.values())


def _list_price(row: ListedPrice, need: Quantity) -> Quoted:
    instances = need.instances_of(row.gpu_count)
    return _quoted(
        row.purchase_option,
        row.price_per_hour * instances,
        need.hours,
        term_years=Decimal(row.term_years) if row.term_years and row.purchase_option in _BINDING else None,
        instances=instances,
        gpus=row.gpu_count and row.gpu_count * instances,
        is_single_gpu_host=bool(need.gpus and need.gpus > 1 and row.gpu_count and row.gpu_count <= 1),
        **{name: getattr(row, name) for name in _AS_LISTED},
    )


def user_price(price_per_hour: Decimal, need: Quantity, currency: str, gpus: Decimal | None) -> Quoted:
    """The user's own price: per hour of a GPU if `gpus` is given, otherwise of an instance."""
    count = need.instances or 1 if gpus is None else gpus
    return _quoted(
        "given",
        price_per_hour * count,
        need.hours,
        currency=currency,
        source="your price",
        instances=need.instances,
        gpus=gpus,
    )


def owned(answer: Tco, gpus: Decimal, hours: Decimal) -> Quoted:
    """Own nodes, which cost the same in every hour of their years, used or not."""
    inputs = answer.inputs
    nodes = int((gpus / inputs.gpus_per_node).to_integral_value(ROUND_CEILING))
    return _quoted(
        "own",
        answer.price_per_hour * nodes,
        hours,
        term_years=inputs.years,
        instances=nodes,
        gpus=nodes * inputs.gpus_per_node,
        instance_type=inputs.gpu_model,
        currency=inputs.currency,
        source="total cost of ownership",
    )


def _quoted(
    purchase_option: str,
    price_per_hour: Decimal,
    hours: Decimal,
    *,
    term_years: Decimal | None = None,
    **more: Any,
) -> Quoted:
    bound = max(hours, (term_years or 0) * HOURS_PER_YEAR)
    cost, to_pay = (price_per_hour * time for time in (hours, bound))
    return Quoted(purchase_option, price_per_hour, cost, to_pay, term_years=term_years, **more)


def ranked(rows: Iterable[Quoted], currency: str) -> tuple[Quoted, ...]:
    """Sort by `to_pay`, the config's currency first.

    Old prices and hosts with one GPU come after the others.
    """

    return tuple(
        sorted(
            rows,
            key=lambda row: (
                row.currency != currency,
                row.currency,
                row.is_stale,
                row.is_single_gpu_host,
                row.to_pay,
                row.purchase_option,
            ),
        )
    )
