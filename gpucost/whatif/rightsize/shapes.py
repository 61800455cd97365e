"""Pods that are alike, and what they do with their GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from gpucost.whatif.fleet import Fleet, Node, Pod
from gpucost.whatif.measured import Levels, is_batch
from gpucost.whatif.rightsize.offers import PURCHASE
from gpucost.whatif.rightsize.sizing import Load

_ROUNDING = 1e-6
# A pod measured for less says nothing of GPUs that it never uses.
_LEAST_HOURS = 1.0


@dataclass(frozen=True, slots=True)
class Shape:
    """Pods of a workload that are alike: on one model, of one size, in one place."""

    cluster: str
    namespace: str
    workload: str
    model: str
    gpus: int
    capacity_type: str
    provider: str | None
    region: str | None


def has_whole_gpus(pod: Pod) -> bool:
    """Whether the pod holds whole GPUs, not parts of one."""
    return round(pod.gpus) >= 1 and abs(pod.gpus - round(pod.gpus)) < _ROUNDING


def shapes_of(fleet: Fleet) -> dict[Shape, list[Pod]]:
    """The pods that hold whole GPUs of a known model, alike ones together; those on reserved capacity are left out."""
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    shapes: dict[Shape, list[Pod]] = defaultdict(list)
    for pod in fleet.pods:
        node: Node = nodes[pod.cluster, pod.node]
        if has_whole_gpus(pod) and node.gpu_model and node.capacity_type in PURCHASE:
            place = (node.capacity_type, node.provider, node.region)
            shapes[Shape(pod.cluster, pod.namespace, pod.workload, node.gpu_model, round(pod.gpus), *place)].append(pod)
    return shapes


def load_of(shape: Shape, pods: Sequence[Pod], levels: Levels) -> Load | None:
    """What the pods of a shape do: means weighed by time, the busiest and fullest of them; None where none was measured."""
    found = [(pod, level) for pod in pods if (level := levels.get((pod.cluster, pod.uid))) is not None]
    if not found:
        return None
    hours = sum(pod.to_ms - pod.from_ms for pod, _ in found)
    mean = sum(level.mean * (pod.to_ms - pod.from_ms) for pod, level in found) / hours
    long = [level for _, level in found if level.measured_hours >= _LEAST_HOURS and level.devices >= shape.gpus]
    used = max((level.active_devices for level in long), default=shape.gpus)
    memories = [level.high_memory_mib for _, level in found if level.high_memory_mib is not None]
    share = mean * shape.gpus / used if used else 0.0
    high = max(level.high for _, level in found)
    memory = max(memories) if len(memories) == len(found) else None
    return Load(shape.model, shape.gpus, min(used, shape.gpus), min(share, 1.0), high, memory, is_batch(pods[0]))
