"""A fleet that a scenario edits: nodes at their prices, and the pods that hold their GPUs; from the store or from options."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, replace
from decimal import Decimal
from fnmatch import fnmatchcase
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost.inventory import load_activity
from gpucost.options import Names
from gpucost.periods import MS_PER_HOUR, Period, Span
from gpucost.records import frozen_dataclass, grouped
from gpucost.store.usage import nothing_used, read_cost, read_idle, read_levels, read_usage
from gpucost.whatif.avoidable import NO_COMMITMENTS, NOTHING, Commitments
from gpucost.whatif.flags import to_decimal

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Activity
    from gpucost.whatif.answer import Assumptions


# Capacity that is paid whether its nodes are up and used or not.
PAID_ANYWAY = ("reserved", "capacity_block")


NodeKey = tuple[str, str]  # cluster, name
PodKey = tuple[str, str]  # cluster, uid
Workload = tuple[str, str, str]  # cluster, namespace, Kind/name


@frozen_dataclass
class Price:
    """A price of the whole node, in money per node-hour, with its source; `from_ms` None: from the beginning.

    `is_committed`: a price under a commitment. `is_stale`: an old list price.
    """

    per_node_hour: Decimal
    source: str
    as_of: str | None = None
    from_ms: int | None = None
    is_committed: bool = False
    is_stale: bool = False


UNPRICED = Price(NOTHING, "none")


@frozen_dataclass
class Node:
    """A node that is up (and paid) in [from_ms, to_ms), at `prices` in order of time."""

    name: str
    gpus: float
    from_ms: int
    to_ms: int
    prices: tuple[Price, ...]
    capacity_type: str = "on_demand"
    cluster: str = "default"
    provider: str | None = None
    region: str | None = None
    instance_type: str | None = None
    gpu_model: str | None = None
    has_users: bool = True  # false if no metric or label reports the users of its GPUs

    @property
    def key(self) -> NodeKey:
        """Its identity among all nodes."""
        return self.cluster, self.name

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms

    @property
    def hours(self) -> float:
        """Node-hours."""
        return self.length_ms / MS_PER_HOUR

    @property
    def steps(self) -> list[tuple[Price, int, int]]:
        """Its prices, each with the part [from, to) of its life; the first from its beginning."""
        later = [min(max(price.from_ms or 0, self.from_ms), self.to_ms) for price in self.prices[1:]]
        starts = [self.from_ms, *later]
        return list(zip(self.prices, starts, [*later, self.to_ms], strict=False))

    @property
    def mean_price(self) -> float:
        """The price of a node-hour, weighted by time."""
        return (
            sum(float(price.per_node_hour) * (end - start) for price, start, end in self.steps)
            / self.length_ms
        )

    def sized(self, gpus: float, name: str) -> Node:
        """A separate node of so many of these GPUs, at their share of the price."""
        share = to_decimal(gpus) / to_decimal(self.gpus)
        priced = self.repriced(
            lambda price: replace(price, per_node_hour=round(price.per_node_hour * share, 9))
        )
        return replace(priced, name=name, gpus=gpus)

    def repriced(self, edit: Callable[[Price], Price]) -> Node:
        """The same node, each of its prices as `edit` returns it."""
        return replace(self, prices=tuple(map(edit, self.prices)))

    @property
    def is_priced(self) -> bool:
        """Whether it has a price at all times; without a price it costs nothing."""
        return bool(self.prices) and all(price.source != "none" for price in self.prices)


@frozen_dataclass
class Pod:
    """A pod that holds `gpus` of a node in [from_ms, to_ms).

    `workload_type` comes from inventory; `resumes`: its workload continued from a checkpoint.
    """

    node: str
    workload: str
    gpus: float
    from_ms: int
    to_ms: int
    namespace: str = "default"
    team: str = "default"
    uid: str = ""
    cluster: str = "default"
    workload_type: str = ""
    resumes: bool = False

    @property
    def key(self) -> PodKey:
        """The key of its idle stretches and levels."""
        return self.cluster, self.uid

    @property
    def place(self) -> NodeKey:
        """The key of its node."""
        return self.cluster, self.node

    @property
    def owner(self) -> Workload:
        """Its workload."""
        return self.cluster, self.namespace, self.workload

    @property
    def span(self) -> Span:
        """The time in which it holds its GPUs."""
        return self.from_ms, self.to_ms

    @property
    def length_ms(self) -> int:
        return self.to_ms - self.from_ms

    @property
    def gpu_ms(self) -> float:
        """GPU time in GPU-milliseconds."""
        return self.length_ms * self.gpus


@frozen_dataclass
class Fleet:
    """Nodes and the pods on them. (cluster, name) is unique; each pod's node is one of them."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()

    def with_nodes(self, edit: Callable[[Node], Node]) -> Fleet:
        """The same fleet, each node as `edit` returns it."""
        return replace(self, nodes=tuple(map(edit, self.nodes)))

    def only(self, is_included: Callable[[Node], bool]) -> Fleet:
        """The nodes that are kept, and the pods on them."""
        included = {node.key: node for node in self.nodes if is_included(node)}
        return Fleet(tuple(included.values()), tuple(pod for pod in self.pods if pod.place in included))

    @property
    def by_name(self) -> dict[NodeKey, Node]:
        """Nodes by cluster and name, the key that pods use."""
        return {node.key: node for node in self.nodes}

    def without(self, pods: Collection[Pod]) -> Fleet:
        """All of its nodes, and the other pods."""
        gone = set(pods)
        return Fleet(self.nodes, tuple(pod for pod in self.pods if pod not in gone))


