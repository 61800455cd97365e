"""The series of kube-state-metrics and dcgm-exporter for the sample fleet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial

import numpy as np
import numpy.typing as npt

from tests.sample.fleet import DemoFleet, DemoPod, DemoSeries, Device

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


def percent(profile: str, times: Times, start: int, end: int, dice: np.random.Generator) -> Floats:
    """Return utilization in whole percent at `times` (Unix seconds) for a pod that runs in [start, end)."""

    def normal(mean: float, spread: float) -> Floats:
        return dice.normal(mean, spread, len(times))

    hour = times % 86_400 / 3600
    rhythm = np.sin((hour - 9) / 24 * 2 * np.pi)
    ended = {"hung": 0.45, "forgotten": 0.2}.get(profile, 1)
    busy = np.zeros(len(times))
    if profile in ("training", "narrow", "patchy"):
        mean, stalls = (74, 0.34) if profile == "patchy" else (91, 0.14)
        busy = np.maximum(normal(mean, 5), 6)
        busy[_stretches(times, 3600, dice) < stalls] = 2
        busy[times < start + 600] = 0  # images, data, warm-up
    elif profile == "hung":
        busy = np.maximum(normal(88, 5), 6)
    elif profile in ("notebook", "forgotten"):
        at_desk = ((times // 86_400 + 3) % 7 < 5) & (hour > 9) & (hour < 19)
        busy = np.where(at_desk & (_stretches(times, 5400, dice) < 0.42), normal(46, 18), 0)
    elif profile == "sparse":
        busy = np.maximum(9 + 3 * rhythm + normal(0, 1), 5)
    elif profile == "serving":
        busy = np.clip(34 + 30 * rhythm + normal(0, 4), 0, 100)
        busy[(hour > 0) & (hour < 6.5)] *= 0.25
    elif profile == "tests":
        busy = np.where(_stretches(times, 600, dice) < 0.7, normal(40, 15), 1)
    busy[times > start + (end - start) * ended] = 0
    return np.rint(np.clip(busy, 0, 100))


def _stretches(times: Times, seconds: int, dice: np.random.Generator) -> Floats:
    """Return a number in [0, 1) per interval, the same for all moments within it."""
    if not len(times):
        return np.zeros(0)
    stretch = (times - times[0]) // seconds
    return dice.random(int(stretch[-1]) + 1)[stretch]


_STEP = 600
#: (ClusterQueue, namespaces, quota in GPUs, borrowing limit)
_QUEUES = (
    ("research", ("ml-research", "nlp-experiments"), 12, math.inf),
    ("vision", ("vision-training", "vision-video"), 16, 4.0),
    ("product", ("recsys",), 16, 0.0),
)
_BOUNDS = (1.0, 2.5, *(5.0 * 2**n for n in range(12)), math.inf)


def _of_queue(metric: str, queue: str, times: Times, values: Floats | float, **labels: str) -> DemoSeries:
    kueue = {"job": "kueue-controller-manager", "instance": "10.10.5.4:8443", "replica_role": "leader"}
    name = {"__name__": f"kueue_{metric}", **kueue, "cluster_queue": queue}
    return DemoSeries(name | labels, times, np.broadcast_to(np.asarray(values, dtype=float), times.shape))


def kueue(fleet: DemoFleet) -> Iterator[DemoSeries]:
    """Yield the queue's gauges, and the histogram of its jobs' waits for admission."""
    times = np.arange(fleet.start + 23, fleet.end, _STEP, dtype=np.int64)
    dice = np.random.default_rng([fleet.start, 7])
    for queue, namespaces, quota, limit in _QUEUES:
        jobs = [pod for pod in fleet.pods if pod.namespace in namespaces and pod.owner[0] == "Job"]
        waits = [pod.waits or float(dice.exponential(900)) for pod in jobs]
        used = _sum(times, [(pod.start, pod.end, len(pod.devices)) for pod in jobs])
        waiting = _sum(
            times, [(pod.start - int(wait), pod.start, 1) for pod, wait in zip(jobs, waits, strict=True)]
        )
        flavor = {"cohort": "gpus", "flavor": "any", "resource": "nvidia.com/gpu"}
        for metric, values in (
            ("nominal_quota", quota),
            ("borrowing_limit", limit),
            ("resource_usage", used),
        ):
            yield _of_queue(f"cluster_queue_{metric}", queue, times, values, **flavor)
        yield _of_queue("pending_workloads", queue, times, waiting, status="active")
        yield from _histogram(queue, times, jobs, np.array(waits))


def _histogram(queue: str, times: Times, jobs: list[DemoPod], waits: Floats) -> Iterator[DemoSeries]:
    starts = np.array([pod.start for pod in jobs])
    order = np.argsort(starts)
    starts, waits = starts[order], waits[order]
    admitted = np.searchsorted(starts, times, side="right")

    def series(suffix: str, weights: Floats, **labels: str) -> DemoSeries:
        totals = np.concatenate(([0.0], np.cumsum(weights)))[admitted]
        return _of_queue(f"admission_wait_time_seconds_{suffix}", queue, times, totals, **labels)

    yield series("sum", waits)
    yield series("count", np.ones(len(waits)))
    for bound in _BOUNDS:
        yield series(
            "bucket", (waits <= bound).astype(float), le="+Inf" if math.isinf(bound) else f"{bound:g}"
        )


def _sum(times: Times, spans: list[tuple[int, int, int]]) -> Floats:
    """Return the sum of the spans (start, end, amount) at each moment."""
    total = np.zeros(len(times) + 1)
    for start, end, amount in spans:
        low, high = np.searchsorted(times, [start, end])
        total[low] += amount
        total[high] -= amount
    return np.cumsum(total)[:-1]


_KSM = {"job": "kube-state-metrics", "instance": "10.10.3.17:8080"}
_KSM_OFFSET = 17


def samples(fleet: DemoFleet) -> Iterator[DemoSeries]:
    """Yield every series of the month."""
    yield from _nodes(fleet)
    yield from _reclaims(fleet)
    yield from _pods(fleet)
    yield from _devices(fleet)
    yield from kueue(fleet)


def _ticks(offset: int, start: int, end: int) -> Times:
    return np.arange(start + (offset - start) % _STEP, end, _STEP, dtype=np.int64)


def _state(name: str, start: int, end: int, value: float = 1, /, **labels: str) -> DemoSeries:
    times = _ticks(_KSM_OFFSET, start, end)
    return DemoSeries(
        {"__name__": f"kube_{name}", **_KSM, **labels}, times, np.full(len(times), float(value))
    )


def _nodes(fleet: DemoFleet) -> Iterator[DemoSeries]:
    for node in fleet.nodes:
        pool, span, state = node.pool, (node.start, node.end), partial(_state, node=node.name)
        yield state("node_info", *span, provider_id=node.machine, kubelet_version="v1.34.2")
        yield state("node_created", *span, node.start)
        labels = {
            "label_node_kubernetes_io_instance_type": pool.instance_type,
            "label_topology_kubernetes_io_region": pool.zone[:-1],
            "label_topology_kubernetes_io_zone": pool.zone,
            "label_karpenter_sh_capacity_type": pool.capacity_type.replace("_", "-"),
            "label_nvidia_com_gpu_product": pool.gpu_model.replace(" ", "-")
            + ("-SHARED" if pool.replicas > 1 else ""),
            "label_nvidia_com_gpu_count": str(pool.gpus),
            "label_nvidia_com_gpu_replicas": str(pool.replicas),
            **({"label_nvidia_com_mig_strategy": "mixed"} if pool.mig else {}),
        }
        yield state("node_labels", *span, **labels)
        if node.cordoned is not None:
            yield state("node_spec_unschedulable", node.cordoned, node.end)
        offered = Counter({pool.resource(None): (pool.gpus - pool.cut_gpus) * pool.replicas})
        for instance, _ in pool.mig:
            offered[pool.resource(instance)] += pool.cut_gpus
        for resource, units in offered.items():
            for what in ("capacity", "allocatable"):
                yield state(f"node_status_{what}", *span, units, resource=resource, unit="integer")


def _reclaims(fleet: DemoFleet) -> Iterator[DemoSeries]:
    """Yield the counters of AWS' node termination handler: one per reclaimed node, two minutes before."""
    handler = {"job": "aws-node-termination-handler", "instance": "10.10.3.19:9092"}
    done = {"__name__": "actions_node_total", "node_action": "cordon-and-drain", "node_status": "success"}
    times = _ticks(_KSM_OFFSET, fleet.start, fleet.end)
    yield DemoSeries({**done, **handler, "node_name": "", "node_event_id": ""}, times, np.zeros(len(times)))
    for node in fleet.reclaimed:
        times = _ticks(_KSM_OFFSET, node.end - 120, fleet.end)
        labels = {**done, **handler, "node_name": node.name, "node_event_id": f"spot-itn-{node.machine[-8:]}"}
        yield DemoSeries(labels, times, np.ones(len(times)))


