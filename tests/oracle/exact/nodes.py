"""Nodes: their uptime, their labels, and the share of a GPU that one unit of a resource is."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from tests.oracle.exact.catalog import gpus_of, memory_of, slices_of
from tests.oracle.exact.devices import DeviceSeries
from tests.oracle.exact.labels import Labels, Span, at, spans
from tests.oracle.exact.states import ONE, ZERO, State

#: Resources that count devices or slices; a gpu-mem of unknown size counts as a device, with a warning in the report.
DEVICES = re.compile(
    r"nvidia_com_gpu(_shared)?|nvidia_com_mig_.+|amd_com_gpu|amd_com_[sdtqc]px_nps[0-9]+|habana_ai_gaudi.*|aws_amazon_com_neuron.*"
    r"|google_com_tpu|aliyun_com_gpu_mem|volcano_sh_vgpu_number"
)
#: Virtual devices with the resources for the requested part: MiB and percent of memory, percent of cores.
PARTS = {
    "nvidia_com_gpu": ("nvidia_com_gpumem", "nvidia_com_gpumem_percentage", "nvidia_com_gpucores"),
    "volcano_sh_vgpu_number": (
        "volcano_sh_vgpu_memory",
        "volcano_sh_vgpu_memory_percentage",
        "volcano_sh_vgpu_cores",
    ),
}
#: Compute dies of an AMD GPU per die of a partition.
PARTITIONS = {"spx": 1, "dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}
CORES = "aws_amazon_com_neuroncore"
SPOT = {"spot", "preemptible", "ec2spot"}
RESERVED = {"reserved", "reservation"}
_BOUGHT = """
    karpenter_sh_capacity_type eks_amazonaws_com_capacityType eks_amazonaws_com_capacity_type
    cloud_google_com_gke_provisioning kubernetes_azure_com_scalesetpriority node_kubernetes_io_lifecycle
    node_lifecycle"""
_RESERVATIONS = """
    karpenter_k8s_aws_capacity_reservation_id eks_amazonaws_com_capacity_reservation_id
    cloud_google_com_reservation_name karpenter_sh_capacity_reservation_id"""
RESERVATION_TYPES = (
    "karpenter_k8s_aws_capacity_reservation_type",
    "eks_amazonaws_com_capacity_reservation_type",
)
PRODUCTS = [
    "nvidia_com_gpu_product",
    "cloud_google_com_gke_accelerator",
    "amd_com_gpu_product_name",
    "karpenter_k8s_aws_instance_gpu_name",
]
PROVIDERS = {"aws": "eks_amazonaws_com_", "azure": "kubernetes_azure_com_"}


def is_accelerator(resource: str) -> bool:
    """Return whether a resource, as kube-state-metrics names it, counts devices or slices."""
    return DEVICES.fullmatch(resource) is not None


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a resource: its share of a GPU, and the slice that it is or shares, with the slice's part."""

    share: Fraction
    profile: str | None
    part: Fraction
    shared: bool


