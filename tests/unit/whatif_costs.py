"""What a fleet costs, added up in plain Python: the stages' answer where everything is held, without their time."""

from __future__ import annotations

from decimal import Decimal

from gpucost.whatif.fleet import Costs, Fleet


def plain_cost(fleet: Fleet) -> Costs:
    """Every node at its one price for its hours; a pod holds its whole node."""
    cost = {(node.cluster, node.name): Decimal(repr(node.hours)) * node.prices[0].per_node_hour for node in fleet.nodes}
    by_workload: dict[tuple[str, str, str], Decimal] = {}
    for pod in fleet.pods:
        key = (pod.cluster, pod.namespace, pod.workload)
        by_workload[key] = by_workload.get(key, Decimal(0)) + cost[pod.cluster, pod.node]
    total = sum(cost.values(), Decimal(0))
    gpu_hours = sum(node.hours * node.gpus for node in fleet.nodes)
    return Costs(total, total, Decimal(0), gpu_hours, gpu_hours, sum(node.hours for node in fleet.nodes), {}, by_workload)
