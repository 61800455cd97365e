"""Fewer GPUs for the same work, by memory and measured activity."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR
from gpucost.price.listing import ListedPrice, price_of_region
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif import share
from gpucost.whatif.answer import Answer, Assumption, Rows, Tables, old_prices, priced, stated
from gpucost.whatif.avoidable import Held
from gpucost.whatif.flags import round_money, to_decimal, total
from gpucost.whatif.fleet import Levels, Node, Pod, Price, Usage, is_batch
from gpucost.whatif.gpu_specs import GpuSpecs
from gpucost.whatif.packing import Change, emptied, today_held

# purchase options by capacity type; reserved capacity is paid in any case
PURCHASE = {"on_demand": "on_demand", "unknown": "on_demand", "spot": "spot", "flex_start": "flex_start"}

Place = tuple[str | None, ...]


def place_of(node: Node) -> Place:
    """The place of GPUs that can replace each other."""
    return node.provider, node.region, PURCHASE.get(node.capacity_type), node.gpu_model


def list_offers(rows: Iterable[ListedPrice]) -> list[Node]:
    """Listed prices as nodes with whole GPUs: one per instance type, region and purchase option."""
    kinds = grouped(
        ((row.provider.lower(), row.region.lower(), row.instance_type, row.purchase_option), row)
        for row in rows
        if row.region and row.gpu_count and row.gpu_count >= 1 and row.price_per_hour > 0
    )
    offers = []
    for (provider, region, name, option), several in kinds.items():
        row = price_of_region(several)
        source = "spot_history" if row.origin == "spot_history" else "catalog"
        gpus = int(row.gpu_count or 1)
        per_gpu = row.price_per_gpu_hour or row.price_per_hour
        price = Price(per_gpu * gpus, source, row.price_as_of.isoformat())
        offers.append(
            Node("", gpus, 0, 0, (price,), option, "default", provider, region, name, row.gpu_model)
        )
    return offers


def offers_near(list_prices: Callable[..., list[ListedPrice]], nodes: Sequence[Node]) -> list[Node]:
    """List prices of whole GPUs in the regions of the nodes."""
    providers = tuple({node.provider for node in nodes if node.provider})
    regions = tuple({node.region for node in nodes if node.region})
    options = tuple(PURCHASE.values())
    return list_offers(list_prices(None, purchase_options=options, providers=providers, regions=regions))


def merge(nodes: Iterable[Node], offers: Iterable[Node]) -> list[Node]:
    """The fleet's own nodes, discounts and contracts included; list prices only of other instance types."""
    existing = {}
    for node in nodes:
        if node.is_priced and node.capacity_type in PURCHASE and node.gpus >= 1:
            existing[(place_of(node), node.instance_type), node.gpus] = node
    existing_types = {kind for kind, _ in existing}
    others = [offer for offer in offers if (place_of(offer), offer.instance_type) not in existing_types]
    return [*existing.values(), *others]


_TIE = 1e-9
# `whatif rightsize` has the margins of `whatif share`
Limits = share.Margins


@frozen_dataclass
class Load:
    """Pods of a workload that are alike, each with `gpus` on a node like `node`, of which `used` are ever active.

    `high` is the highest activity 0-1 of a GPU. `memory_mib` is the highest memory of one GPU, None if it is not measured:
    then fewer GPUs need as much memory in all as the used ones have. `hours` are pod-hours, `cost` is the GPUs' cost today.
    """

    node: Node
    gpus: int
    used: int
    high: float
    memory_mib: float | None
    pods: tuple[Pod, ...]
    hours: float
    cost: Decimal

    @property
    def name(self) -> str:
        """Namespace and workload."""
        return f"{self.pods[0].namespace}/{self.pods[0].workload}"


