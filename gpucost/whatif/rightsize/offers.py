"""What one GPU of each model costs where: the fleet's own prices, else list and spot prices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.engine.local import run_stage
from gpucost.whatif.fleet import Node

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# what a node's capacity is bought as; reserved capacity is paid whatever runs on it
PURCHASE = {"on_demand": "on_demand", "unknown": "on_demand", "spot": "spot", "flex_start": "flex_start"}


@dataclass(frozen=True, slots=True)
class Offer:
    """An instance type's GPUs: up to `gpus` of them at `price_per_gpu_hour` each."""

    provider: str | None
    region: str | None
    instance_type: str | None
    gpu_model: str
    gpus: int
    purchase_option: str
    price_per_gpu_hour: Decimal
    source: str
    as_of: str | None = None


def list_offers(con: DuckDBPyConnection) -> list[Offer]:
    """List and spot prices of today by region. Expects price_offers on this connection (price.load_offers)."""
    run_stage(con, __package__ or "", "offers")
    rows = con.execute(
        "SELECT provider, region, instance_type, gpu_model, gpu_count, purchase_option, price_per_hour, price_as_of, source"
        " FROM gpu_offers ORDER BY ALL"
    ).fetchall()
    return [
        Offer(provider, region, kind, model, gpus, option, _each(price, gpus), source, str(as_of))
        for provider, region, kind, model, gpus, option, price, as_of, source in rows
    ]


def fleet_offers(nodes: Iterable[Node]) -> list[Offer]:
    """What the fleet's own nodes cost: their latest prices, discounts and contracts included."""
    found = {}
    for node in nodes:
        if node.is_priced and node.gpu_model and node.capacity_type in PURCHASE and node.gpus >= 1:
            price, gpus, option = node.prices[-1], round(node.gpus), PURCHASE[node.capacity_type]
            found[node.provider, node.region, node.instance_type, node.gpu_model, gpus, option] = Offer(
                node.provider,
                node.region,
                node.instance_type,
                node.gpu_model,
                gpus,
                option,
                _each(price.per_node_hour, gpus),
                price.source,
                price.as_of,
            )
    return list(found.values())


def merge(own: list[Offer], listed: list[Offer]) -> list[Offer]:
    """Both, list prices only where the fleet itself has no price of that instance type."""
    known = {(o.provider, o.region, o.instance_type, o.purchase_option) for o in own}
    return own + [o for o in listed if (o.provider, o.region, o.instance_type, o.purchase_option) not in known]


def _each(price: Decimal, gpus: int) -> Decimal:
    return round(price / gpus, 12)