def _pods(fleet: DemoFleet) -> Iterator[DemoSeries]:
    owners = {}
    for pod in fleet.pods:
        state = partial(_state, namespace=pod.namespace, pod=pod.name, uid=pod.uid)
        span, queued, started = (pod.start, pod.gone), pod.start - pod.waits, pod.start + pod.pulls
        kind, name = pod.owner
        gpus = len(pod.devices)
        request = {"resource": pod.node.pool.resource(pod.devices[0][1]), "unit": "integer"}
        yield state("pod_info", *span, node=pod.node.name, created_by_kind=kind)
        yield state("pod_owner", *span, owner_kind=kind, owner_name=name, owner_is_controller="true")
        requests = "pod_container_resource_requests"
        yield state(requests, *span, gpus, container="main", node=pod.node.name, **request)
        yield state("pod_status_scheduled_time", *span, pod.start)
        if pod.waits:
            yield state(requests, queued, pod.start, gpus, container="main", **request)
        if pod.waits or pod.pulls:
            yield state("pod_status_phase", queued, started, phase="Pending")
        yield state("pod_status_phase", started, pod.end, phase="Running")
        if pod.gone > pod.end:
            yield state("pod_status_phase", pod.end, pod.gone, phase=pod.phase)
            yield state("pod_completion_time", pod.end, pod.gone, pod.end)
        if pod.parent:
            key = (pod.namespace, kind, name)
            _, start, end = owners.get(key, (pod.parent, *span))
            owners[key] = (pod.parent, min(start, pod.start), max(end, pod.gone))
    for (namespace, kind, name), (parent, start, end) in owners.items():
        metric, label = (
            ("replicaset_owner", "replicaset") if kind == "ReplicaSet" else ("job_owner", "job_name")
        )
        labels = {"namespace": namespace, label: name, "owner_kind": parent[0], "owner_name": parent[1]}
        yield _state(metric, start, end, **labels, owner_is_controller="true")


