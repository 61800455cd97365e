"""What kube-state-metrics says about a fleet."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

from tests.replay.fleet import Fleet, plain_resource
from tests.replay.series import Clock, Recorder

Item = dict[str, Any]

CAPACITY_LABELS: dict[str, tuple[str, dict[str, str]]] = {
    "karpenter": (
        "label_karpenter_sh_capacity_type",
        {"spot": "spot", "on_demand": "on-demand", "reserved": "reserved"},
    ),
    "eks": (
        "label_eks_amazonaws_com_capacityType",
        {"spot": "SPOT", "on_demand": "ON_DEMAND", "capacity_block": "CAPACITY_BLOCK"},
    ),
    "gke": ("label_cloud_google_com_gke_spot", {"spot": "true"}),
    "aks": ("label_kubernetes_azure_com_scalesetpriority", {"spot": "spot"}),
    "onprem": ("label_gpu_pool", {"on_demand": "metal"}),
}
GIB = 2**30
UNITS = {"cpu": "core", "memory": "byte"}
PROVIDER_IDS = {
    "karpenter": "aws:///{zone}/i-{digest:.17}",
    "eks": "aws:///{zone}/i-{digest:.17}",
    "gke": "gce://a-project/{zone}/gke-pool-{digest:.8}",
    "aks": "azure:///subscriptions/0/resourceGroups/mc/providers/Microsoft.Compute/virtualMachineScaleSets/gpu/virtualMachines/{digest:.4}",
    "onprem": "",
}


def provider_id(node: Item) -> str:
    """What a node's cloud calls the machine, as kube_node_info tells it."""
    made = PROVIDER_IDS[node.get("provider", "karpenter")].format(zone=node["zone"], digest=_digest(node))
    return str(node.get("provider_id", made))


def _digest(node: Item) -> str:
    created = node.get("created", node["from"])
    return hashlib.sha256(f"{node['cluster']}/{node['name']}/{created}".encode()).hexdigest()


def kube_state(fleet: Fleet, out: Recorder, base: Item, ticks: Clock) -> None:
    """Records one kube-state-metrics target."""
    kube = _Target(out, base, ticks, fleet)
    for node in fleet["nodes"]:
        kube.node(node)
    for pod in fleet["pods"]:
        kube.pod(pod)
    kube.namespaces()


