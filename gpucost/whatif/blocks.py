"""Node-hours at a price, costed by the stages: many of them in one run, each under its own name."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from gpucost.model import MS_PER_HOUR
from gpucost.whatif.answer import Position, Value
from gpucost.whatif.fleet import CostOf, Fleet, Node, Pod, Price

# What the store keeps of a price.
_KEPT = Decimal("1e-9")
_LONGEST_HOURS = 730


@dataclass(frozen=True, slots=True)
class Block:
    """`node_hours` of nodes with `gpus` GPUs each, all of them in use or at least paid, at one price per node-hour."""

    node_hours: float
    price: Decimal
    gpus: float = 1.0


def kept(price: Decimal) -> Decimal:
    """A price as the store keeps it: at most 9 decimals."""
    return price.quantize(_KEPT)


def charge(amount_per_part: Decimal, parts: float = 1) -> Block:
    """Money that is no node's (data moved, say): `parts` hours of something without GPUs, at that much each."""
    return Block(parts, amount_per_part, 0.0)


def positions(
    cost_of: CostOf, currency: str, groups: Mapping[str, Iterable[Block]], more: Mapping[str, Mapping[str, Value]] | None = None
) -> dict[str, Position]:
    """What each named group of blocks costs, by one run of the stages."""
    fleet, hours = Fleet(), dict.fromkeys(groups, (0.0, 0.0))
    for name, blocks in groups.items():
        for index, block in enumerate(blocks):
            fleet += _fleet(name, index, block)
            if block.gpus:
                before = hours[name]
                hours[name] = (before[0] + block.node_hours * block.gpus, before[1] + block.node_hours)
    costs = cost_of(fleet).by_workload if fleet.nodes else {}
    return {
        name: Position(
            costs.get(("default", "default", name), Decimal(0)),
            currency,
            round(gpu_hours, 6),
            round(node_hours, 6),
            dict((more or {}).get(name, {})),
        )
        for name, (gpu_hours, node_hours) in hours.items()
    }


def _fleet(name: str, index: int, block: Block) -> Fleet:
    """The block as one node that stands for many: its hours grow no longer than a month, so that the stages stay fast."""
    several = max(1, math.ceil(block.node_hours / _LONGEST_HOURS))
    end = round(block.node_hours / several * MS_PER_HOUR)
    if end <= 0:
        return Fleet()
    node, gpus = f"{name}#{index}", (block.gpus or 1.0) * several
    price = Price(kept(block.price) * several, "option")
    return Fleet(
        (Node(node, gpus, 0, end, (price,)),),
        (Pod(node, name, gpus, 0, end, uid=node),),
    )
