"""Options that describe a fleet to move to spot: both prices of a node and its interruptions, of the market where not given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.model import to_ms
from gpucost.whatif.described import GPUS_PER_NODE, PricePer, node_price
from gpucost.whatif.fleet import HOURS_PER_MONTH, Price
from gpucost.whatif.spot.calculator import Quote
from gpucost.whatif.spot.market import Market, Place, find_instance, read_market

if TYPE_CHECKING:
    from decimal import Decimal

    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.whatif.spot.rates import Rate


@dataclass(frozen=True, slots=True)
class Described:
    """What options say of a fleet; prices are per node or per GPU, None is not given."""

    on_demand_price: Decimal | None = None
    spot_price: Decimal | None = None
    price_per: PricePer = PricePer.node
    instance_type: str | None = None
    region: str | None = None
    zone: str | None = None
    nodes: int | None = None
    gpus: int | None = None
    hours: float | None = None


def find_place(con: DuckDBPyConnection, fleet: Described) -> tuple[Place, int]:
    """Where the instance type is bought, and its GPUs. Raises UsageError for a type that is not known."""
    instance = find_instance(con, fleet.instance_type or "", None)
    if instance.gpus != int(instance.gpus):
        raise UsageError(f"{instance.name} holds {instance.gpus:g} of a GPU", "give prices and --gpus instead of --instance-type")
    if fleet.gpus not in (None, instance.gpus):
        raise UsageError(f"{instance.name} has {instance.gpus:g} GPUs, not {fleet.gpus}", "leave out --gpus")
    return Place(instance.name, instance.provider, fleet.region, fleet.zone), int(instance.gpus)


def quote_of(con: DuckDBPyConnection, settings: Config, fleet: Described) -> tuple[Quote, Rate | None]:
    """Both prices of a node, from options first, and the rate of its catalog band. Raises UsageError where a price is missing."""
    gpus, rate, market, place = fleet.gpus or GPUS_PER_NODE, None, None, None
    if fleet.instance_type is not None:
        place, gpus = find_place(con, fleet)
        market = read_market(con, [fleet.instance_type], settings.currency, settings.prices.stale_after_days)
        rate = market.band(place)
    elif fleet.region or fleet.zone:
        raise UsageError("--region and --zone say where an --instance-type is", "give --instance-type, or leave them out")
    prices = {"on_demand": fleet.on_demand_price, "spot": fleet.spot_price}
    found: dict[str, Price] = {}
    for option, price in prices.items():
        if price is not None:
            found[option] = Price(node_price(price, fleet.price_per, gpus), "option")
        elif market is not None and place is not None:
            found[option] = known_price(market, place, option)
        else:
            name = f"--{option.replace('_', '-')}-price"
            raise UsageError(f"{name} is missing", f"give {name}, or --instance-type and --region to look it up")
    quote = Quote(
        on_demand=found["on_demand"],
        spot=found["spot"],
        nodes=fleet.nodes or 1,
        gpus=gpus,
        hours=fleet.hours or HOURS_PER_MONTH,
        currency=settings.currency,
        price_per=fleet.price_per.value,
        name=str(place.instance_type) + (f" in {place.region}" if place.region else "") if place else "",
    )
    return quote, rate


def known_price(market: Market, place: Place, option: str) -> Price:
    """The price of the place: spot history that is not stale before list prices. Raises UsageError where none is known."""

    now_ms = to_ms(datetime.now(UTC))
    price = (market.latest_spot(place, now_ms) if option == "spot" else None) or market.list_price(place, option)
    if price is not None:
        return price
    where = f" in {place.zone or place.region}" if place.zone or place.region else ""
    words = option.replace("_", "-")
    raise UsageError(
        f"no {words} price of {place.instance_type}{where} in {market.currency} is known",
        f"give --{words}-price" + ("" if place.region else ", or --region: prices differ between regions"),
    )