@frozen_dataclass
class Move:
    """`gpus` GPUs of a node like `offer` that do the work of a load."""

    load: Load
    offer: Node
    gpus: int

    @property
    def bought(self) -> str:
        """The instance type and purchase option."""
        return f"{self.offer.instance_type or 'own node'} {PURCHASE[self.offer.capacity_type]}"

    @property
    def price(self) -> Price:
        """The latest price of a GPU-hour."""
        price = self.offer.prices[-1]
        return replace(price, per_node_hour=round(price.per_node_hour / round(self.offer.gpus), 12))

    @property
    def cost(self) -> Decimal:
        """The cost of the GPUs over the pod-hours of the load."""
        return round_money(self.price.per_node_hour * to_decimal(self.load.hours * self.gpus))

    def then(self, pod: Pod, node: Node, *, is_empty: bool) -> Held:
        """The GPUs for a pod: on its node, or one like it; otherwise on an instance to be bought.

        A node that does not become empty keeps the pod.
        """
        offer, gpus = self.offer, self.gpus
        if offer.instance_type == node.instance_type or not is_empty:
            return Held(node, gpus, *pod.span, stays=not is_empty)
        bought = replace(offer, name="", cluster=node.cluster, prices=offer.prices[-1:])
        return Held(bought, gpus, *pod.span)


def _least_gpus(load: Load, memory_mib: int, limits: Limits) -> int:
    """The fewest GPUs with enough memory in all: batch work keeps the used GPUs, other work has enough at its busiest."""
    least = float(load.used)
    if not is_batch(load.pods[0]):
        least *= load.high * limits.margin / limits.free
    # the work fits today's GPUs, with the margin or without
    filled = memory_mib if load.memory_mib is None else min(load.memory_mib * limits.margin, memory_mib)
    return max(1, math.ceil(least - _TIE), math.ceil(load.used * filled / memory_mib - _TIE))


# Pods that are measured for less prove nothing about unused GPUs.
_LEAST_HOURS = 1.0


def has_whole_gpus(pod: Pod) -> bool:
    """Whether the pod holds whole GPUs, not parts of one."""
    return round(pod.gpus) >= 1 and abs(pod.gpus - round(pod.gpus)) < 1e-6


def loads_of(usage: Usage, levels: Levels) -> list[Load]:
    """The loads of measured pods with whole GPUs of a known model, except on reserved capacity.

    High values come from the busiest and the fullest pod.
    """
    nodes = usage.fleet.by_name
    alike: dict[tuple[Any, ...], list[Pod]] = defaultdict(list)
    for pod in usage.fleet.pods:
        node = nodes[pod.place]
        if has_whole_gpus(pod) and node.gpu_model and node.capacity_type in PURCHASE:
            like = (node.provider, node.region, node.capacity_type, node.gpu_model)
            alike[round(pod.gpus), pod.owner, *like].append(pod)
    loads = []
    for (gpus, *_), pods in alike.items():
        found = [levels[pod.key] for pod in pods if pod.key in levels]
        if not found:
            continue
        long = [
            level.active_devices
            for level in found
            if level.measured_hours >= _LEAST_HOURS and level.devices >= gpus
        ]
        used = min(max(long, default=gpus), gpus)
        memories = [level.high_memory_mib for level in found if level.high_memory_mib is not None]
        loads.append(
            Load(
                nodes[pods[0].place],
                gpus,
                used,
                max(level.high for level in found),
                max(memories) if len(memories) == len(found) else None,
                tuple(pods),
                sum(pod.length_ms for pod in pods) / MS_PER_HOUR,
                total(held.cost for held in today_held(usage, pods)),
            )
        )
    return loads


@frozen_dataclass
class Sizer:
    """The number and offer of GPUs that measured pods need: the inputs of the decision."""

    usage: Usage
    limits: Limits
    facts: GpuSpecs
    offers: Mapping[Place, Sequence[Node]]

    def move(self, load: Load) -> Move | None:
        """The load's cheapest GPUs of its own model, if their number differs from today's and they cost less."""
        model = self.facts.get(load.node.gpu_model or "")
        # only active GPUs show how many are needed
        if not load.used or model is None or model.memory_mib is None:
            return None
        gpus = _least_gpus(load, model.memory_mib, self.limits)
        offers = self.offers.get(place_of(load.node), ())
        moves = [Move(load, offer, gpus) for offer in offers if gpus <= round(offer.gpus)]
        # at equal cost the smallest instance
        best = min(moves, key=lambda move: (move.cost, move.offer.gpus), default=None)
        return best if best and gpus != load.gpus and best.cost < load.cost else None

    def sized(self, levels: Levels) -> Sized:
        """The loads, and fewer GPUs of the same model."""
        loads = loads_of(self.usage, levels)
        moves = list(filter(None, map(self.move, loads)))
        move_of: dict[Pod, Move] = {}
        for move in moves:
            move_of |= dict.fromkeys(move.load.pods, move)
        nodes, empty = self.usage.fleet.by_name, emptied(self.usage, move_of)
        then = tuple(
            move.then(pod, nodes[pod.place], is_empty=pod.place in empty) for pod, move in move_of.items()
        )
        return Sized(loads, moves, Change(tuple(move_of), then))