@frozen_dataclass
class Costs:
    """The cost of a fleet, in money; GPU time in GPU-hours, node time in node-hours.

    `cost` is the sum of `by_workload`, held GPUs; the rest of `node_cost` is unallocated.
    """

    node_cost: Decimal
    cost: Decimal
    gpu_hours: float
    allocated_gpu_hours: float
    node_hours: float
    by_workload: dict[Workload, Decimal] = field(default_factory=dict)

    def of(self, owner: Workload | None) -> Decimal:
        """The cost of a workload; of None, of unallocated GPUs."""
        return self.by_workload.get(owner, NOTHING) if owner else self.node_cost - self.cost


# Spans [from_ms, to_ms), in order, in which every GPU of a pod was measured idle.
Idle = Mapping[PodKey, Sequence[Span]]


@frozen_dataclass
class Level:
    """The activity of a pod: shares 0-1 of a GPU, memory in MiB of one GPU (None: not collected).

    `hours` are pairs of an epoch hour and the highest 5-minute mean of the pod's busiest GPU in it; `high` is their maximum, and
    `high_memory_mib` the most memory of a GPU. `busy_devices` of the `devices` were ever active; `active_devices` were active or
    hold memory. `has_fixed_memory`: GPUs that hold memory hold the same at any load.
    """

    devices: int
    active_devices: int
    measured_hours: float
    mean: float
    high: float
    high_memory_mib: float | None = None
    hours: tuple[tuple[int, float], ...] = ()
    busy_devices: int = 0
    has_fixed_memory: bool = False


Levels = Mapping[PodKey, Level]


def idle_stretches(con: DuckDBPyConnection, metrics: Activity, period: Period, at_least_ms: int) -> Idle:
    """The spans of at least `at_least_ms` in which all GPUs of a pod of `period` were idle; from an attributed store."""
    load_activity(con, metrics)
    rows = read_idle(con, period, at_least_ms)
    return grouped(((row["cluster"], row["uid"]), (row["from_ms"], row["to_ms"])) for row in rows)


def levels(con: DuckDBPyConnection, metrics: Activity, period: Period) -> Levels:
    """The activity and memory of each measured pod in `period`; from an attributed store."""
    load_activity(con, metrics)
    return by_pod(read_levels(con, period))


def by_pod(rows: Iterable[dict[str, Any]]) -> Levels:
    """The levels of each pod, from their rows."""
    found = {}
    for row in rows:
        key = row.pop("cluster"), row.pop("uid")
        found[key] = Level(**row | {"hours": tuple(row["hours"])})
    return found


def is_batch(pod: Pod) -> bool:
    """Whether the pod ends when its work is done: a Job, CronJob, PyTorchJob, Workflow and the like."""
    kind = pod.workload.partition("/")[0]
    return kind.endswith("Job") or kind == "Workflow"


Row = Mapping[str, Any]


@frozen_dataclass
class Scope:
    """A part of the fleet; without names, all of it. Workloads are globs."""

    teams: Names = ()
    namespaces: Names = ()
    workloads: Names = ()
    clusters: Names = ()

    @property
    def is_narrowed(self) -> bool:
        """Whether it selects pods; a cluster includes nodes without pods."""
        return bool(self.teams or self.namespaces or self.workloads)

    def fits(self, owner: Workload) -> bool:
        """Whether it selects the workload; teams are not compared."""
        cluster, namespace, workload = owner
        return (
            (not self.clusters or cluster in self.clusters)
            and (not self.namespaces or namespace in self.namespaces)
            and (not self.workloads or any(is_fitting(workload, glob) for glob in self.workloads))
        )

    def __str__(self) -> str:
        named = [*self.teams, *self.namespaces, *self.workloads, *self.clusters]
        return ", ".join(named) or "the whole fleet"


