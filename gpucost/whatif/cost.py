"""What described fleets cost: the attribution stages run on them, in memory. No second cost formula exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gpucost import attribute as attribution
from gpucost import inventory
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
from gpucost.records import record
from gpucost.whatif.answer import Position
from gpucost.whatif.curve import Curve
from gpucost.whatif.fleet import Costs, Fleet, Node, Pod, Price, Scenario, T, one_node


def evaluate(
    costs_of: Callable[[Sequence[Fleet]], Sequence[Costs]], scenarios: Sequence[Scenario[T]]
) -> list[T]:
    """What each of the scenarios returns, in order; the fleets that all of them wait for are costed together."""
    known: dict[Fleet, Costs] = {}
    waiting: dict[int, Sequence[Fleet] | None] = dict.fromkeys(range(len(scenarios)))
    answers: dict[int, T] = {}
    while waiting:
        for number, fleets in list(waiting.items()):
            try:
                scenario = scenarios[number]
                waiting[number] = (
                    next(scenario) if fleets is None else scenario.send([known[fleet] for fleet in fleets])
                )
            except StopIteration as end:
                answers[number] = end.value
                del waiting[number]
        new = [
            fleet
            for fleet in dict.fromkeys(one for fleets in waiting.values() for one in fleets or ())
            if fleet not in known
        ]
        known |= zip(new, costs_of(new), strict=True)
    return [answers[number] for number in range(len(scenarios))]


def costs_of(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """What each of the fleets costs, in order."""
    spans = [
        (
            min((node.from_ms for node in fleet.nodes), default=0),
            max((node.to_ms for node in fleet.nodes), default=0),
            number,
        )
        for number, fleet in enumerate(fleets)
    ]
    # together those whose times meet: the stages walk through all days between the first and the last
    groups: list[list[int]] = []
    until = 0
    for begin, end, number in sorted(spans):
        if not groups or begin > until:
            groups.append([])
        groups[-1].append(number)
        until = max(until, end)
    costs: dict[int, Costs] = {}
    for numbers in groups:
        costs |= zip(numbers, _costs_together(config, [fleets[number] for number in numbers]), strict=True)
    return [costs[number] for number in range(len(fleets))]


def _costs_together(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """The fleets stand side by side, in clusters of their own: each cluster's name begins with the number of its fleet."""
    from gpucost.store.connection import scratch_store
    from gpucost.store.usage import cluster_costs, put_fleet, workload_costs

    with scratch_store() as con:
        inventory.declare(con)
        put_fleet(con, _tables(fleets))
        # they tell of no cores and memory: whatever the cost basis, the whole price rides on GPUs
        con.execute("SET VARIABLE cost_basis = 'node'")
        attribution.stage(con, config.tz, everything=True)
        totals, rows = cluster_costs(con), workload_costs(con)
    sums: list[list[Any]] = [[Decimal(0)] * 3 + [0] * 3 for _ in fleets]
    for cluster, *figures in totals:
        number = int(cluster.partition("/")[0])
        sums[number] = [before + more for before, more in zip(sums[number], figures, strict=True)]
    costs = [Costs(*one[:3], *(round(ms / MS_PER_HOUR, 9) for ms in one[3:])) for one in sums]
    for cluster, namespace, workload, amount in rows:
        number, _, own = cluster.partition("/")
        costs[int(number)].by_workload[own, namespace, workload] = amount
    return costs


def _tables(fleets: Sequence[Fleet]) -> dict[str, dict[str, list[Any]]]:
    """The columns of `nodes`, `prices`, `pods` and `teams`, one value per node, price step and pod; prices as text, exactly."""
    nodes = [
        (f"{number}/{node.cluster}", node) for number, fleet in enumerate(fleets) for node in fleet.nodes
    ]
    pods = [(f"{number}/{pod.cluster}", pod) for number, fleet in enumerate(fleets) for pod in fleet.pods]
    steps = [(cluster, node.name, price) for cluster, node in nodes for price in node.prices]
    where = (
        "name",
        "from_ms",
        "to_ms",
        "provider",
        "region",
        "zone",
        "instance_type",
        "capacity_type",
        "gpu_model",
        "gpus",
    )
    key = ("uid", "node", "from_ms")
    return {
        "nodes": _columns(nodes, *where),
        "prices": {
            "cluster": [cluster for cluster, _, _ in steps],
            "node": [node for _, node, _ in steps],
            "from_ms": [price.from_ms for _, _, price in steps],
            "price_per_hour": [f"{price.per_node_hour:f}" for _, _, price in steps],
            "price_source": [price.source for _, _, price in steps],
        },
        "pods": _columns(pods, *key, "to_ms", "namespace", "workload", "gpus"),
        "teams": _columns(pods, *key, "team"),
    }


def _columns(rows: Sequence[tuple[str, Node | Pod]], *names: str) -> dict[str, list[Any]]:
    return {"cluster": [cluster for cluster, _ in rows]} | {
        name: [getattr(row, name) for _, row in rows] for name in names
    }


# What the store keeps of a price.
_KEPT = Decimal("1e-9")
_LONGEST_HOURS = 730


@record
class CostBlock:
    """`node_hours` of nodes with `gpus` GPUs each, all of them in use or at least paid, at one price per node-hour."""

    node_hours: float
    price: Decimal
    gpus: float = 1.0


def kept(price: Decimal | float) -> Decimal:
    """A price as the store keeps it: at most 9 decimals."""
    return Decimal(str(price)).quantize(_KEPT)


def charge(amount_per_part: Decimal, parts: float = 1) -> CostBlock:
    """Money that is no node's (data moved, say): `parts` hours of something without GPUs, at that much each."""
    return CostBlock(parts, amount_per_part, 0.0)


def base_and_rest(curve: Curve, level: int, base: Decimal, rest: Decimal, gpus: float) -> list[CostBlock]:
    """`level` nodes at the price `base` in all hours, and what of the curve they do not hold by the hour, at `rest`."""
    above = max(0.0, curve.node_hours - curve.used(level))
    return [CostBlock(level * curve.hours, base, gpus), CostBlock(above, rest, gpus)]


def positions(currency: str, groups: Mapping[str, Iterable[CostBlock]]) -> Scenario[dict[str, Position]]:
    """What each named group of blocks costs."""
    named = {name: list(blocks) for name, blocks in groups.items()}
    costs = yield [
        sum((_fleet(str(number), block) for number, block in enumerate(blocks)), Fleet())
        for blocks in named.values()
    ]
    return {
        name: Position(
            one.cost,
            currency,
            round(sum((block.node_hours * block.gpus for block in blocks), 0.0), 6),
            round(sum((block.node_hours for block in blocks if block.gpus), 0.0), 6),
        )
        for (name, blocks), one in zip(named.items(), costs, strict=True)
    }


def _fleet(name: str, block: CostBlock) -> Fleet:
    """The block as one node that stands for many: its hours grow no longer than a month, so that the stages stay fast."""
    several = max(1, math.ceil(block.node_hours / _LONGEST_HOURS))
    price = Price(kept(block.price) * several, "option")
    gpus, hours = (block.gpus or 1.0) * several, block.node_hours / several
    return one_node(name, gpus, hours, price)