@dataclass
class Node:
    """One life of a machine."""

    cluster: str
    name: str
    machine: str | None
    since: int
    until: int
    labels: list[Span] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    devices: list[DeviceSeries] = field(default_factory=list)
    requested: set[str] = field(default_factory=set)
    virtual: set[str] = field(default_factory=set)
    on_hami: list[Node] = field(default_factory=list)
    gpus: Fraction = ZERO

    def __hash__(self) -> int:
        return id(self)

    @property
    def last_labels(self) -> Labels:
        """Return the labels of its last days, with its place and capacity type."""
        return self.labels[-1].labels if self.labels else {}

    def label(self, *names: str) -> str | None:
        """Return the value of the first of these labels that it has."""
        return _first(self.last_labels, names)

    @property
    def capacity_type(self) -> str:
        bought = (self.label(*_BOUGHT.split()) or "").lower().replace("_", "-")
        preemptible = "true" in (
            self.label("cloud_google_com_gke_spot"),
            self.label("cloud_google_com_gke_preemptible"),
        )
        if bought in SPOT or preemptible:
            return "spot"
        if "capacity-block" in (bought, *map(self.label, RESERVATION_TYPES)):
            return "capacity_block"
        if bought == "flex-start" or self.label("cloud_google_com_gke_flex_start") == "true":
            return "flex_start"
        if bought in RESERVED or self.label(*_RESERVATIONS.split()) is not None:
            return "reserved"
        return "on_demand" if self.labels else "unknown"

    @property
    def provider(self) -> str | None:
        scheme = (self.machine or "").partition("://")[0].lower() if "://" in (self.machine or "") else ""
        carried = [label.removeprefix("label_") for label in self.last_labels]
        if scheme == "gce" or any(label.startswith("cloud_google_com_") for label in carried):
            return "gcp"
        if scheme:
            return scheme
        return next(
            (name for name in ("azure", "aws") if any(c.startswith(PROVIDERS[name]) for c in carried)), None
        )

    @property
    def product(self) -> str:
        """Return its GPU model."""
        models = sorted(d.labels.get("modelName") or d.labels.get("model_name") or "" for d in self.devices)
        return self.label(*PRODUCTS) or (models[-1] if models else "")

    @property
    def slices(self) -> int:
        """Return the compute slices of each of its GPUs."""
        return slices_of(self.product)

    def memory_of_each(self, resource: str) -> Fraction | None:
        """Return the MiB of a GPU: the node's offer, which shows the scaling, otherwise the model's memory."""
        offered = [
            Fraction(s.value)
            for s in self.states
            if s.metric == "kube_node_status_capacity" and s.resource == resource
        ]
        return max(offered) / self.gpus if offered else memory_of(self.product)

    @property
    def replicas(self) -> Fraction:
        """Return the slots of each GPU according to its last labels."""
        return _replicas(self.last_labels)

    def capacity(self, since: int, until: int) -> dict[str, Fraction]:
        """Return the units of each accelerator that the node last offered within a time."""
        newest = {}
        low, high = max(self.since, since), min(self.until, until)
        for state in self.states:
            is_offer = (
                state.metric == "kube_node_status_capacity"
                and is_accelerator(state.resource)
                and state.value > 0
            )
            if is_offer and state.first < high and low <= state.last:
                newest[state.resource] = max(newest.get(state.resource, state), state, key=lambda s: s.last)
        return {resource: Fraction(state.value) for resource, state in newest.items()}

    def unit(self, resource: str, time: int) -> Unit:
        """Return one unit of a resource at a moment: the only place that decides shares of whole requests.

        pods.py reads the requested part of a virtual GPU from the container's other requests.
        """
        span = at(self.labels, time) or Span(-(2**62), 2**62, {})
        offered = self.capacity(span.since, span.until)
        profile = self._profile_of(resource, span.labels)
        part = Fraction(int(profile.split("g")[0]), self.slices) if profile else _partition(resource)
        if resource == CORES and offered.get(CORES):
            part = min(ONE, self.gpus / offered[CORES])
        if resource.startswith("nvidia_com_mig_"):
            replicas = _number(span.labels.get(f"label_{resource.removesuffix('_shared')}_replicas"))
        else:
            replicas = _replicas(span.labels)
        renamed = any(name.endswith("_shared") for name in {*offered, *self.requested})
        can_be_shared = resource.startswith("nvidia_com_mig_") or resource == "nvidia_com_gpu"
        is_virtual = (
            resource in self.virtual
            or resource == "volcano_sh_vgpu_number"
            or self._is_like_hami(resource, span)
        )
        shared = resource.endswith("_shared") or (
            not renamed and can_be_shared and replicas > 1 and not is_virtual
        )
        is_cut = profile is not None or part != 1
        outnumbers = not is_cut and not is_virtual and offered.get(resource, ZERO) >= 2 * self.gpus
        if shared and replicas > 1:
            share = part / replicas
        elif outnumbers:
            share = self.gpus / offered[resource]
        else:
            share = part
        return Unit(share, profile, part, shared or outnumbers)

    def _is_like_hami(self, resource: str, span: Span) -> bool:
        """Return whether units are virtual GPUs without requests for parts here: the usual count per GPU elsewhere, or ten."""
        near = [node for node in self.on_hami if resource in node.virtual]
        ratio = self.capacity(span.since, span.until).get(resource, ZERO) / (self.gpus or 1)
        strategies = (
            "label_nvidia_com_gpu_sharing_strategy",
            "label_cloud_google_com_gke_gpu_sharing_strategy",
        )
        is_shared = (
            _replicas(span.labels) > 1
            or (_first(span.labels, PRODUCTS) or "").endswith("-SHARED")
            or next((span.labels[name] for name in strategies if name in span.labels), "none") != "none"
        )
        ratios = {
            node.capacity(node.since, node.until).get(resource, ZERO) / (node.gpus or 1) for node in near
        }
        return bool(near) and not is_shared and ratio >= 2 and ratio in {*ratios, 10}

    def _profile_of(self, resource: str, labels: Labels) -> str | None:
        if resource.startswith("nvidia_com_mig_"):
            compute, memory = resource.removeprefix("nvidia_com_mig_").split("_")[:2]
            return f"{compute}.{memory}"
        return self.plain_profile(labels) if resource in ("nvidia_com_gpu", "nvidia_com_gpu_shared") else None

    def plain_profile(self, labels: Labels) -> str | None:
        """Return the slice that a plain GPU resource is if all GPUs are partitioned alike."""
        cut = re.search(r"-MIG-([0-9]+g\.[0-9]+gb)", _first(labels, PRODUCTS) or "")
        partition = labels.get("label_cloud_google_com_gke_gpu_partition_size")
        if cut or partition:
            return (cut.group(1) if cut else str(partition)).lower()
        return self.only_profile if labels.get("label_nvidia_com_mig_strategy") == "single" else None

    @property
    def only_profile(self) -> str | None:
        """Return the profile of all its instances if they share one."""
        profiles = {d.profile for d in self.devices}
        only = next(iter(profiles)) if len(profiles) == 1 else None
        return only.lower() if only else None


