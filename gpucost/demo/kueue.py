"""What Kueue would have said: ClusterQueues of three teams that borrow from each other, and how long their jobs waited."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from gpucost.demo.activity import Floats, Times
from gpucost.demo.model import Series

if TYPE_CHECKING:
    from gpucost.demo.model import Fleet, Pod

_STEP = 600
_KUEUE = {"job": "kueue-controller-manager", "instance": "10.10.5.4:8443", "replica_role": "leader"}
#: (ClusterQueue, namespaces, quota in GPUs, borrowing limit)
_QUEUES = (
    ("research", ("ml-research", "nlp-experiments"), 12, math.inf),
    ("vision", ("vision-training", "vision-video"), 16, 4.0),
    ("product", ("recsys",), 16, 0.0),
)
_BOUNDS = (1.0, 2.5, *(5.0 * 2**n for n in range(12)))


def kueue(fleet: Fleet) -> Iterator[Series]:
    """Its gauges, and the histogram of waits for admission, of jobs."""
    times = np.arange(fleet.start + 23, fleet.end, _STEP, dtype=np.int64)
    dice = np.random.default_rng([fleet.start, 7])
    for name, namespaces, quota, limit in _QUEUES:
        jobs = [pod for pod in fleet.pods if pod.namespace in namespaces and pod.owner[0] == "Job"]
        waits = [pod.waits or float(dice.exponential(900)) for pod in jobs]
        used = _sum(times, [(pod.start, pod.end, len(pod.devices)) for pod in jobs])
        waiting = _sum(times, [(pod.start - int(wait), pod.start, 1) for pod, wait in zip(jobs, waits, strict=True)])
        of = {"cluster_queue": name, "cohort": "gpus", "flavor": "any", "resource": "nvidia.com/gpu"}
        gauges = {"nominal_quota": quota, "borrowing_limit": limit}
        for what, value in gauges.items():
            yield Series({"__name__": f"kueue_cluster_queue_{what}", **_KUEUE, **of}, times, np.full(len(times), float(value)))
        yield Series({"__name__": "kueue_cluster_queue_resource_usage", **_KUEUE, **of}, times, used)
        pending = {"__name__": "kueue_pending_workloads", **_KUEUE, "cluster_queue": name, "status": "active"}
        yield Series(pending, times, waiting)
        yield from _histogram(name, times, jobs, np.array(waits))


def _histogram(name: str, times: Times, jobs: list[Pod], waits: Floats) -> Iterator[Series]:
    starts = np.array([pod.start for pod in jobs])
    order = np.argsort(starts)
    starts, waits = starts[order], waits[order]
    passed = np.searchsorted(starts, times, side="right")
    base = {**_KUEUE, "cluster_queue": name}
    metric = "kueue_admission_wait_time_seconds"

    def counted(weights: Floats) -> Floats:
        sums: Floats = np.concatenate(([0.0], np.cumsum(weights)))[passed]
        return sums

    yield Series({"__name__": f"{metric}_sum", **base}, times, counted(waits))
    yield Series({"__name__": f"{metric}_count", **base}, times, counted(np.ones(len(waits))))
    for bound in (*_BOUNDS, math.inf):
        le = "+Inf" if math.isinf(bound) else f"{bound:g}"
        yield Series({"__name__": f"{metric}_bucket", **base, "le": le}, times, counted((waits <= bound).astype(float)))


def _sum(times: Times, spans: list[tuple[int, int, int]]) -> Floats:
    """How much of the spans (start, end, amount) holds at each moment."""
    total = np.zeros(len(times) + 1)
    for start, end, amount in spans:
        low, high = np.searchsorted(times, [start, end])
        total[low] += amount
        total[high] -= amount
    summed: Floats = np.cumsum(total)[:-1]
    return summed
