"""What kube-state-metrics and dcgm-exporter would have said about the sample fleet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpucost.demo.activity import Times, percent
from gpucost.demo.kueue import kueue
from gpucost.demo.model import Device, Fleet, Node, Pod, Series

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
