"""The series of kube-state-metrics for a fleet."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tests.replay.fleet import Fleet, has_cluster_label, plain_resource
from tests.replay.series import Clock, Recorder
from tests.text_tables import columns, text_rows, words

Item = dict[str, Any]

#: By provider: the label of the capacity type, and its values.
CAPACITY_LABELS = {
    provider: (label, words(values))
    for provider, label, values in text_rows("""
karpenter | label_karpenter_sh_capacity_type            | spot=spot on_demand=on-demand reserved=reserved
eks       | label_eks_amazonaws_com_capacityType        | spot=SPOT on_demand=ON_DEMAND capacity_block=CAPACITY_BLOCK
gke       | label_cloud_google_com_gke_spot             | spot=true
aks       | label_kubernetes_azure_com_scalesetpriority | spot=spot
onprem    | label_gpu_pool                              | on_demand=metal
""")
}
GIB = 2**30
UNITS = {"cpu": "core", "memory": "byte"}
PROVIDERS = words("karpenter=aws eks=aws gke=gcp aks=azure onprem=")
PROVIDER_IDS = columns("""
    karpenter  aws:///{zone}/i-{digest:.17}
    eks        aws:///{zone}/i-{digest:.17}
    gke        gce://a-project/{zone}/gke-pool-{digest:.8}
    aks        azure:///subscriptions/0/resourceGroups/mc/providers/Microsoft.Compute/virtualMachineScaleSets/gpu/virtualMachines/{digest:.4}
    onprem
""")


def provider_id(node: Item) -> str:
    """Return the cloud's machine id in kube_node_info."""
    made = PROVIDER_IDS[node.get("provider", "karpenter")].format(zone=node["zone"], digest=_digest(node))
    return str(node.get("provider_id", made))


def _digest(node: Item) -> str:
    created = node.get("created", node["from"])
    return hashlib.sha256(f"{node['cluster']}/{node['name']}/{created}".encode()).hexdigest()


def kube_state(fleet: Fleet, out: Recorder, base: Item, ticks: Clock) -> None:
    """Record one kube-state-metrics target."""
    kube = _Target(out, base, ticks, fleet)
    for node in fleet["nodes"]:
        kube.node(node)
    for pod in fleet["pods"]:
        kube.pod(pod)
    kube.namespaces()


