"""The cost of a fleet: price x hours. Attribution computes the same figures from the store."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from gpucost.periods import MS_PER_HOUR
from gpucost.records import frozen_dataclass, grouped
from gpucost.whatif.answer import Position
from gpucost.whatif.flags import round_money, total
from gpucost.whatif.fleet import Costs, Fleet, Node, Pod, Workload

# The binary remainder of sevenths and tenths of a GPU, in GPU-milliseconds.
NO_TIME = 1.0


def fleet_costs(fleet: Fleet) -> Costs:
    """The cost of the fleet's nodes, of held GPUs and of each workload.

    A pod costs its share of its node while it holds GPUs; pods that hold more than the node has share it in proportion. Amounts
    are rounded to nine decimals for each pod and price; the largest share of a full node takes the rounding remainder.
    """
    pods_of = grouped((pod.place, pod) for pod in fleet.pods)
    node_cost, held_ms = Decimal(0), 0.0
    by_workload: dict[Workload, Decimal] = defaultdict(Decimal)
    for node in fleet.nodes:
        pods = [pod for pod in pods_of[node.key] if pod.from_ms < node.to_ms and node.from_ms < pod.to_ms]
        held_ms += sum(_held_ms(pod, node.from_ms, node.to_ms) for pod in pods)
        for (price, start, end), here in zip(node.steps, _pods_by_step(node, pods), strict=True):
            cost = round_money(price.per_node_hour * (end - start) / MS_PER_HOUR)
            node_cost += cost
            for pod, amount in _pod_costs(node, here, start, end, cost):
                by_workload[pod.owner] += amount
    gpu_ms = sum(node.length_ms * node.gpus for node in fleet.nodes)
    node_ms = sum(node.length_ms for node in fleet.nodes)
    gpu_hours, held_hours, node_hours = (round(ms / MS_PER_HOUR, 9) for ms in (gpu_ms, held_ms, node_ms))
    cost = total(by_workload.values())
    return Costs(node_cost, cost, gpu_hours, held_hours, node_hours, dict(by_workload))


def _pods_by_step(node: Node, pods: Iterable[Pod]) -> list[list[Pod]]:
    """The pods that hold GPUs in each of the node's price steps."""
    starts = [start for _, start, _ in node.steps]
    here: list[list[Pod]] = [[] for _ in starts]
    for pod in pods:
        first = max(0, bisect_right(starts, pod.from_ms) - 1)
        for holders in here[first : bisect_left(starts, pod.to_ms)]:
            holders.append(pod)
    return here


def _held_ms(pod: Pod, start: int, end: int) -> float:
    """The GPU time that the pod holds from `start` to `end`."""
    return pod.gpus * (min(pod.to_ms, end) - max(pod.from_ms, start))


def _pod_costs(
    node: Node, here: Sequence[Pod], start: int, end: int, cost: Decimal
) -> list[tuple[Pod, Decimal]]:
    """Each pod's part of the cost from `start` to `end`, rounded; the largest takes the remainder if no GPU is free."""
    if not here or end <= start:
        return []
    billed_ms = _billed_gpu_ms(node, here, start, end)
    capacity_ms = node.gpus * (end - start)
    amounts = [round_money(cost * Decimal(repr(ms / capacity_ms))) for ms in billed_ms]
    if capacity_ms - sum(billed_ms) < NO_TIME:
        largest = max(range(len(here)), key=lambda number: round(billed_ms[number], 3))
        amounts[largest] += cost - sum(amounts)
    return list(zip(here, amounts, strict=True))


def _billed_gpu_ms(node: Node, pods: Sequence[Pod], start: int, end: int) -> list[float]:
    """The GPU time that each pod pays for: its held time, less its part of the excess over the node's GPUs."""
    billed = [_held_ms(pod, start, end) for pod in pods]
    if sum(pod.gpus for pod in pods) <= node.gpus:
        return billed
    edges: dict[int, float] = defaultdict(float)
    for pod in pods:
        edges[max(pod.from_ms, start)] += pod.gpus
        edges[min(pod.to_ms, end)] -= pod.gpus
    level = 0.0
    for since, until in pairwise(sorted(edges)):
        level += edges[since]
        if level > node.gpus + 1e-9:
            excess = 1 - node.gpus / level
            for number, pod in enumerate(pods):
                if pod.from_ms <= since and until <= pod.to_ms:
                    billed[number] -= pod.gpus * (until - since) * excess
    return billed


@frozen_dataclass
class CostBlock:
    """`node_hours` of paid nodes with `gpus` GPUs each, at one price per node-hour."""

    node_hours: float
    price: Decimal
    gpus: float = 1.0

    @property
    def cost(self) -> Decimal:
        return round_money(round_money(self.price) * Decimal(repr(self.node_hours)))


def charge(amount_per_part: Decimal, parts: float = 1) -> CostBlock:
    """Money without a node (moved data, for example): `parts` units at that amount each."""
    return CostBlock(parts, amount_per_part, 0.0)


def position(currency: str, blocks: Sequence[CostBlock]) -> Position:
    """The cost and hours of these blocks."""
    cost = total(block.cost for block in blocks)
    gpu_hours = sum((block.node_hours * block.gpus for block in blocks), 0.0)
    node_hours = sum((block.node_hours for block in blocks if block.gpus), 0.0)
    return Position(cost, currency, round(gpu_hours, 6), round(node_hours, 6))