class _Target:
    def __init__(self, out: Recorder, base: Item, ticks: Clock, fleet: Fleet) -> None:
        self.out, self.base, self.ticks, self.fleet = out, base, ticks, fleet
        self.clusters = len({n["cluster"] for n in fleet["nodes"]}) > 1 or fleet.get("cluster_label", False)

    def put(self, name: str, cluster: str, labels: Item, value: float, start: float, end: float) -> None:
        where = {"cluster": cluster} if self.clusters else {}
        self.out.add(
            name, {**self.base, **where, **labels}, self.ticks.times[self.ticks.slice(start, end)], value
        )

    def node(self, node: Item) -> None:
        cluster, name, start, end = (node["cluster"], {"node": node["name"]}, node["from"], node["to"])
        created = node.get("created", start)
        info = {
            **name,
            "provider_id": provider_id(node),
            "system_uuid": _digest(node)[:32],
            "kubelet_version": "v1.34.1",
        }
        self.put("kube_node_info", cluster, info, 1, start, end)
        self.put("kube_node_created", cluster, name, created, start, end)
        if self.fleet.get("node_labels", True):
            self.put("kube_node_labels", cluster, {**name, **node_labels(node)}, 1, start, end)
        for since, until, on in _switched(node.get("cordoned", []), start, end):
            self.put("kube_node_spec_unschedulable", cluster, name, on, since, until)
        for since, until, bad in _switched(node.get("not_ready", []), start, end):
            for status, value in (("true", 1 - bad), ("false", 0), ("unknown", bad)):
                self.put(
                    "kube_node_status_condition",
                    cluster,
                    {**name, "condition": "Ready", "status": status},
                    value,
                    since,
                    until,
                )
        for resource, count in {
            **resources_of(node),
            **node.get("offers", {}),
            "cpu": node.get("vcpus", 64),
            **({"memory": round(node["memory_gib"] * GIB)} if "memory_gib" in node else {}),
        }.items():
            labels = {**name, "resource": resource, "unit": UNITS.get(resource, "integer")}
            self.put("kube_node_status_capacity", cluster, labels, count, start, end)
            cuts = [
                cut[:3]
                for cut in node.get("allocatable", [])
                if resource == (cut[3:] or [plain_resource(node)])[0]
            ]
            for since, until, reduced in _valued(cuts, start, end, count):
                self.put("kube_node_status_allocatable", cluster, labels, reduced, since, until)

    def pod(self, pod: Item) -> None:
        cluster, node, scheduled = pod["cluster"], pod["node"], pod["scheduled"]
        seen, gone = pod.get("created", scheduled), pod.get("keep_until", pod["to"])
        ident = {"namespace": pod["namespace"], "pod": pod["name"], "uid": pod["uid"]}
        kind, owner = pod.get("owner", ["<none>", "<none>"])
        bound = (
            [(seen, min(scheduled, gone), ""), (max(seen, scheduled), gone, node)]
            if node
            else [(seen, gone, "")]
        )
        for since, until, where in bound:
            info = {
                **ident,
                "node": where,
                "host_ip": "10.8.0.4",
                "created_by_kind": kind,
                "created_by_name": owner,
            }
            self.put("kube_pod_info", cluster, info, 1, since, until)
            for container in containers_of(pod):
                init = "" if container["role"] == "main" else "init_"
                for resource, units in _asked(pod, container).items():
                    asked = {
                        **ident,
                        "container": container["name"],
                        "node": where,
                        "resource": resource,
                        "unit": UNITS.get(resource, "integer"),
                    }
                    for what in ("requests", "limits") if resource not in UNITS else ("requests",):
                        self.put(
                            f"kube_pod_{init}container_resource_{what}", cluster, asked, units, since, until
                        )
        for container in containers_of(pod) if "image" in pod else ():
            image = {**ident, "container": container["name"], "image": pod["image"], "image_id": ""}
            self.put("kube_pod_container_info", cluster, image, 1, seen, gone)
        for container in containers_of(pod):
            if container["role"] != "main":
                policy = "Always" if container["role"] == "sidecar" else ""
                labels = {**ident, "container": container["name"], "restart_policy": policy}
                self.put("kube_pod_init_container_info", cluster, labels, 1, seen, gone)
        owned = {**ident, "owner_kind": kind, "owner_name": owner, "owner_is_controller": "true"}
        self.put("kube_pod_owner", cluster, owned, 1, seen, gone)
        if pod.get("labels"):
            self.put(
                "kube_pod_labels",
                cluster,
                {**ident, **{f"label_{k}": v for k, v in pod["labels"].items()}},
                1,
                seen,
                gone,
            )
        if pod.get("annotations"):
            annotations = {f"annotation_{k}": v for k, v in pod["annotations"].items()}
            self.put("kube_pod_annotations", cluster, {**ident, **annotations}, 1, seen, gone)
        for claim in pod.get("claims", []):
            named = {
                **ident,
                "claim_name": "gpu",
                "resourceclaim_name": claim,
                "resourceclaim_template_name": "",
            }
            self.put("kube_pod_resourceclaim_info", cluster, named, 1, seen, gone)
        self._phases(pod, ident, seen, gone)
        if node and pod.get("timestamps", True):
            self.put("kube_pod_status_scheduled_time", cluster, ident, scheduled, max(seen, scheduled), gone)
            self.put("kube_pod_start_time", cluster, ident, scheduled, max(seen, scheduled), gone)
        ends = [
            *sorted(r for r in pod.get("restarts", []) if r < pod["to"]),
            *([pod["to"]] if pod.get("completes", True) else []),
            gone,
        ]
        for ended, until in itertools.pairwise(ends):
            self.put("kube_pod_completion_time", cluster, ident, ended, max(seen, ended), min(until, gone))

    def _phases(self, pod: Item, ident: Item, seen: float, gone: float) -> None:
        started, ended = (pod["from"], pod["to"]) if pod["node"] else (gone, gone)
        for phase, since, until in (
            ("Pending", seen, started),
            ("Running", started, ended),
            (pod.get("end_phase", "Succeeded"), ended, gone),
        ):
            for one in ("Pending", "Running", "Succeeded", "Failed", "Unknown"):
                labels = {**ident, "phase": one}
                self.put(
                    "kube_pod_status_phase",
                    pod["cluster"],
                    labels,
                    int(one == phase),
                    max(seen, since),
                    min(until, gone),
                )

    def namespaces(self) -> None:
        lives: dict[tuple[str, str], list[float]] = {}
        for pod in self.fleet["pods"]:
            life = lives.setdefault((pod["cluster"], pod["namespace"]), [])
            life += [pod.get("created", pod["scheduled"]), pod.get("keep_until", pod["to"])]
        for (cluster, namespace), life in lives.items():
            labels = {f"label_{k}": v for k, v in self.fleet.get("namespaces", {}).get(namespace, {}).items()}
            self.put(
                "kube_namespace_labels", cluster, {"namespace": namespace, **labels}, 1, min(life), max(life)
            )


