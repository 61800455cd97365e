"""A fleet's pods as work that could move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from gpucost.model import MS_PER_HOUR
from gpucost.whatif.burst import Place, Work
from gpucost.whatif.fleet import CostOf, Fleet


def works_of(
    fleet: Fleet, cost_of: CostOf, spot_of: Mapping[tuple[str, str, str], Place], places_of: Mapping[str, Sequence[Place]]
) -> tuple[tuple[Work, ...], tuple[str, ...]]:
    """The pods of a fleet as work by (provider, region, GPU model), and what of it cannot be compared.

    The primary's spot price is what the fleet's own spot nodes cost there; `spot_of`, by these three, where it has none.
    `places_of` are the places that have a GPU model.
    """
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    named = {}
    for pod in fleet.pods:
        node = nodes[pod.cluster, pod.node]
        kind = "spot" if node.capacity_type == "spot" else "other"
        named[pod] = (node.provider or "", node.region or "", node.gpu_model or "unknown GPU", kind)
    tagged = tuple(replace(pod, workload="\t".join(key), namespace="burst", team="burst") for pod, key in named.items())
    costs: dict[str, Decimal] = defaultdict(Decimal)
    for (_, _, workload), amount in cost_of(Fleet(fleet.nodes, tagged)).by_workload.items():
        costs[workload] += amount
    groups = defaultdict(list)
    for pod, key in named.items():
        groups[key].append(pod)
    hours = {key: sum((pod.to_ms - pod.from_ms) * pod.gpus for pod in pods) / MS_PER_HOUR for key, pods in groups.items()}
    paid_spot = {
        key[:3]: Place(key[0], key[1], costs["\t".join(key)] / Decimal(repr(hours[key])), "store: mean spot price paid")
        for key in groups
        if key[3] == "spot" and hours[key] and costs["\t".join(key)]
    }
    works, said = [], []
    for key, pods in sorted(groups.items()):
        provider, region, model, kind = key
        paid = costs["\t".join(key)]
        name = " ".join(word for word in (model, provider, region, "on spot" if kind == "spot" else "on demand") if word)
        none = Place(provider, region, Decimal(0), "none")
        primary = paid_spot.get(key[:3]) or spot_of.get(key[:3], none)
        if not primary.price_per_gpu_hour:
            said.append(f"{name}: the primary's spot price is not known; {paid:,.2f} stays where it is.")
            continue
        most = max(pod.gpus for pod in pods)
        others = tuple(place for place in places_of.get(model, ()) if (place.provider, place.region) != (provider, region))
        starts = sum(pod.gpus for pod in pods) / most
        works.append(Work(name, primary, hours[key], most, starts, others, paid))
    return tuple(works), tuple(said)
