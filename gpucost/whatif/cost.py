"""What described fleets cost: the attribution stages run on them, in memory. No second cost formula exists."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from gpucost import attribute as attribution
from gpucost import inventory
from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.answer import Position
from gpucost.whatif.fleet import Costs, Fleet, Price, Scenario, uniform

if TYPE_CHECKING:
    from gpucost.config.model import Config


T = TypeVar("T")


def evaluate(costs_of: Callable[[Sequence[Fleet]], Sequence[Costs]], scenarios: Sequence[Scenario[T]]) -> list[T]:
    """What each of the scenarios returns, in order; the fleets that all of them wait for are costed together."""
    known: dict[Fleet, Costs] = {}
    waiting: dict[int, Sequence[Fleet] | None] = dict.fromkeys(range(len(scenarios)))
    answers: dict[int, T] = {}
    while waiting:
        for number, fleets in list(waiting.items()):
            try:
                scenario = scenarios[number]
                waiting[number] = next(scenario) if fleets is None else scenario.send([known[fleet] for fleet in fleets])
            except StopIteration as end:
                answers[number] = end.value
                del waiting[number]
        new = [fleet for fleet in dict.fromkeys(one for fleets in waiting.values() for one in fleets or ()) if fleet not in known]
        known |= zip(new, costs_of(new), strict=True)
    return [answers[number] for number in range(len(scenarios))]


def costs_of(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """What each of the fleets costs, in order."""
    found: dict[int, Costs] = {}
    for numbers in _at_one_time(fleets):
        found |= zip(numbers, _costs_together(config, [fleets[number] for number in numbers]), strict=True)
    return [found[number] for number in range(len(fleets))]


def _at_one_time(fleets: Sequence[Fleet]) -> list[list[int]]:
    """Fleets whose times meet, as positions: the stages walk through all days between the first and the last."""
    spans = sorted(
        (min((n.from_ms for n in fleet.nodes), default=0), max((n.to_ms for n in fleet.nodes), default=0), number)
        for number, fleet in enumerate(fleets)
    )
    groups: list[list[int]] = []
    until = 0
    for begin, end, number in spans:
        if groups and begin <= until:
            groups[-1].append(number)
            until = max(until, end)
        else:
            groups.append([number])
            until = end
    return groups


def _costs_together(config: Config, fleets: Sequence[Fleet]) -> list[Costs]:
    """The fleets stand side by side, in clusters of their own."""
    from gpucost.store.connection import scratch_store
    from gpucost.store.usage import cluster_costs, put_fleet, workload_costs

    together = Fleet()
    for number, fleet in enumerate(fleets):
        together += Fleet(
            tuple(replace(node, cluster=f"{number}/{node.cluster}") for node in fleet.nodes),
            tuple(replace(pod, cluster=f"{number}/{pod.cluster}") for pod in fleet.pods),
        )
    with scratch_store() as con:
        inventory.declare(con)
        put_fleet(con, tables(together))
        # they tell of no cores and memory: whatever the cost basis, the whole price rides on GPUs
        con.execute("SET VARIABLE cost_basis = 'node'")
        attribution.stage(con, config.tz, everything=True)
        totals, rows = cluster_costs(con), workload_costs(con)
    sums: list[list[Any]] = [[Decimal(0)] * 3 + [0] * 3 for _ in fleets]
    for cluster, *figures in totals:
        number = int(cluster.partition("/")[0])
        sums[number] = [before + more for before, more in zip(sums[number], figures, strict=True)]
    found = [Costs(*one[:3], *(round(ms / MS_PER_HOUR, 9) for ms in one[3:])) for one in sums]
    for team, cluster, namespace, workload, amount in rows:
        first, _, own = cluster.partition("/")
        of = found[int(first)]
        of.by_team[team] = of.by_team.get(team, Decimal(0)) + amount
        key = (own, namespace, workload)
        of.by_workload[key] = of.by_workload.get(key, Decimal(0)) + amount
    return found


Columns = dict[str, list[Any]]


def tables(fleet: Fleet) -> dict[str, Columns]:
    """The columns of `nodes`, `prices`, `pods` and `teams`, one value per node, price step and pod; prices as text, exactly."""
    steps = [(node, price) for node in fleet.nodes for price in node.prices]
    pods: Columns = {
        "cluster": [pod.cluster for pod in fleet.pods],
        "node": [pod.node for pod in fleet.pods],
        "uid": [pod.uid for pod in fleet.pods],
        "held_from_ms": [pod.from_ms for pod in fleet.pods],
    }
    return {
        "nodes": {
            "cluster": [node.cluster for node in fleet.nodes],
            "node": [node.name for node in fleet.nodes],
            "up_from_ms": [node.from_ms for node in fleet.nodes],
            "up_to_ms": [node.to_ms for node in fleet.nodes],
            "provider": [node.provider for node in fleet.nodes],
            "region": [node.region for node in fleet.nodes],
            "zone": [node.zone for node in fleet.nodes],
            "instance_type": [node.instance_type for node in fleet.nodes],
            "capacity_type": [node.capacity_type for node in fleet.nodes],
            "gpu_model": [node.gpu_model for node in fleet.nodes],
            "gpu_count": [node.gpus for node in fleet.nodes],
        },
        "prices": {
            "cluster": [node.cluster for node, _ in steps],
            "node": [node.name for node, _ in steps],
            "from_ms": [price.from_ms for _, price in steps],
            "price_per_hour": [f"{price.per_node_hour:f}" for _, price in steps],
            "price_source": [price.source for _, price in steps],
        },
        "pods": pods
        | {
            "namespace": [pod.namespace for pod in fleet.pods],
            "workload": [pod.workload for pod in fleet.pods],
            "gpus": [pod.gpus for pod in fleet.pods],
            "held_to_ms": [pod.to_ms for pod in fleet.pods],
        },
        "teams": pods | {"team": [pod.team for pod in fleet.pods]},
    }


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


def positions(currency: str, groups: Mapping[str, Iterable[Block]]) -> Scenario[dict[str, Position]]:
    """What each named group of blocks costs."""
    named = {name: list(blocks) for name, blocks in groups.items()}
    costs = yield [sum((_fleet(str(number), block) for number, block in enumerate(blocks)), Fleet()) for blocks in named.values()]
    return {
        name: Position(
            one.cost,
            currency,
            round(sum((block.node_hours * block.gpus for block in blocks), 0.0), 6),
            round(sum((block.node_hours for block in blocks if block.gpus), 0.0), 6),
        )
        for (name, blocks), one in zip(named.items(), costs, strict=True)
    }


def _fleet(name: str, block: Block) -> Fleet:
    """The block as one node that stands for many: its hours grow no longer than a month, so that the stages stay fast."""
    several = max(1, math.ceil(block.node_hours / _LONGEST_HOURS))
    price = Price(kept(block.price) * several, "option")
    gpus, hours = (block.gpus or 1.0) * several, block.node_hours / several
    return uniform(name, nodes=1, gpus_per_node=gpus, hours=hours, price=price)
