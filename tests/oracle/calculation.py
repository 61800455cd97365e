"""The bill of a fleet by exact interval arithmetic: node by node, moment by moment, no hours, no samples, no SQL."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any

from tests.oracle.activity import Timeline, sampled, told
from tests.oracle.basis import WHOLE, offered, parts, requested, together
from tests.oracle.exact.catalog import slices_of
from tests.oracle.prices import Book, price_steps
from tests.replay.fleet import device_key, has_cluster_label, is_on, period_of
from tests.replay.kube import resources_of
from tests.replay.series import Series

MS_PER_HOUR = 3_600_000
PodKey = tuple[str, str, str, str]  # cluster, namespace, pod, uid
HOST_PARTS = ("cpu", "memory")
NodeKey = tuple[str, str, float]  # cluster, name, from

Activity = Callable[[dict[str, Any], dict[str, Any]], Timeline]


@dataclass
class Figures:
    """GPU-hours and money, exact. Names are those of the report's measures."""

    allocated_gpu_hours: Fraction = Fraction(0)
    active_gpu_hours: Fraction = Fraction(0)
    idle_gpu_hours: Fraction = Fraction(0)
    unmeasured_gpu_hours: Fraction = Fraction(0)
    unallocated_gpu_hours: Fraction = Fraction(0)
    unavailable_gpu_hours: Fraction = Fraction(0)
    over_allocated_gpu_hours: Fraction = Fraction(0)
    capacity_gpu_hours: Fraction = Fraction(0)
    spot_gpu_hours: Fraction = Fraction(0)
    cost: Fraction = Fraction(0)
    idle_cost: Fraction = Fraction(0)
    unallocated_cost: Fraction = Fraction(0)
    node_cost: Fraction = Fraction(0)

    def __add__(self, other: Figures) -> Figures:
        return Figures(**{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)})

    def rounded(self) -> dict[str, float]:
        """The figures that are not zero, to nine decimals."""
        return {f.name: round(float(getattr(self, f.name)), 9) for f in fields(self) if getattr(self, f.name)}


@dataclass
class Bill:
    """What was calculated: per pod, and per node what nobody held and what it cost."""

    pods: dict[PodKey, Figures] = field(default_factory=lambda: defaultdict(Figures))
    nodes: dict[NodeKey, Figures] = field(default_factory=lambda: defaultdict(Figures))

    @property
    def total(self) -> Figures:
        return sum([*self.pods.values(), *self.nodes.values()], Figures())

    @property
    def namespaces(self) -> dict[tuple[str, str], Figures]:
        found: dict[tuple[str, str], Figures] = defaultdict(Figures)
        for (cluster, namespace, _, _), figures in self.pods.items():
            found[cluster, namespace] += figures
        return found


def calculate(
    fleet: dict[str, Any],
    book: Book,
    period: tuple[float, float] | None = None,
    threshold: float = 5,
    series: list[Series] | None = None,
) -> Bill:
    """The bill for a period (Unix seconds; default: the fleet's own).

    Activity is what the description says; with `series`, what their samples say by the rule of how long one speaks
    (docs/attribution.md).
    """
    start, end = period or period_of(fleet)
    lines = sampled(series, threshold) if series is not None else None
    clusters = {node["cluster"] for node in fleet["nodes"]}

    def activity(node: dict[str, Any], device: dict[str, Any]) -> Timeline:
        if lines is None:
            return told(fleet, node, device, threshold)
        where = node["cluster"] if has_cluster_label(fleet) else ""
        return lines.get((where, node["name"], device_key(device)), [])

    split = {cluster: series is None or _asks_for_hosts(series, cluster) for cluster in clusters}
    bill = Bill()
    for node in fleet["nodes"]:
        since, until = (max(node["from"], fleet["start"], start), min(node["to"], fleet["end"], end))
        if since < until:
            up = (round(since * 1000), round(until * 1000))
            fractions = parts(fleet, node) if split[node["cluster"]] else WHOLE
            _node(bill, fleet, book, node, up, activity, fractions)
    return bill


def _asks_for_hosts(series: list[Series], cluster: str) -> bool:
    """Whether a pod of the cluster was ever seen to request cores or memory: docs/metrics.md, what is missing without it."""
    asked = [s.labels for s in series if s.labels["__name__"].endswith("container_resource_requests")]
    return any(a["resource"] in HOST_PARTS and a.get("cluster", cluster) == cluster for a in asked)


@dataclass
class _Hold:
    """A pod on a node: how many GPUs, cores and GiB it holds from when to when, and the timelines of its devices."""

    pod: PodKey
    gpus: Fraction
    since: int
    until: int
    devices: list[Timeline]
    host: dict[str, Fraction]


