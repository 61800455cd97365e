"""Workloads on other GPUs, as fleets: what moves as it is, and the same work where it moves to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from gpucost.whatif.rightsize.shapes import Shape
from gpucost.whatif.rightsize.sizing import Fit, Load


@dataclass(frozen=True, slots=True)
class Move:
    """A shape's pods, what they do, and the GPUs that would do it."""

    shape: Shape
    pods: tuple[Pod, ...]
    load: Load
    fit: Fit


def key(number: int) -> tuple[str, str, str]:
    """Under which workload costs are told of the move of this number."""
    return ("moved", "default", str(number))


def alone(fleet: Fleet, moves: Sequence[Move]) -> Fleet:
    """The moves' pods as they are, each move a workload of its own, on nodes of their own at their share of the price."""
    nodes = {(node.cluster, node.name): node for node in fleet.nodes}
    made, pods = [], []
    for number, move in enumerate(moves):
        for index, pod in enumerate(move.pods):
            node = nodes[pod.cluster, pod.node]
            prices = tuple(
                replace(p, per_node_hour=round(p.per_node_hour * move.shape.gpus / round(node.gpus), 9)) for p in node.prices
            )
            name = f"{number}/{index}"
            made.append(
                replace(node, cluster="moved", name=name, gpus=pod.gpus, from_ms=pod.from_ms, to_ms=pod.to_ms, prices=prices)
            )
            pods.append(replace(pod, cluster="moved", namespace="default", workload=str(number), node=name, uid=name))
    return Fleet(tuple(made), tuple(pods))


def moved(moves: Sequence[Move]) -> Fleet:
    """The same work on the GPUs chosen."""
    made, pods = [], []
    for number, move in enumerate(moves):
        offer, gpus = move.fit.offer, move.fit.gpus
        price = Price(round(offer.price_per_gpu_hour * gpus, 9), offer.source, offer.as_of)
        for index, pod in enumerate(move.pods):
            name = f"{number}/{index}"
            end = pod.from_ms + round((pod.to_ms - pod.from_ms) * move.fit.time_factor)
            made.append(
                Node(
                    name=name,
                    gpus=float(gpus),
                    from_ms=pod.from_ms,
                    to_ms=end,
                    prices=(price,),
                    capacity_type=move.shape.capacity_type,
                    cluster="moved",
                    gpu_model=offer.gpu_model,
                )
            )
            pods.append(Pod(name, str(number), float(gpus), pod.from_ms, end, team=pod.team, uid=name, cluster="moved"))
    return Fleet(tuple(made), tuple(pods))