class _Target:
    def __init__(self, out: Recorder, base: Item, ticks: Clock, fleet: Fleet) -> None:
        self.out, self.base, self.ticks, self.fleet = out, base, ticks, fleet

    def of(self, prefix: str, cluster: str, start: float, end: float, **names: Any) -> Callable[..., None]:
        """Return a function that records a metric of an object: more labels, and a value in [start, end)."""
        where = {"cluster": cluster} if has_cluster_label(self.fleet) else {}

        def put(metric: str, labels: Item, value: float = 1, start: float = start, end: float = end) -> None:
            times = self.ticks.times[self.ticks.slice(start, end)]
            self.out.add(f"kube_{prefix}_{metric}", {**self.base, **where, **names, **labels}, times, value)

        return put

    def node(self, node: Item) -> None:
        start, end = node["from"], node["to"]
        put = self.of("node", node["cluster"], start, end, node=node["name"])
        info = {"provider_id": provider_id(node), "system_uuid": _digest(node)[:32]}
        put("info", {**info, "kubelet_version": "v1.34.1"})
        put("created", {}, node.get("created", start))
        if self.fleet.get("node_labels", True):
            put("labels", node_labels(node))
        for since, until, on in _valued(node.get("cordoned", []), start, end):
            put("spec_unschedulable", {}, on, since, until)
        for since, until, bad in _valued(node.get("not_ready", []), start, end):
            for status, value in (("true", 1 - bad), ("false", 0), ("unknown", bad)):
                put("status_condition", {"condition": "Ready", "status": status}, value, since, until)
        offered = {**resources_of(node), **node.get("offers", {}), "cpu": node.get("vcpus", 64)}
        if "memory_gib" in node:
            offered["memory"] = round(node["memory_gib"] * GIB)
        for resource, count in offered.items():
            labels = {"resource": resource, "unit": UNITS.get(resource, "integer")}
            put("status_capacity", labels, count)
            cuts = [
                cut[:3]
                for cut in node.get("allocatable", [])
                if resource == (cut[3:] or [plain_resource(node)])[0]
            ]
            for since, until, reduced in _valued(cuts, start, end, count):
                put("status_allocatable", labels, reduced, since, until)

    def pod(self, pod: Item) -> None:
        node, scheduled, containers = pod["node"], pod["scheduled"], containers_of(pod)
        seen, gone = pod.get("created", scheduled), pod.get("keep_until", pod["to"])
        names = {"namespace": pod["namespace"], "pod": pod["name"], "uid": pod["uid"]}
        put = self.of("pod", pod["cluster"], seen, gone, **names)
        kind, owner = pod.get("owner", ["<none>", "<none>"])
        of_owner = {"created_by_kind": kind, "created_by_name": owner}
        bound = min(scheduled, gone) if node else gone
        for where, since, until in (("", seen, bound), (node, max(seen, bound), gone)):
            put("info", {"node": where, "host_ip": "10.8.0.4", **of_owner}, 1, since, until)
            for container in containers:
                init = "" if container["role"] == "main" else "init_"
                for resource, units in _requested(pod, container).items():
                    requested = {"container": container["name"], "node": where, "resource": resource}
                    requested["unit"] = UNITS.get(resource, "integer")
                    for what in ("requests",) if resource in UNITS else ("requests", "limits"):
                        put(f"{init}container_resource_{what}", requested, units, since, until)
        for container in containers:
            named, role = {"container": container["name"]}, container["role"]
            if "image" in pod:
                put("container_info", {**named, "image": pod["image"], "image_id": ""})
            if role != "main":
                put("init_container_info", {**named, "restart_policy": "Always" if role == "sidecar" else ""})
        put("owner", {"owner_kind": kind, "owner_name": owner, "owner_is_controller": "true"})
        for what in ("label", "annotation"):
            if pod.get(f"{what}s"):
                put(f"{what}s", {f"{what}_{key}": value for key, value in pod[f"{what}s"].items()})
        for claim in pod.get("claims", []):
            put("resourceclaim_info", {"claim_name": "gpu", "resourceclaim_name": claim})
        started, ended = (pod["from"], pod["to"]) if node else (gone, gone)
        last = pod.get("end_phase", "Succeeded")
        for phase, since, until in (
            ("Pending", seen, started),
            ("Running", started, ended),
            (last, ended, gone),
        ):
            for one in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
                put("status_phase", {"phase": one}, int(one == phase), max(seen, since), min(until, gone))
        if node and pod.get("timestamps", True):
            put("status_scheduled_time", {}, scheduled, max(seen, scheduled))
            put("start_time", {}, scheduled, max(seen, scheduled))
        ends = sorted(r for r in pod.get("restarts", []) if r < pod["to"])
        for number, (at, until) in enumerate(itertools.pairwise([seen, *ends, gone]) if ends else ()):
            put("container_status_restarts_total", {"container": containers[0]["name"]}, number, at, until)
        for since, until, on in _valued([[pod["evicted"], gone]], seen, gone) if "evicted" in pod else ():
            put("status_reason", {"reason": "Evicted"}, on, since, until)
        ends += [pod["to"]] if pod.get("completes", True) else []
        for at, until in itertools.pairwise([*ends, gone]):
            put("completion_time", {}, at, max(seen, at), min(until, gone))

    def namespaces(self) -> None:
        lives = {}
        for pod in self.fleet["pods"]:
            life = lives.setdefault((pod["cluster"], pod["namespace"]), [])
            life += [pod.get("created", pod["scheduled"]), pod.get("keep_until", pod["to"])]
        for (cluster, namespace), life in lives.items():
            labels = self.fleet.get("namespaces", {}).get(namespace, {})
            put = self.of("namespace", cluster, min(life), max(life), namespace=namespace)
            put("labels", {f"label_{key}": value for key, value in labels.items()})