def is_fitting(workload: str, glob: str) -> bool:
    """Whether the glob fits the workload, with or without its kind, or is its name."""
    names = workload, workload.partition("/")[2]
    return glob in names or any(fnmatchcase(name, glob) for name in names)


class Reported(NamedTuple):
    """The report's cost of usage: of held GPUs, and with unallocated and not collected time."""

    held_cost: Decimal
    cost: Decimal


class Usage(NamedTuple):
    """The fleet of a what-if, with the names of its period and scope: from the store, or described by options.

    `is_narrowed`: only some pods are selected; others pay for the rest of their nodes (`today_of`). `reported` is the report's
    cost of the store's usage; `others` are other pods on its nodes. Each node of a described fleet counts `times` times;
    `assumptions` list its options.
    """

    fleet: Fleet
    currency: str
    period_name: str
    scope_name: str
    is_narrowed: bool = False
    times: int = 1
    assumptions: Assumptions = ()
    reported: Reported | None = None
    others: tuple[Pod, ...] = ()
    commitments: Commitments = NO_COMMITMENTS

    @property
    def is_described(self) -> bool:
        """Whether options describe it; then its missing facts are given by options, too."""
        return bool(self.assumptions)


def read_stored(con: DuckDBPyConnection, period: Period, scope: Scope, period_name: str = "") -> Usage:
    """The usage of the scope in a period with this name, from an attributed store, without its currency.

    Raises GpucostError without usage.
    """
    filters: dict[str, Names] = asdict(scope)
    start, end = period.span
    rows = read_usage(con, start, end, **filters)
    if not rows.nodes:
        raise nothing_used(con, start, end, period_name or str(period), **filters)
    return Usage(
        fleet_of(rows.nodes, rows.prices, rows.pods),
        "",
        period_name,
        str(scope),
        scope.is_narrowed,
        reported=Reported(*read_cost(con, start, end, **filters)),
        others=fleet_of(rows.nodes, (), rows.others).pods,
    )


def fleet_of(nodes: Iterable[Row], prices: Iterable[Row], pods: Iterable[Row]) -> Fleet:
    """The fleet of rows of the store's usage; a node that was not collected for a time becomes one node per part."""
    segments = grouped((price["node_id"], price) for price in prices)
    parts: dict[int, list[Node]] = defaultdict(list)
    taken: Counter[NodeKey] = Counter()
    for row in nodes:
        key = (row["cluster"], row["node"])
        taken[key] += 1
        name = row["node"] if taken[key] == 1 else f"{row['node']}#{taken[key]}"
        steps = tuple(price_steps(segments[row["node_id"]], row["from_ms"], row["to_ms"]))
        parts[row["node_id"]].append(
            Node(**_fields(Node, row) | {"name": name, "gpus": row["gpu_count"], "prices": steps})
        )
    held = []
    for row in pods:
        for part in parts[row["node_id"]]:
            if row["held_from_ms"] < part.to_ms and part.from_ms < row["held_to_ms"]:
                start, end = max(row["held_from_ms"], part.from_ms), min(row["held_to_ms"], part.to_ms)
                held.append(Pod(**_fields(Pod, row) | {"node": part.name, "from_ms": start, "to_ms": end}))
    return Fleet(tuple(chain.from_iterable(parts.values())), tuple(held))


def _fields(kind: Any, row: Row) -> dict[str, Any]:
    """The columns of the row that are fields of the class."""
    return {name: row[name] for name in kind.__slots__ if name in row}


def price_steps(
    segments: Iterable[Row], from_ms: int, to_ms: int, otherwise: Price = UNPRICED
) -> Iterator[Price]:
    """The steps of these segments in [from_ms, to_ms), at least one; `otherwise` is the price between them."""
    priced_until = from_ms
    for segment in segments:
        if segment["to_ms"] <= from_ms or to_ms <= segment["from_ms"]:
            continue
        if priced_until < segment["from_ms"]:
            yield replace(otherwise, from_ms=priced_until)
        as_of = segment["price_as_of"] and str(segment["price_as_of"])
        price, source = segment["price_per_hour"], segment["price_source"]
        yield Price(price, source, as_of, segment["from_ms"], segment["is_committed"])
        priced_until = segment["to_ms"]
    if priced_until < to_ms:
        yield replace(otherwise, from_ms=priced_until)
