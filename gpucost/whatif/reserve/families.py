"""Usage by instance family and region: the curves that a commitment is measured against."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal

from gpucost.model import Period
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.fleet import Fleet, Node
from gpucost.whatif.reserve.covered import Existing
from gpucost.whatif.reserve.offers import Offer, Terms

_AZURE = re.compile(r"(?i)^(standard_[a-z]+)\d+")
_KEPT = Decimal("1e-9")

# What is paid by the hour and cannot be taken back. Nodes of unknown capacity type count as on demand.
COMMITTABLE = ("on_demand", "unknown")

# Provider, region, family.
Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Use:
    """Instances of one type in use that no commitment covers yet, their price on demand, and what they could be committed at."""

    instance_type: str
    gpus: float
    on_demand: Offer
    curve: Curve
    offers: tuple[Offer, ...] = ()
    covered_hours: float = 0.0

    def offer(self, terms: Terms) -> Offer | None:
        return next((offer for offer in self.offers if offer.terms == terms), None)


@dataclass(frozen=True, slots=True)
class Family:
    """Instance types of one family in one region."""

    provider: str
    region: str
    name: str
    uses: tuple[Use, ...]

    def __str__(self) -> str:
        return " ".join(word for word in (self.provider, self.region, self.name) if word)


def family_name(instance_type: str) -> str:
    """p4d of p4d.24xlarge, a2-highgpu of a2-highgpu-8g, Standard_NDisr_H100_v5 of Standard_ND96isr_H100_v5."""
    if _AZURE.match(instance_type):
        return _AZURE.sub(r"\1", instance_type)
    if "." in instance_type:
        return instance_type.split(".")[0]
    return instance_type.rsplit("-", 1)[0]


def families_of(
    fleet: Fleet,
    period: Period,
    existing: Existing,
    offers_of: Callable[[str, str, str], tuple[Offer, tuple[Offer, ...]]],
    *,
    is_narrowed: bool,
    wanted: Callable[[Node], bool] = lambda _: True,
) -> tuple[Family, ...]:
    """On-demand usage by family, hour by hour; what existing commitments cover is taken off first.

    Nodes of unknown capacity type count as on demand. `is_narrowed`: nodes are counted by the share of them that the fleet's pods
    hold, else whole. `offers_of(provider, region, instance type)` is the list price on demand (zero: none) and the commitments.
    The price on demand is what the nodes cost, by hours; where only a bill or nothing prices them, the list price.
    """
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    spans: dict[tuple[str, str, str, float], list[tuple[int, int, float]]] = defaultdict(list)
    priced: dict[tuple[str, str, str, float], list[Node]] = defaultdict(list)
    for node in fleet.nodes:
        if node.capacity_type in COMMITTABLE and wanted(node):
            priced[_type(node)].append(node)
            if not is_narrowed:
                spans[_type(node)].append((node.from_ms, node.to_ms, 1.0))
    for pod in fleet.pods if is_narrowed else ():
        node = nodes[pod.cluster, pod.node]
        if node.capacity_type in COMMITTABLE and wanted(node):
            spans[_type(node)].append((pod.from_ms, pod.to_ms, pod.gpus / node.gpus))
    families: dict[Key, list[Use]] = defaultdict(list)
    for key, of_type in sorted(spans.items()):
        provider, region, instance_type, gpus = key
        listed, offers = offers_of(provider, region, instance_type)
        price = _mean_price(priced[key]) or listed
        if not price.price:
            continue
        curve = counted(of_type, period.start_ms, period.end_ms)
        there = existing.covered.get((provider, region, instance_type.lower()))
        left = curve.less(there) if there else curve
        use = Use(instance_type, gpus, price, left, offers, round(curve.node_hours - left.node_hours, 6))
        families[provider, region, family_name(instance_type)].append(use)
    return tuple(Family(*key, tuple(uses)) for key, uses in families.items())


def _type(node: Node) -> tuple[str, str, str, float]:
    return (node.provider or "", node.region or "", node.instance_type or node.gpu_model or "unknown", node.gpus)


def _mean_price(nodes: Iterable[Node]) -> Offer | None:
    """What the nodes cost per hour on the mean, leaving out what a bill says: that may hold commitments. None: nothing priced."""
    hours, amount, sources, days = Decimal(0), Decimal(0), set(), set()
    for node in nodes:
        for price, following in zip(node.prices, (*node.prices[1:], None), strict=True):
            start = max(node.from_ms, price.from_ms if price.from_ms is not None else node.from_ms)
            end = node.to_ms if following is None or following.from_ms is None else min(node.to_ms, following.from_ms)
            if price.source in ("bill", "none") or end <= start:
                continue
            hours += end - start
            amount += (end - start) * price.per_node_hour
            sources.add(price.source)
            days |= {price.as_of} if price.as_of else set()
    if not hours or not amount:
        return None
    source = ", ".join(sorted(sources)).replace("_", " ")
    return Offer(Terms("on_demand", 0, ""), (amount / hours).quantize(_KEPT), source, max(days, default=None))
