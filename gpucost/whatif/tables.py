"""A fleet as columns, the way the store takes it in."""

from __future__ import annotations

from typing import Any

from gpucost.whatif.fleet import Fleet

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
