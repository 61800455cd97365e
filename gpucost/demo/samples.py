"""What kube-state-metrics and dcgm-exporter would have said about the sample fleet."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from gpucost.demo.fleet import Device, Fleet, Node, Pod, Profile, Series

Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


def percent(profile: Profile, times: Times, start: int, end: int, dice: np.random.Generator) -> Floats:
    """Whole percents of utilization at `times` (Unix seconds) for a pod that runs in [start, end)."""
    count = len(times)
    hour_of_day = times % 86_400 / 3600
    if profile in ("training", "narrow", "patchy"):
        stalls = 0.34 if profile == "patchy" else 0.14
        busy = np.clip(dice.normal(74 if profile == "patchy" else 91, 5, count), 6, 100)
        busy[_stretches(times, 3600, dice) < stalls] = 2
        busy[times < start + 600] = 0  # images, data, warm-up
    elif profile == "hung":
        busy = np.clip(dice.normal(88, 5, count), 6, 100)
        busy[times > start + (end - start) * 0.45] = 0
    elif profile in ("notebook", "forgotten"):
        weekday = (times // 86_400 + 3) % 7 < 5
        desk_hours = weekday & (hour_of_day > 9) & (hour_of_day < 19)
        busy = np.where(desk_hours & (_stretches(times, 5400, dice) < 0.42), dice.normal(46, 18, count), 0)
        busy = np.clip(busy, 0, 100)
        if profile == "forgotten":
            busy[times > start + (end - start) * 0.2] = 0
    elif profile == "sparse":
        busy = np.clip(9 + 3 * np.sin((hour_of_day - 9) / 24 * 2 * np.pi) + dice.normal(0, 1, count), 5, 100)
    elif profile == "serving":
        load = 34 + 30 * np.sin((hour_of_day - 9) / 24 * 2 * np.pi)
        busy = np.clip(load + dice.normal(0, 4, count), 0, 100)
        busy[(hour_of_day > 0) & (hour_of_day < 6.5)] *= 0.25
    elif profile == "tests":
        busy = np.where(_stretches(times, 600, dice) < 0.7, dice.normal(40, 15, count), 1)
        busy = np.clip(busy, 0, 100)
    else:
        busy = np.zeros(count)
    rounded: Floats = np.rint(busy)
    return rounded


def _stretches(times: Times, seconds: int, dice: np.random.Generator) -> Floats:
    """One number in [0, 1) per stretch of time, the same for all moments within it."""
    if not len(times):
        return np.zeros(0)
    stretch = (times - times[0]) // seconds
    chosen: Floats = dice.random(int(stretch[-1]) + 1)[stretch]
    return chosen


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


SCRAPE_SECONDS = 600
_KSM = {"job": "kube-state-metrics", "instance": "10.10.3.17:8080"}
_KSM_OFFSET = 17


def samples(fleet: Fleet) -> Iterator[Series]:
    """Every series of the month."""
    yield from _nodes(fleet)
    yield from _pods(fleet)
    yield from _devices(fleet)
    yield from kueue(fleet)


def _ticks(offset: int, start: int, end: int) -> Times:
    first = start + (offset - start) % SCRAPE_SECONDS
    return np.arange(first, end, SCRAPE_SECONDS, dtype=np.int64)


def _state(name: str, labels: dict[str, str], start: int, end: int, value: float = 1) -> Series:
    times = _ticks(_KSM_OFFSET, start, end)
    return Series({"__name__": name, **_KSM, **labels}, times, np.full(len(times), float(value)))


def _nodes(fleet: Fleet) -> Iterator[Series]:
    for node in fleet.nodes:
        pool, name, span = node.pool, {"node": node.name}, (node.start, node.end)
        yield _state("kube_node_info", {**name, "provider_id": node.machine, "kubelet_version": "v1.34.2"}, *span)
        yield _state("kube_node_created", name, *span, value=node.start)
        labels = {
            "label_node_kubernetes_io_instance_type": pool.instance_type,
            "label_topology_kubernetes_io_region": pool.zone[:-1],
            "label_topology_kubernetes_io_zone": pool.zone,
            "label_karpenter_sh_capacity_type": pool.capacity_type.replace("_", "-"),
            "label_nvidia_com_gpu_product": pool.gpu_model.replace(" ", "-") + ("-SHARED" if pool.replicas > 1 else ""),
            "label_nvidia_com_gpu_count": str(pool.gpus),
            "label_nvidia_com_gpu_replicas": str(pool.replicas),
        }
        if pool.mig:
            labels["label_nvidia_com_mig_strategy"] = "mixed"
        yield _state("kube_node_labels", {**name, **labels}, *span)
        offered = {"nvidia_com_gpu": (pool.gpus - pool.cut_gpus) * pool.replicas}
        for _, profile in pool.mig:
            resource = "nvidia_com_mig_" + profile.replace(".", "_")
            offered[resource] = offered.get(resource, 0) + pool.cut_gpus
        if node.cordoned is not None:
            yield _state("kube_node_spec_unschedulable", name, node.cordoned, node.end)
        for resource, units in offered.items():
            for what in ("capacity", "allocatable"):
                yield _state(f"kube_node_status_{what}", {**name, "resource": resource, "unit": "integer"}, *span, value=units)


def _pods(fleet: Fleet) -> Iterator[Series]:
    owners: dict[tuple[str, str, str], tuple[Pod, int, int]] = {}
    for pod in fleet.pods:
        ident = {"namespace": pod.namespace, "pod": pod.name, "uid": pod.uid}
        span = (pod.start, pod.gone)
        owner = {"owner_kind": pod.owner[0], "owner_name": pod.owner[1], "owner_is_controller": "true"}
        asked = {"container": "main", "node": pod.node.name, "resource": pod.resource, "unit": "integer"}
        yield _state("kube_pod_info", {**ident, "node": pod.node.name, "created_by_kind": pod.owner[0]}, *span)
        yield _state("kube_pod_owner", {**ident, **owner}, *span)
        yield _state("kube_pod_container_resource_requests", {**ident, **asked}, *span, value=len(pod.devices))
        yield _state("kube_pod_status_scheduled_time", ident, *span, value=pod.start)
        if pod.waits:
            begin = pod.start - pod.waits
            unbound = {name: value for name, value in asked.items() if name != "node"}
            yield _state("kube_pod_container_resource_requests", {**ident, **unbound}, begin, pod.start, value=len(pod.devices))
        if pod.waits or pod.pulls:
            yield _state("kube_pod_status_phase", {**ident, "phase": "Pending"}, pod.start - pod.waits, pod.start + pod.pulls)
        yield _state("kube_pod_status_phase", {**ident, "phase": "Running"}, pod.start + pod.pulls, pod.end)
        if pod.gone > pod.end:
            yield _state("kube_pod_status_phase", {**ident, "phase": pod.phase}, pod.end, pod.gone)
            yield _state("kube_pod_completion_time", ident, pod.end, pod.gone, value=pod.end)
        if pod.parent:
            key = (pod.namespace, *pod.owner)
            _, start, end = owners.get(key, (pod, pod.start, pod.gone))
            owners[key] = (pod, min(start, pod.start), max(end, pod.gone))
    for (namespace, kind, name), (pod, start, end) in owners.items():
        if pod.parent:
            named = {"replicaset": name} if kind == "ReplicaSet" else {"job_name": name}
            above = {
                "namespace": namespace,
                **named,
                "owner_kind": pod.parent[0],
                "owner_name": pod.parent[1],
                "owner_is_controller": "true",
            }
            yield _state("kube_replicaset_owner" if kind == "ReplicaSet" else "kube_job_owner", above, start, end)


def _devices(fleet: Fleet) -> Iterator[Series]:
    held: dict[tuple[int, Device], list[Pod]] = {}
    for pod in fleet.pods:
        for device in pod.devices:
            held.setdefault((id(pod.node), device), []).append(pod)
    for number, node in enumerate(fleet.nodes):
        dice = np.random.default_rng([fleet.start, number])
        times = _ticks(37 * number % SCRAPE_SECONDS, node.start, node.end)
        silence = fleet.silent.get(node.name)
        if silence:
            times = times[(times < silence[0]) | (times >= silence[1])]
        for gpu in range(node.pool.gpus):
            for instance, profile in node.pool.mig if gpu < node.pool.cut_gpus else ((None, None),):
                labels = _device_labels(node, gpu, instance, profile)
                yield from _device(labels, times, held.get((id(node), (gpu, instance)), []), (gpu, instance), dice)


def _device_labels(node: Node, gpu: int, instance: int | None, profile: str | None) -> dict[str, str]:
    labels = {
        "__name__": "DCGM_FI_DEV_GPU_UTIL" if instance is None else "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
        "job": "dcgm-exporter",
        "instance": f"{node.name}:9400",
        "Hostname": node.name,
        "gpu": str(gpu),
        "UUID": node.uuids[gpu],
        "device": f"nvidia{gpu}",
        "modelName": node.pool.gpu_model,
    }
    return labels if instance is None else {**labels, "GPU_I_ID": str(instance), "GPU_I_PROFILE": str(profile)}


def _device(labels: dict[str, str], times: Times, pods: list[Pod], device: Device, dice: np.random.Generator) -> Iterator[Series]:
    """One series per pod that held the device, and one for when nobody did; pods at one time report the same values."""
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
    if labels["__name__"] == "DCGM_FI_PROF_GR_ENGINE_ACTIVE":
        values /= 100
    for pod, span in spans:
        if span.stop > span.start:
            yield Series({**labels, "namespace": pod.namespace, "pod": pod.name, "container": "main"}, times[span], values[span])
    if free.any():
        yield Series(labels, times[free], values[free])
