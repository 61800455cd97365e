"""Pods packed on GPUs, the nodes that become empty, and the cash that they save."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from gpucost.periods import merge, most_at_once
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.avoidable import NOTHING, Held
from gpucost.whatif.flags import total
from gpucost.whatif.fleet import Node, NodeKey, Pod, Usage

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROUNDING = 1e-9


@frozen_dataclass
class PackedPod:
    """The needs of one pod in [from_ms, to_ms): a share 0-1 of a GPU's activity and MiB of its memory, margins included.

    `of` is the pod, or another packed thing. `hours` is the activity in each hour, the same hours for all packed pods;
    None: constant activity.
    """

    of: Any
    activity: float
    memory_mib: float = 0.0
    from_ms: int = 0
    to_ms: int = 1
    hours: NDArray[np.float64] | None = field(default=None, compare=False)


# Whether a GPU can hold all of these at once.
Fits = Callable[[Sequence[PackedPod]], bool]


@dataclass(slots=True)
class Bin:
    """A GPU, or node, that is filled in [from_ms, to_ms): all items ever on it, and during packing the present ones."""

    from_ms: int
    to_ms: int
    items: list[PackedPod] = field(default_factory=list)
    held: list[PackedPod] = field(default_factory=list)

    @property
    def first(self) -> Any:
        """The thing that was packed first."""
        return self.items[0].of


def slots(*, activity: float, memory_mib: float | None = None, ways: float = math.inf) -> Fits:
    """A GPU for up to `ways` pods, this activity in each hour and this memory (None: not measured)."""
    return lambda items: (
        len(items) <= ways
        and (memory_mib is None or sum(item.memory_mib for item in items) <= memory_mib)
        # in the busiest hour
        and float(np.max(sum(item.activity if item.hours is None else item.hours for item in items)))
        <= activity + ROUNDING
    )


def pack(items: Iterable[PackedPod], fits: Fits) -> list[Bin]:
    """First fit in order of time, the largest first among items that begin at once; an empty GPU is released.

    Items that fit no empty GPU are left out. For items of equal length this is first fit decreasing: at most 11/9 of the
    least number of GPUs plus 6/9 (Dósa 2007) if one measure decides.
    """
    done = []
    opened: list[Bin] = []
    in_order = sorted(items, key=lambda i: (i.from_ms, -i.activity, -i.memory_mib))
    for begin, several in groupby(in_order, key=lambda item: item.from_ms):
        for gpu in opened:
            gpu.held = [other for other in gpu.held if other.to_ms > begin]
        done += [gpu for gpu in opened if not gpu.held]
        opened = [gpu for gpu in opened if gpu.held]
        first, last = 0, (math.inf, math.inf)
        for item in several:
            if not fits([item]):
                continue
            size = (item.activity, item.memory_mib)
            # GPUs only fill up here: one without room for the last item has none for another item of its size
            first = first if size == last and item.hours is None else 0
            last = size
            while first < len(opened) and not fits([*opened[first].held, item]):
                first += 1
            if first == len(opened):
                opened.append(Bin(item.from_ms, item.to_ms))
            gpu = opened[first]
            gpu.held.append(item)
            gpu.items.append(item)
            gpu.to_ms = max(gpu.to_ms, item.to_ms)
    return done + opened


def peak(items: Iterable[Any]) -> int:
    """The most items at one moment, each in [from_ms, to_ms)."""
    return most_at_once((item.from_ms, item.to_ms) for item in items)


@frozen_dataclass
class Saved:
    """Money that leaves the bill, and the cost of GPUs that become free on nodes that stay."""

    cash: Decimal
    freed: Decimal

    @classmethod
    def of(cls, less: Decimal, gone: Decimal) -> Saved:
        """For pods that cost so much less while nodes of that cost go: the rest of these nodes was not the pods' cost."""
        cash = max(min(gone, less), NOTHING)
        return cls(cash, max(less - cash, NOTHING))


@frozen_dataclass
class Change:
    """Pods, and their GPUs instead of today's: on nodes of the fleet, nodes like them, or nodes to be bought."""

    pods: tuple[Pod, ...] = ()
    then: tuple[Held, ...] = ()


def today_held(usage: Usage, pods: Iterable[Pod]) -> list[Held]:
    """The GPUs that pods hold today."""
    nodes = usage.fleet.by_name
    return [Held(nodes[pod.place], pod.gpus, *pod.span) for pod in pods]


def saved(usage: Usage, change: Change) -> Saved:
    """The money that leaves the bill by the change, and the cost of GPUs that become free on nodes that stay.

    Nodes that these pods alone hold go. Less is saved for the whole nodes that the pods' GPUs fill then, by kind or by what
    commitments cover, and for nodes to be bought. GPUs that options or a plan describe are bought one at a time.
    """
    today = total(held.cost for held in today_held(usage, change.pods))
    less = today - total(held.cost for held in change.then)
    if usage.is_described:
        return Saved(less, NOTHING)
    nodes, empty = usage.fleet.by_name, emptied(usage, change.pods)
    commitments = usage.commitments
    gone: dict[Any, list[Held]] = defaultdict(list)
    spans = grouped((pod.place, pod.span) for pod in change.pods if pod.place in empty)

    def alike(node: Node) -> Any:
        """The commitments that cover the node, otherwise its kind."""
        return commitments.key(node) or _kind(node)

    for place, held in spans.items():
        node = nodes[place]
        # while a node is empty, moving pods cannot release it
        gone[alike(node)] += [Held(node, node.gpus, *span) for span in merge(held)]
    moving = [held for held in change.then if held.node.key in nodes and not held.stays]
    needed = grouped((alike(held.node), held) for held in _whole_nodes(moving))
    bought = _whole_nodes(held for held in change.then if held.node.key not in nodes)
    cash = total(max(commitments.cash(parts, needed.get(kind, ())), NOTHING) for kind, parts in gone.items())
    return Saved.of(less, cash - total(node.cost for node in bought))


def emptied(usage: Usage, pods: Iterable[Pod]) -> set[NodeKey]:
    """The nodes that these pods alone hold."""
    going = set(pods)
    stay = {pod.place for pod in (*usage.fleet.pods, *usage.others) if pod not in going}
    return {pod.place for pod in going} - stay


def _kind(node: Node) -> tuple[Any, ...]:
    """The kind of the node: nodes of one kind can replace each other."""
    return node.cluster, node.region, node.instance_type, node.gpu_model, node.capacity_type, node.gpus


def _whole_nodes(needs: Iterable[Held]) -> list[Held]:
    """The nodes that these GPUs fill, packed by kind; each is like the node of its first GPUs."""
    found = []
    for several in grouped((_kind(held.node), held) for held in needs).values():
        items = [
            PackedPod(held.node, min(held.nodes, 1.0), 0.0, held.from_ms, held.to_ms) for held in several
        ]
        for filled in pack(items, slots(activity=1.0)):
            found.append(Held(filled.first, filled.first.gpus, filled.from_ms, filled.to_ms))
    return found