def _partition(resource: str) -> Fraction:
    return Fraction(1, PARTITIONS.get(resource.removeprefix("amd_com_")[:3], 1))


def _first(labels: Labels, names: Sequence[str]) -> str | None:
    return next((labels[f"label_{name}"] for name in names if f"label_{name}" in labels), None)


def _number(text: str | None) -> Fraction:
    try:
        return Fraction(text) if text else ONE
    except ValueError:
        return ONE


def _replicas(labels: Labels) -> Fraction:
    return _number(
        labels.get("label_nvidia_com_gpu_replicas")
        or labels.get("label_cloud_google_com_gke_max_shared_clients_per_gpu")
    )


def lives(kube_states: list[State], exporters: list[DeviceSeries]) -> list[Node]:
    """Return all node lifetimes in the metrics, without pods and devices."""
    seen = defaultdict(list)
    for state in kube_states:
        if state.metric.startswith("kube_node_") and state.get("node"):
            seen[state.cluster, str(state.get("node"))].append(state)
    found = []
    for (cluster, name), states in seen.items():
        created = defaultdict(list)
        for state in states:
            if state.metric == "kube_node_created":
                created[round(state.value * 1000)].append(state)
        infos = [s for s in states if s.metric == "kube_node_info"]
        ends = _created(created) if created else _undated(states, infos)
        for since, until in ends:
            if since < until:
                mine = [s for s in infos if _machine(s) and s.first < until and since < s.end]
                machine = _machine(max(mine, key=lambda s: s.end)) if mine else None
                labeled = [
                    s
                    for s in states
                    if s.metric == "kube_node_labels" and s.first < until and since <= s.last
                ]
                found.append(Node(cluster, name, machine, since, until, spans(labeled, of_node=True), states))
    known = {cluster for cluster, _ in seen}
    bare = defaultdict(list)
    for device in exporters:
        if device.host and device.cluster not in known:
            bare[device.cluster, device.host].append(device)
    for (cluster, host), devices in bare.items():
        found.append(Node(cluster, host, None, min(d.first for d in devices), max(d.end for d in devices)))
    return found