_WHOLE, _SLICE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"


def _devices(fleet: DemoFleet) -> Iterator[DemoSeries]:
    held = {}
    for pod in fleet.pods:
        for device in pod.devices:
            held.setdefault((id(pod.node), device), []).append(pod)
    for number, node in enumerate(fleet.nodes):
        dice = np.random.default_rng([fleet.start, number])
        times = _ticks(37 * number % _STEP, node.start, node.end)
        silent_from, silent_to = fleet.silent.get(node.name, (0, 0))
        times = times[(times < silent_from) | (times >= silent_to)]
        for gpu in range(node.pool.gpus):
            for instance, profile in node.pool.mig if gpu < node.pool.cut_gpus else ((None, ""),):
                labels = {
                    "__name__": _WHOLE if instance is None else _SLICE,
                    "job": "dcgm-exporter",
                    "instance": f"{node.name}:9400",
                    "Hostname": node.name,
                    "gpu": str(gpu),
                    "UUID": node.uuids[gpu],
                    "device": f"nvidia{gpu}",
                    "modelName": node.pool.gpu_model,
                    **({} if instance is None else {"GPU_I_ID": str(instance), "GPU_I_PROFILE": profile}),
                }
                yield from _device(
                    labels, times, held.get((id(node), (gpu, instance)), []), (gpu, instance), dice
                )


def _device(
    labels: dict[str, str], times: Times, pods: list[DemoPod], device: Device, dice: np.random.Generator
) -> Iterator[DemoSeries]:
    """Yield a series per pod that held the device, and one for unallocated time; simultaneous pods have the same values."""
    values, free = np.zeros(len(times)), np.ones(len(times), dtype=bool)
    spans = []
    for pod in pods:
        low, high = np.searchsorted(times, [pod.start, pod.end])
        spans.append((pod, slice(int(low), int(high))))
        busy = percent(pod.profile, times[low:high], pod.start, pod.end, dice)
        if pod.profile == "narrow" and pod.devices.index(device) >= len(pod.devices) / 2:
            busy[:] = 0
        values[low:high] = np.maximum(values[low:high], busy)
        free[low:high] = False
    if labels["__name__"] == _SLICE:
        values /= 100
    for pod, span in spans:
        if span.stop > span.start:
            yield DemoSeries(
                {**labels, "namespace": pod.namespace, "pod": pod.name, "container": "main"},
                times[span],
                values[span],
            )
    if free.any():
        yield DemoSeries(labels, times[free], values[free])
