"""What-ifs answered: by the stages, or by what a fleet costs added up in plain Python, without the stages' time."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TypeVar

from gpucost.config.model import Config
from gpucost.whatif.cost import costs_of, evaluate
from gpucost.whatif.fleet import Costs, Fleet, Scenario

T = TypeVar("T")


def stage_cost(fleet: Fleet) -> Costs:
    """What a fleet costs, by the stages."""
    return costs_of(Config(), [fleet])[0]


def answered(scenario: Scenario[T], cost_of: Callable[[Fleet], Costs] = stage_cost) -> T:
    """What the scenario returns."""
    return evaluate(lambda fleets: [cost_of(fleet) for fleet in fleets], [scenario])[0]


def plain_cost(fleet: Fleet) -> Costs:
    """Every node at its one price for its hours; a pod holds its whole node."""
    cost = {(node.cluster, node.name): Decimal(repr(node.hours)) * node.prices[0].per_node_hour for node in fleet.nodes}
    by_workload: dict[tuple[str, str, str], Decimal] = {}
    for pod in fleet.pods:
        key = (pod.cluster, pod.namespace, pod.workload)
        by_workload[key] = by_workload.get(key, Decimal(0)) + cost[pod.cluster, pod.node]
    total = sum(cost.values(), Decimal(0))
    gpu_hours = sum(node.hours * node.gpus for node in fleet.nodes)
    return Costs(total, total, Decimal(0), gpu_hours, gpu_hours, sum(node.hours for node in fleet.nodes), by_workload)
