"""A fleet that a scenario edits: nodes at their prices, and what holds their GPUs. From the store or from options alike."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from decimal import Decimal

from gpucost.model import MS_PER_HOUR

HOURS_PER_MONTH = 730
HOURS_PER_YEAR = 8760


@dataclass(frozen=True, slots=True)
class Price:
    """A price of the whole node, in money per node-hour, and where it comes from; `from_ms` None is since ever."""

    per_node_hour: Decimal
    source: str
    as_of: str | None = None
    from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is up (and paid) in [from_ms, to_ms), at the prices of `prices` in order of time."""

    name: str
    gpus: float
    from_ms: int
    to_ms: int
    prices: tuple[Price, ...]
    capacity_type: str = "on_demand"
    cluster: str = "default"
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zone_id: str | None = None  # as AWS calls the zone in every account
    instance_type: str | None = None
    gpu_model: str | None = None

    @property
    def hours(self) -> float:
        """Node-hours."""
        return (self.to_ms - self.from_ms) / MS_PER_HOUR

    @property
    def is_priced(self) -> bool:
        """Whether its price is known throughout; where it is not, its cost is counted as nothing."""
        return bool(self.prices) and all(price.source != "none" for price in self.prices)


@dataclass(frozen=True, slots=True)
class Pod:
    """What holds `gpus` of a node in [from_ms, to_ms)."""

    node: str
    workload: str
    gpus: float
    from_ms: int
    to_ms: int
    namespace: str = "default"
    team: str = "default"
    uid: str = ""
    cluster: str = "default"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Nodes, known by (cluster, name), and the pods on them. Names are unique; a pod's node is one of them."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()

    def with_nodes(self, edit: Callable[[Node], Node | None]) -> Fleet:
        """The same fleet, each node as `edit` returns it; None takes the node away, and its pods with it."""
        kept = {(node.cluster, node.name): edited for node in self.nodes if (edited := edit(node)) is not None}
        return Fleet(tuple(kept.values()), tuple(pod for pod in self.pods if (pod.cluster, pod.node) in kept))

    def in_clusters(self, clusters: Collection[str]) -> Fleet:
        """The part of it in these clusters, their empty nodes too."""
        return Fleet(
            tuple(node for node in self.nodes if node.cluster in clusters),
            tuple(pod for pod in self.pods if pod.cluster in clusters),
        )

    def __add__(self, other: Fleet) -> Fleet:
        return Fleet(self.nodes + other.nodes, self.pods + other.pods)


@dataclass(frozen=True, slots=True)
class Costs:
    """What the stages say a fleet costs, in money; GPU time in GPU-hours, node time in node-hours.

    `cost` (held GPUs) + `unallocated_cost` = `node_cost`, exactly. `by_workload` holds the cost of held GPUs.
    """

    node_cost: Decimal
    cost: Decimal
    unallocated_cost: Decimal
    gpu_hours: float
    allocated_gpu_hours: float
    node_hours: float
    by_team: dict[str, Decimal] = field(default_factory=dict)
    by_workload: dict[tuple[str, str, str], Decimal] = field(default_factory=dict)


# What a fleet costs: the pipeline's answer, by the attribution stages.
CostOf = Callable[[Fleet], Costs]


def uniform(
    name: str,
    *,
    nodes: int,
    gpus_per_node: float,
    hours: float,
    price: Price,
    capacity_type: str = "on_demand",
    held_gpus_per_node: float | None = None,
    gpu_model: str | None = None,
) -> Fleet:
    """`nodes` equal nodes, each up for `hours`, all of whose GPUs (or `held_gpus_per_node`) one workload called `name` holds.

    Hours are those of all nodes alike and begin at the epoch: what they cost does not depend on when they are.
    """
    end = round(hours * MS_PER_HOUR)
    held = gpus_per_node if held_gpus_per_node is None else held_gpus_per_node
    one = Node("", gpus_per_node, 0, end, (price,), capacity_type, gpu_model=gpu_model)
    every = tuple(replace(one, name=f"{name}-{index}") for index in range(nodes)) if end > 0 else ()
    pods = tuple(Pod(node.name, name, held, 0, end, team=name, uid=node.name) for node in every) if held > 0 else ()
    return Fleet(every, pods)