def node_labels(node: Item) -> Item:
    """Return a node's labels in kube-state-metrics' spelling: location, capacity type and GPU sharing."""
    capacity, spelled = CAPACITY_LABELS[node.get("provider", "karpenter")]
    place, kind = (
        ("failure_domain_beta_kubernetes_io", "beta_kubernetes_io")
        if node.get("beta_labels")
        else ("topology_kubernetes_io", "node_kubernetes_io")
    )
    labels: Item = columns(f"""
        label_{kind}_instance_type  {node["instance_type"]}
        label_{place}_region        {node["region"]}
        label_{place}_zone          {node["zone"]}
        {capacity}                  {spelled.get(node["capacity_type"], "")}
    """)
    replicas, product = node.get("replicas", 1), node["gpu_model"].replace(" ", "-")
    if "gke_partition" in node or "gke_shared_clients" in node:
        labels |= columns(f"""
            label_cloud_google_com_gke_accelerator                 {node.get("gke_accelerator", product.lower())}
            label_cloud_google_com_gke_gpu_partition_size          {node.get("gke_partition", "")}
            label_cloud_google_com_gke_max_shared_clients_per_gpu  {node.get("gke_shared_clients", "")}
            label_cloud_google_com_gke_gpu_sharing_strategy        {"time-sharing" if "gke_shared_clients" in node else ""}
        """)
    elif node.get("gfd", True) and node["gpus"] and plain_resource(node) != "amd_com_gpu":
        single = node.get("mig_single")
        cut = len([s for slices in node.get("mig", {}).values() for s in slices])
        product += f"-MIG-{single}" if single else ""
        if replicas > 1 and plain_resource(node) == "nvidia_com_gpu":
            product += "-SHARED"
        labels |= columns(f"""
            label_nvidia_com_gpu_present           true
            label_nvidia_com_gpu_product           {product}
            label_nvidia_com_gpu_count             {cut if single else len(node["gpus"])}
            label_nvidia_com_gpu_replicas          {replicas}
            label_nvidia_com_gpu_sharing_strategy  {node.get("sharing", "time-slicing") if replicas > 1 else "none"}
            label_nvidia_com_mig_strategy          {"single" if single else "mixed" if node.get("mig") else ""}
        """)
        for profile, slots in node.get("mig_replicas", {}).items():
            labels[f"label_nvidia_com_mig_{profile.replace('.', '_')}_replicas"] = slots
    return {**labels, **node.get("labels", {})}


def resources_of(node: Item) -> dict[str, int]:
    """Return the device plugin's offer on a node: {resource: units}."""
    cut, replicas = node.get("mig", {}), node.get("replicas", 1)
    slices = [s["profile"] for parts in cut.values() for s in parts]
    plain = len([g for g in node["gpus"] if g not in cut])
    if node.get("mig_single") or node.get("gke_partition"):
        return {plain_resource(node): (plain + len(slices)) * replicas * node.get("gke_shared_clients", 1)}
    offered = {plain_resource(node): plain * replicas * node.get("gke_shared_clients", 1)}
    for profile in slices:
        name = "nvidia_com_mig_" + profile.replace(".", "_")
        offered[name] = offered.get(name, 0) + node.get("mig_replicas", {}).get(profile, 1)
    return offered


def containers_of(pod: Item) -> list[Item]:
    """Return the containers of a pod: name, GPU count, role, cpu, memory_gib."""
    alone = [{**pod, "name": pod["container"], "count": pod.get("count"), "role": "main"}]
    return [{"role": "main", **c} for c in pod["containers"]] if "containers" in pod else alone


def _requested(pod: Item, container: Item) -> dict[str, float]:
    """Return a container's requests by resource."""
    requested = {
        pod["resource"]: container.get("count"),
        **container.get("asks", {}),
        "cpu": container.get("cpu"),
        "memory": container.get("memory_gib", 0) * GIB,
    }
    return {resource: units for resource, units in requested.items() if units}


def _valued(
    spans: list[list[float]], start: float, end: float, usual: float = 0
) -> Iterator[tuple[float, float, float]]:
    """Yield [from, to) of each value: the usual value outside of the spans, and 1 in spans without a value."""
    for since, until, *value in sorted(spans):
        yield start, since, usual
        yield since, until, *(value or [1])
        start = until
    yield start, end, usual