def _node(
    bill: Bill,
    fleet: dict[str, Any],
    book: Book,
    node: dict[str, Any],
    up: tuple[int, int],
    activity: Activity,
    fractions: dict[str, Fraction],
) -> None:
    known = fleet.get("node_labels", True)
    steps = [(at * 1000, price) for at, price in price_steps(book, node, known)]
    capacity = Fraction(len(node["gpus"]))
    host = {part: offered(node, part) for part in HOST_PARTS if fractions[part]}
    holds = [_hold(fleet, node, pod, up, activity) for pod in fleet["pods"] if is_on(pod, node)]
    out_of_reach = [*node.get("cordoned", []), *node.get("not_ready", [])]
    edges = {*up, *(at for at, _ in steps)}
    edges |= {round(e * 1000) for span in [*out_of_reach, *node.get("allocatable", [])] for e in span[:2]}
    for hold in holds:
        edges |= {hold.since, hold.until, *(e for line in hold.devices for span in line for e in span[:2])}
    mine = bill.nodes[node["cluster"], node["name"], node["from"]]
    for since, until in itertools.pairwise(sorted(e for e in edges if up[0] <= e <= up[1])):
        hours = Fraction(until - since, MS_PER_HOUR)
        price = next((p for at, p in reversed(steps) if at <= since), Fraction(0))
        holding = [hold for hold in holds if hold.since <= since < hold.until]
        held = sum((hold.gpus for hold in holding), Fraction(0))
        free = max(capacity - held, Fraction(0))
        mine.node_cost += price * hours
        mine.capacity_gpu_hours += capacity * hours
        mine.over_allocated_gpu_hours += max(held - capacity, Fraction(0)) * hours
        mine.unallocated_gpu_hours += free * hours
        mine.unavailable_gpu_hours += min(free, _unreachable(node, out_of_reach, since, capacity)) * hours
        mine.unallocated_cost += price * fractions["gpu"] * free / capacity * hours
        for hold in holding:
            rate = price * fractions["gpu"] / max(capacity, held)
            _count(bill.pods[hold.pod], hold, since, hours, rate, known and node["capacity_type"] == "spot")
        for part, units in host.items():
            asked = sum((hold.host[part] for hold in holding), Fraction(0))
            each = price * fractions[part] * hours / max(units, asked)
            mine.unallocated_cost += max(units - asked, Fraction(0)) * each
            for hold in holding:
                bill.pods[hold.pod].cost += hold.host[part] * each


def _count(figures: Figures, hold: _Hold, since: int, hours: Fraction, rate: Fraction, spot: bool) -> None:
    time = hold.gpus * hours
    figures.allocated_gpu_hours += time
    figures.spot_gpu_hours += time if spot else 0
    figures.cost += time * rate
    for line in hold.devices or [[]]:
        state = next((active for a, b, active in line if a <= since < b), None)
        part = time / max(len(hold.devices), 1)
        if state is None:
            figures.unmeasured_gpu_hours += part
        elif state:
            figures.active_gpu_hours += part
        else:
            figures.idle_gpu_hours += part
            figures.idle_cost += part * rate


def _unreachable(node: dict[str, Any], spans: list[list[float]], since: int, capacity: Fraction) -> Fraction:
    if any(span[0] * 1000 <= since < span[1] * 1000 for span in spans):
        return capacity
    cuts = (cut[2:] for cut in node.get("allocatable", []) if cut[0] * 1000 <= since < cut[1] * 1000)
    return sum((_lost(node, *cut) for cut in cuts), Fraction(0))


def _lost(node: dict[str, Any], left: int, resource: str = "") -> Fraction:
    if not resource:
        return Fraction(len(node["gpus"]) - left)
    return (resources_of(node)[resource] - left) * unit_share(node, resource)


def _hold(
    fleet: dict[str, Any], node: dict[str, Any], pod: dict[str, Any], up: tuple[int, int], activity: Activity
) -> _Hold:
    gpus = held_gpus(node, pod)
    return _Hold(
        (pod["cluster"], pod["namespace"], pod["name"], pod["uid"]),
        gpus,
        max(up[0], round(pod["scheduled"] * 1000)),
        min(up[1], round(pod["to"] * 1000)),
        [activity(node, device) for device in _known_devices(fleet, node, pod, gpus)],
        {part: requested(pod, part) for part in HOST_PARTS},
    )


def _known_devices(
    fleet: dict[str, Any], node: dict[str, Any], pod: dict[str, Any], gpus: Fraction
) -> Iterator[dict[str, Any]]:
    """The devices that metrics tie to the pod: those it is labeled on, or that it can only be on."""
    obvious = len(node["gpus"]) == 1 or gpus == len(node["gpus"])
    for device in pod["devices"]:
        others = [
            p
            for p in fleet["pods"]
            if is_on(p, node) and any(device_key(d) == device_key(device) for d in p["devices"])
        ]
        if obvious or not fleet.get("label_one") or others[0] is pod:
            yield device


def held_gpus(node: dict[str, Any], pod: dict[str, Any]) -> Fraction:
    """GPUs that a pod holds on a node: as its devices' parts are told, else by what a unit of its resource is."""
    if any("part" in device for device in pod["devices"]):
        return sum((Fraction(device["part"]) for device in pod["devices"]), Fraction(0))
    return together(pod, "count") * unit_share(node, pod["resource"])


def unit_share(node: dict[str, Any], resource: str) -> Fraction:
    """How much of a GPU one unit of a resource is on this node."""
    slots = Fraction(1, node.get("gke_shared_clients", 1) * node.get("replicas", 1))
    profile = node.get("mig_single") or node.get("gke_partition")
    if resource.startswith("nvidia_com_mig_"):
        profile = resource.removeprefix("nvidia_com_mig_").replace("_", ".")
        slots = Fraction(1, node.get("mig_replicas", {}).get(profile, 1))
    if not profile:
        return slots
    return Fraction(int(profile.split("g.")[0]), slices_of(node["gpu_model"])) * slots