def node_labels(node: Item) -> Item:
    """A node's labels as kube-state-metrics spells them: where it is, how it was bought, how its GPUs are shared."""
    capacity, spelled = CAPACITY_LABELS[node.get("provider", "karpenter")]
    place, kind = (
        ("failure_domain_beta_kubernetes_io", "beta_kubernetes_io")
        if node.get("beta_labels")
        else ("topology_kubernetes_io", "node_kubernetes_io")
    )
    labels = {
        f"label_{kind}_instance_type": node["instance_type"],
        f"label_{place}_region": node["region"],
        f"label_{place}_zone": node["zone"],
        capacity: spelled.get(node["capacity_type"]),
    }
    replicas, product = node.get("replicas", 1), node["gpu_model"].replace(" ", "-")
    if "gke_partition" in node or "gke_shared_clients" in node:
        labels |= {
            "label_cloud_google_com_gke_accelerator": node.get("gke_accelerator", product.lower()),
            "label_cloud_google_com_gke_gpu_partition_size": node.get("gke_partition"),
            "label_cloud_google_com_gke_max_shared_clients_per_gpu": node.get("gke_shared_clients"),
            "label_cloud_google_com_gke_gpu_sharing_strategy": "time-sharing"
            if "gke_shared_clients" in node
            else None,
        }
    elif node.get("gfd", True) and node["gpus"] and plain_resource(node) != "amd_com_gpu":
        single = node.get("mig_single")
        cut = len([s for slices in node.get("mig", {}).values() for s in slices])
        labels |= {
            "label_nvidia_com_gpu_present": "true",
            "label_nvidia_com_gpu_product": product
            + (f"-MIG-{single}" if single else "")
            + ("-SHARED" if replicas > 1 and plain_resource(node) == "nvidia_com_gpu" else ""),
            "label_nvidia_com_gpu_count": cut if single else len(node["gpus"]),
            "label_nvidia_com_gpu_replicas": replicas,
            "label_nvidia_com_gpu_sharing_strategy": node.get("sharing", "time-slicing")
            if replicas > 1
            else "none",
            "label_nvidia_com_mig_strategy": "single" if single else "mixed" if node.get("mig") else None,
        }
        for profile, slots in node.get("mig_replicas", {}).items():
            labels[f"label_nvidia_com_mig_{profile.replace('.', '_')}_replicas"] = slots
    return {**labels, **node.get("labels", {})}


def resources_of(node: Item) -> dict[str, int]:
    """What the device plugin offers on a node: {resource: units}."""
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
    """The containers of a pod: name, count of GPUs, role, cpu, memory_gib."""
    alone = [{**pod, "name": pod["container"], "count": pod.get("count"), "role": "main"}]
    return [{"role": "main", **c} for c in pod["containers"]] if "containers" in pod else alone


def _asked(pod: Item, container: Item) -> dict[str, float]:
    """What a container requests, by resource."""
    asked = {
        pod["resource"]: container.get("count"),
        **container.get("asks", {}),
        "cpu": container.get("cpu"),
        "memory": container.get("memory_gib", 0) * GIB,
    }
    return {resource: units for resource, units in asked.items() if units}


def _switched(spans: list[list[float]], start: float, end: float) -> Iterator[tuple[float, float, int]]:
    for since, until, value in _valued([[*span, 1] for span in spans], start, end, 0):
        yield since, until, int(value)


def _valued(
    spans: list[list[float]], start: float, end: float, usual: float
) -> Iterator[tuple[float, float, float]]:
    for since, until, value in sorted(spans):
        yield start, since, usual
        yield since, until, value
        start = until
    yield start, end, usual
