"""How many nodes a workload holds at once: it stops when any of them is taken back."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from gpucost.whatif.fleet import Fleet, Pod

Workload = tuple[str, str, str]
_REPLICAS = re.compile(r"(deployment|replicaset|statefulset|daemonset|inferenceservice)/", re.IGNORECASE)


def workload_of(pod: Pod) -> Workload:
    return pod.cluster, pod.namespace, pod.workload


def gangs(fleet: Fleet) -> dict[Workload, int]:
    """The most nodes that each workload held at one moment; 1 for replicas, which don't need each other."""
    pods: dict[Workload, list[Pod]] = defaultdict(list)
    for pod in fleet.pods:
        pods[workload_of(pod)].append(pod)
    return {key: 1 if _REPLICAS.match(key[2]) else _most_at_once(held) for key, held in pods.items()}


def _most_at_once(pods: Iterable[Pod]) -> int:
    events = sorted((at, change, pod.node) for pod in pods for at, change in ((pod.from_ms, 1), (pod.to_ms, -1)))
    held: dict[str, int] = defaultdict(int)
    nodes = most = 0
    for _, change, node in events:
        before = held[node]
        held[node] += change
        nodes += (held[node] > 0) - (before > 0)
        most = max(most, nodes)
    return most


def base_name(workload: str) -> str:
    """`Job/sweep-12` and `Job/sweep-13` are runs of `Job/sweep-*`."""
    return re.sub(r"[-_.]\d+$", "-*", workload)