class Sized(NamedTuple):
    """Loads, the moves to fewer GPUs, and the change by them."""

    loads: list[Load]
    moves: list[Move]
    change: Change


def answer(
    usage: Usage,
    limits: Limits,
    levels: Levels,
    facts: GpuSpecs,
    list_offers: Iterable[Node],
    stale: tuple[date, int] | None = None,
) -> Answer:
    """The GPUs that measured workloads need, of their model.

    `stale` is a day and the age in days above which list prices are named in the title. Raises GpucostError if no pod was
    measured.
    """
    fleet = usage.fleet
    offers = grouped((place_of(offer), offer) for offer in merge(fleet.nodes, list_offers))
    sizer = Sizer(usage, limits, facts, offers)
    sized = sizer.sized(levels)
    if not sized.loads:
        raise GpucostError(
            f"no pod of {usage.scope_name} with whole GPUs was measured in {usage.period_name}",
            "gpucost doctor checks whether dcgm-exporter labels GPUs with their pods",
        )
    fixed = share.without_preallocation(fleet, levels, facts)
    looser = sizer.sized({**levels, **fixed}).change if fixed else None
    prices = {(move.bought, move.price) for move in sized.moves}
    list_prices = [(name, price) for name, price in prices if price.source in ("catalog", "spot_history")]
    old = old_prices(list_prices, *stale) if stale else ""
    title = f"Fewer GPUs for {usage.scope_name}{old}"
    found = share.change_answer(usage, "rightsize", title, sized.change, looser)
    return replace(
        found,
        assumptions=(
            *stated(limits),
            Assumption("usage, activity and today's prices", usage.period_name, "", "store"),
            *(priced(f"a GPU of {name}", price, "per hour") for name, price in sorted(prices, key=str)),
        ),
        time=("Several GPUs are assumed to do as many times the work of one: communication is not counted.",),
        findings=(*found.findings, *_findings(usage, levels, sized)),
        tables=_table(sized.moves),
    )


def _table(moves: Sequence[Move]) -> Tables:
    """The moves with the largest savings first."""
    lines = [
        (
            move.load.name,
            move.offer.gpu_model,
            move.load.gpus,
            move.gpus,
            f"{move.bought} ({move.price.source})",
            round(move.load.cost, 2),
            round(move.cost, 2),
        )
        for move in sorted(moves, key=lambda move: (move.cost - move.load.cost, move.load.name))
    ]
    columns = ("workload", "gpu_model", "gpus_today", "gpus", "bought", "cost_today", "cost")
    return Rows.top("Fewer GPUs of the same model", columns, lines, "{} more workloads.")


def _findings(usage: Usage, levels: Levels, sized: Sized) -> Iterator[str]:
    """Unused GPUs, missing memory, and the pods that are left out."""
    spare = [load for load in sized.loads if load.used < load.gpus]
    for load in sorted(spare, key=lambda load: (load.used - load.gpus, load.name))[:40]:
        yield f"{load.name} requests {load.gpus} GPU{'s' if load.gpus > 1 else ''} and never used more than {load.used}."
    if not share.has_memory(levels):
        yield "Memory is not in the store (DCGM_FI_DEV_FB_USED): fewer GPUs need as much memory in all as the used GPUs have."
    nodes = usage.fleet.by_name
    is_left = [
        not has_whole_gpus(pod) or nodes[pod.place].capacity_type not in PURCHASE for pod in usage.fleet.pods
    ]
    if left := sum(is_left):
        yield f"{left} pods with parts of GPUs or on reserved capacity, which is paid anyway, are left as they are."
