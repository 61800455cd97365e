"""What steps do to a group: each pod's GPUs are a node of their own, which a step shortens, gathers or buys otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from gpucost.errors import DataError
from gpucost.model import MS_PER_HOUR
from gpucost.whatif.fleet import Fleet, Node, Price
from gpucost.whatif.plan.schema import Change, Group, Step
from gpucost.whatif.share.packing import Item, pack, slots
from gpucost.whatif.spot.formulas import Work, exact

_ROUNDING = 1e-6

Nodes = tuple[Node, ...]


def described(group: Group, hours: float, days: float) -> Nodes:
    """The pods of a described group over a period of `hours`; runs of a day follow one another on the same GPUs."""
    if group.price_per_gpu_hour is None:
        raise ValueError(f"{group.name} is not described")
    each, count = (hours if group.hours is None else group.hours), float(group.pods)
    if group.runs_per_day is not None and group.hours_per_run is not None:
        count, each = group.pods * group.runs_per_day, days * group.hours_per_run
    price = Price(round(group.price_per_gpu_hour * group.gpus_per_pod, 9), "plan")
    node = Node("", float(group.gpus_per_pod), 0, round(each * MS_PER_HOUR), (price,))
    whole = tuple(replace(node, name=f"{group.name}/{number}") for number in range(int(count)))
    part = count - int(count)  # two and a half runs a day
    rest = replace(node, name=f"{group.name}/part", to_ms=round(each * part * MS_PER_HOUR))
    return (*whole, rest) if rest.to_ms > 0 else whole


def stored(group: Group, fleet: Fleet) -> Nodes:
    """The pods of the store, each on a node of its own at its share of the price of the node that it was on."""
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    made = []
    for number, pod in enumerate(fleet.pods):
        node = nodes[pod.cluster, pod.node]
        share = Decimal(str(pod.gpus)) / Decimal(str(node.gpus))
        prices = tuple(replace(price, per_node_hour=round(price.per_node_hour * share, 9)) for price in node.prices)
        name = f"{group.name}/{number}"
        made.append(replace(node, name=name, gpus=pod.gpus, from_ms=pod.from_ms, to_ms=pod.to_ms, prices=prices))
    return tuple(made)


def apply(step: Step, group: Group, nodes: Nodes, days: float) -> Nodes:
    """The group's nodes once the step is done. Raises DataError where it cannot be done."""
    edits: dict[Change, Callable[[], Nodes]] = {
        Change.share: lambda: _share(step, group, nodes),
        Change.spot: lambda: tuple(_spot(step, node) for node in nodes),
        Change.schedule: lambda: tuple(_schedule(step, group, node, days) for node in nodes),
        Change.rightsize: lambda: tuple(_rightsize(step, node) for node in nodes),
    }
    return tuple(node for node in edits[step.change]() if node.to_ms > node.from_ms)


def spot_factor(step: Step) -> float:
    """Paid hours per useful hour on spot, exactly for exponential interruptions (whatif/spot/formulas.py)."""
    if step.checkpoint_minutes is None:
        return 1.0
    return exact(
        Work(
            step.interruptions_per_hour,
            step.checkpoint_minutes / 60,
            step.checkpoint_write_minutes / 60,
            step.restart_minutes / 60,
        )
    )


def _spot(step: Step, node: Node) -> Node:
    factor = spot_factor(step)
    if not math.isfinite(factor):
        raise DataError(
            "with so many interruptions nothing is ever finished on spot", "fewer interruptions_per_hour, or more checkpoints"
        )
    return replace(_priced(node, step), capacity_type="spot", to_ms=node.from_ms + round((node.to_ms - node.from_ms) * factor))


def _schedule(step: Step, group: Group, node: Node, days: float) -> Node:
    length = node.to_ms - node.from_ms
    if step.active_percent is not None:
        kept = round(length * step.active_percent / 100)
    elif group.is_stored:
        # on which days a pod was there is its own affair: of each day the same share
        kept = round(length * (step.active_hours_per_day or 0) / 24)
    else:
        kept = min(length, round((step.active_hours_per_day or 0) * days * MS_PER_HOUR))
    return replace(node, to_ms=node.from_ms + kept)


def _rightsize(step: Step, node: Node) -> Node:
    gpus = float(step.gpus_per_pod) if step.gpus_per_pod is not None else node.gpus
    end = node.from_ms + round((node.to_ms - node.from_ms) * step.time_factor)
    return _priced(replace(node, gpus=gpus, to_ms=end, gpu_model=None), step)


def _priced(node: Node, step: Step) -> Node:
    price = round((step.price_per_gpu_hour or Decimal(0)) * Decimal(str(node.gpus)), 9)
    return replace(node, prices=(Price(price, "plan"),))


def _share(step: Step, group: Group, nodes: Nodes) -> Nodes:
    """Up to `ways` pods with one GPU each on one GPU, at the price of the first; what holds several GPUs keeps them."""
    ways, free = step.ways or 1, 1 - step.headroom_percent / 100
    busy = (step.utilization_percent or 0.0) / 100 * (1 + step.margin_percent / 100)
    if busy * 2 > free + _ROUNDING:
        raise DataError(
            f"pods of {group.name} are {step.utilization_percent:g} % busy: with the margins no two of them share a GPU",
            "leave out that step, or margin_percent and headroom_percent say otherwise",
        )
    single = {node.name: node for node in nodes if abs(node.gpus - 1) < _ROUNDING}
    items = [Item(name, busy, 0.0, node.from_ms, node.to_ms) for name, node in single.items()]
    shared = []
    for gpu in pack(items, slots(activity=free, memory_mib=None, ways=ways)):
        first = single[gpu.items[0].key]
        prices = (replace(first.prices[0], from_ms=None), *first.prices[1:]) if first.prices else ()
        shared.append(replace(first, from_ms=gpu.from_ms, to_ms=gpu.to_ms, prices=prices))
    return (*shared, *(node for node in nodes if node.name not in single))