def _created(created: dict[int, list[State]]) -> list[tuple[int, int]]:
    """Return its lifetime: from creation to one interval after the last sample, or to the next creation under that name."""
    births = sorted(created)
    following = [*births[1:], 2**62]
    return [
        (born, min(max(created[born], key=lambda s: s.last).end, ends))
        for born, ends in zip(births, following, strict=True)
    ]


def _undated(states: list[State], infos: list[State]) -> list[tuple[int, int]]:
    """Return the lifetime without a creation time: per machine, from its first sample to its last plus an interval."""
    found = {}
    for state in states:
        named = [s for s in infos if s.first < state.end and state.first < s.end]
        for machine, since, until in [
            (_machine(s), max(s.first, state.first), min(s.end, state.end)) for s in named
        ] or [(None, state.first, state.end)]:
            life = found.setdefault(machine, [since, until])
            found[machine] = [min(life[0], since), max(life[1], until)]
    return [(since, until) for since, until in found.values()]


def _machine(info: State) -> str | None:
    return info.labels.get("provider_id") or info.labels.get("system_uuid") or None


def count_gpus(node: Node) -> Fraction:
    """Return the physical GPUs: nvidia.com/gpu.count, the instance catalog, distinct UUIDs or the offer, in that order."""
    profile = node.plain_profile(node.last_labels)
    strategy = node.label("nvidia_com_mig_strategy")
    alike = [
        s.labels
        for s in node.labels
        if (_profile_label(s.labels), s.labels.get("label_nvidia_com_mig_strategy") == "single")
        == (_profile_label(node.last_labels), strategy == "single")
    ]
    counts = [
        _number(_first(labels, ("nvidia_com_gpu_count", "cloud_google_com_gke_accelerator_count")) or "0")
        for labels in alike
    ]
    counted = max(counts, default=ZERO)
    if profile is None and counted > 0:
        return counted
    sold = gpus_of(node.label("node_kubernetes_io_instance_type", "beta_kubernetes_io_instance_type") or "")
    if sold:
        return sold
    uuids = {d.uuid for d in node.devices}
    if uuids:
        return Fraction(len(uuids))
    if profile is not None and counted > 0:
        return Fraction(math.ceil(counted / node.slices))
    offered = [
        s
        for s in node.states
        if s.metric == "kube_node_status_capacity"
        and is_accelerator(s.resource)
        and s.first < node.until
        and node.since <= s.last
    ]
    most = {}
    for state in offered:
        most[state.resource] = max(Fraction(state.value), most.get(state.resource, ZERO))
    plain = [
        units
        for name, units in most.items()
        if "_mig_" not in name and name != CORES and _partition(name) == 1
    ]
    if plain:
        parts = sum((units * _partition(name) for name, units in most.items() if _partition(name) != 1), ZERO)
        return (max(plain) + parts) / max(node.replicas, ONE)
    return max((Fraction(s.value) for s in offered), default=ZERO)


def _profile_label(labels: Labels) -> str | None:
    cut = re.search(r"-MIG-([0-9]+g\.[0-9]+gb)", _first(labels, PRODUCTS) or "")
    partition = labels.get("label_cloud_google_com_gke_gpu_partition_size")
    return cut.group(1).lower() if cut else partition.lower() if partition else None
