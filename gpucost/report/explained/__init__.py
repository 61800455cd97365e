"""From the figure of a team, namespace or workload down to the rows of bills: pods, nodes, their prices, the charges behind."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.errors import GpucostError
from gpucost.periods import Period, from_ms, within
from gpucost.price import explain
from gpucost.render.schema import Shape
from gpucost.render.view import hours
from gpucost.report.query import Query, nearest
from gpucost.report.rows import ZERO, check_names, prepare
from gpucost.store.usage import load_devices

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


@dataclass(frozen=True, slots=True)
class WorkloadCost:
    """What a workload held and cost on one node."""

    cluster: str
    namespace: str
    workload: str
    node: str
    allocated_gpu_hours: float
    cost: Decimal
    estimated_cost: Decimal
    price_sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodCost(Shape):
    """When a pod held GPUs of a node within the period, on which devices as far as metrics name them, and what that cost.

    `devices` are UUIDs, of a MIG slice with /instance behind.
    """

    start: datetime
    end: datetime
    cluster: str
    namespace: str
    pod: str
    uid: str
    node: str
    gpus: float
    devices: tuple[str, ...]
    allocated_gpu_hours: float
    active_gpu_hours: float
    idle_gpu_hours: float
    unmeasured_gpu_hours: float
    cost: Decimal


@dataclass(frozen=True, slots=True)
class NodePrice(Shape):
    """A stretch of time at one price per hour of the whole node."""

    start: datetime
    end: datetime
    price_per_hour: Decimal
    price_source: str
    price_as_of: date | None


@dataclass(frozen=True, slots=True)
class BillRow(Shape):
    """A charge: `effective_cost` in the bill's `currency`, `cost` in the report's."""

    start: datetime
    end: datetime
    provider: str
    billing_period: str
    source_file: str
    source_row: int
    description: str | None
    instance_hours: float | None
    effective_cost: Decimal
    currency: str
    cost: Decimal | None


@dataclass(frozen=True, slots=True)
class BilledMachine:
    """What bills say of a node's machine in the charge periods that touch the period: all of it, and its first rows.

    `pooled_cost` is what its hours come to at the price of the machines that it shares commitments with. `discount_cost`,
    below 0 and part of `cost`, is what rows of discounts took off; `first_discount_rows` names the first as file:row.
    `more_rows` are those besides the first rows; with these and `discount_cost`, `more_cost` adds up to `cost`.
    """

    instance_key: str
    is_scale_set: bool
    rows: int
    instance_hours: float
    cost: Decimal | None
    pooled_cost: Decimal
    discount_cost: Decimal
    discount_rows: int
    first_discount_rows: tuple[str, ...]
    first_rows: tuple[BillRow, ...]
    more_rows: int
    more_cost: Decimal | None


@dataclass(frozen=True, slots=True)
class NodeCost:
    """A node and who pays for it: its parts add up to node_cost, and so do the sums by price source."""

    cluster: str
    node: str
    machine_id: str | None
    instance_type: str | None
    capacity_type: str
    gpu_model: str | None
    gpu_count: float
    allocated_gpu_hours: float
    cost: Decimal
    estimated_cost: Decimal
    others_cost: Decimal
    unallocated_cost: Decimal
    not_collected_cost: Decimal
    node_cost: Decimal
    node_cost_by_price_source: dict[str, Decimal]
    prices: tuple[NodePrice, ...]
    bill: tuple[BilledMachine, ...]


@dataclass(frozen=True, slots=True)
class CostExplained(Shape):
    """The answer. Costs in `currency`, the dearest first; the workloads' add up to `cost`, and so do the nodes' and the pods'."""

    period: Period
    period_name: str
    currency: str
    cost_basis: str
    allocated_gpu_hours: float
    cost: Decimal
    estimated_cost: Decimal
    workloads: tuple[WorkloadCost, ...]
    nodes: tuple[NodeCost, ...]
    pods: tuple[PodCost, ...]

    FLAT = ("period",)
    HIDDEN = ("period_name",)


@dataclass(frozen=True, slots=True)
class Stage:
    """A file of the package, and what it decides."""

    decides: str
    file: str


@dataclass(frozen=True, slots=True)
class TeamExplained(Shape):
    """What `gpucost explain team` prints."""

    team: str
    answer: CostExplained
    stages: list[Stage]

    FLAT = ("answer",)


@dataclass(frozen=True, slots=True)
class NamespaceExplained(Shape):
    """What `gpucost explain namespace` prints."""

    namespace: str
    answer: CostExplained
    stages: list[Stage]

    FLAT = ("answer",)


@dataclass(frozen=True, slots=True)
class WorkloadExplained(Shape):
    """What `gpucost explain workload` prints."""

    workload: str
    answer: CostExplained
    stages: list[Stage]

    FLAT = ("answer",)


@dataclass(frozen=True, slots=True)
class NodeExplained(Shape):
    """What `gpucost explain node` prints: the winner's price, and all that fit."""

    node: explain.Node
    at: datetime
    currency: str
    price_per_hour: Decimal | None
    price_per_gpu_hour: Decimal | None
    price_source: str
    price_as_of: date | None
    candidates: tuple[explain.Candidate, ...]
    steps: tuple[explain.Step, ...]
    fix: str | None

    FLAT = ("node",)
    HIDDEN = ("node_id",)

    @classmethod
    def of(cls, answer: explain.NodePrice) -> NodeExplained:
        """The answer as it is printed."""
        price_source, as_of = next(((one.price_source, one.price_as_of) for one in answer.candidates), ("none", None))
        prices = answer.price_per_hour, answer.price_per_gpu_hour, price_source, as_of
        return cls(answer.node, answer.at, answer.currency, *prices, answer.candidates, answer.steps, answer.fix)


def explain_cost(
    con: DuckDBPyConnection, config: Config, query: Query, most_rows: int, workloads_asked: tuple[str, ...] = ()
) -> CostExplained:
    """Where the cost of the query's teams and namespaces comes from; of a machine's charges the first `most_rows`.

    `workloads_asked`, as Kind/name or by their names, narrow it to those.

    Works on a read-only connection; makes temporary tables. Raises GpucostError where a filter names nothing there is.
    """
    prepare(con, query, config.tz)
    check_names(con, query)
    if workloads_asked:
        _narrow(con, query, workloads_asked)
    workloads = tuple(
        WorkloadCost(
            cluster=row["cluster"],
            namespace=row["namespace"],
            workload=row["workload"],
            node=row["node"],
            allocated_gpu_hours=hours(row["gpu_ms"]),
            cost=row["cost"],
            estimated_cost=row["estimated_cost"],
            price_sources=tuple(row["price_sources"] or ()),
        )
        for row in answer_rows(con, __name__, "10_workloads")
    )
    if not workloads:
        raise GpucostError(f"there is no data for {query.period_name}", "gpucost report shows the newest month with data")
    bounds = {"from_ms": query.period.start_ms, "to_ms": query.period.end_ms}
    prices, bills = _prices(con, bounds), _bills(con, bounds, most_rows)
    nodes = tuple(
        NodeCost(
            cluster=row["cluster"],
            node=row["node"],
            machine_id=row["machine_id"],
            instance_type=row["instance_type"],
            capacity_type=row["capacity_type"],
            gpu_model=row["gpu_model"],
            gpu_count=row["gpu_count"],
            allocated_gpu_hours=hours(row["gpu_ms"]),
            cost=row["cost"],
            estimated_cost=row["estimated_cost"],
            others_cost=row["others_cost"],
            unallocated_cost=row["unallocated_cost"],
            not_collected_cost=row["not_collected_cost"],
            node_cost=row["node_cost"],
            node_cost_by_price_source={part["source"]: part["cost"] for part in row["by_source"]},
            prices=tuple(prices[row["node_id"]]),
            bill=tuple(bills[row["node_id"]]),
        )
        for row in answer_rows(con, __name__, "20_nodes")
    )
    return CostExplained(
        period=query.period,
        period_name=query.period_name,
        currency=config.currency,
        cost_basis=config.prices.cost_basis,
        allocated_gpu_hours=round(sum(row.allocated_gpu_hours for row in workloads), 9),
        cost=sum((row.cost for row in workloads), ZERO),
        estimated_cost=sum((row.estimated_cost for row in workloads), ZERO),
        workloads=workloads,
        nodes=nodes,
        pods=_pods(con, config, bounds, query),
    )


_ONLY_WORKLOADS = """
CREATE OR REPLACE TEMP TABLE report_facts AS
SELECT * FROM report_facts
WHERE list_contains($workloads::VARCHAR[], workload) OR list_contains($workloads::VARCHAR[], split_part(workload, '/', -1))"""


def _narrow(con: DuckDBPyConnection, query: Query, wanted: tuple[str, ...]) -> None:
    names = con.execute("SELECT DISTINCT workload FROM report_facts WHERE kind = 'allocated' ORDER BY workload").fetchall()
    there = [name for (name,) in names]
    for name in wanted:
        if there and name not in there and name not in {workload.rpartition("/")[2] for workload in there}:
            near = ", ".join(nearest(name, there)[:8])
            raise GpucostError(f"no workload {name!r} held GPUs {within(query.period_name)}", f"name one that did: {near}")
    con.execute(_ONLY_WORKLOADS, {"workloads": list(wanted)})


def _pods(con: DuckDBPyConnection, config: Config, bounds: dict[str, int], query: Query) -> tuple[PodCost, ...]:
    load_devices(con, config.activity, query.period)
    return tuple(
        PodCost(
            cluster=row["cluster"],
            namespace=row["namespace"],
            pod=row["pod"],
            uid=row["uid"],
            node=row["node"],
            start=from_ms(row["from_ms"]),
            end=from_ms(row["to_ms"]),
            gpus=row["gpus"],
            devices=tuple(row["devices"] or ()),
            allocated_gpu_hours=hours(row["allocated"]),
            active_gpu_hours=hours(row["active"]),
            idle_gpu_hours=hours(row["idle"]),
            unmeasured_gpu_hours=hours(row["unmeasured"]),
            cost=row["cost"],
        )
        for row in answer_rows(con, __name__, "70_pods", bounds)
    )


def _prices(con: DuckDBPyConnection, bounds: dict[str, int]) -> dict[int, list[NodePrice]]:
    found: dict[int, list[NodePrice]] = defaultdict(list)
    for row in answer_rows(con, __name__, "30_prices", bounds):
        segment = (from_ms(row["from_ms"]), from_ms(row["to_ms"]), row["price_per_hour"], row["price_source"], row["price_as_of"])
        found[row["node_id"]].append(NodePrice(*segment))
    return found


def _bills(con: DuckDBPyConnection, bounds: dict[str, int], most_rows: int) -> dict[int, list[BilledMachine]]:
    run_stage(con, __name__, "40_bill_rows", bounds)
    first: dict[str, list[BillRow]] = defaultdict(list)
    names: dict[str, str] = {}
    con.execute("FROM explained_bill_rows WHERE number <= $most ORDER BY instance_key, number", {"most": most_rows})
    for row in dicts(con):
        first[row["instance_key"]].append(_bill_row(row))
        names[row["instance_key"]] = row["machine"]
    found: dict[int, list[BilledMachine]] = defaultdict(list)
    for row in answer_rows(con, __name__, "50_billed_machines", bounds):
        shown = first[row["instance_key"]]
        costs = [one.cost for one in shown if one.cost is not None]
        is_known = row["cost"] is not None and len(costs) == len(shown)
        found[row["node_id"]].append(
            BilledMachine(
                instance_key=names.get(row["instance_key"], row["instance_key"]),
                is_scale_set=row["is_scale_set"],
                rows=row["rows"],
                instance_hours=round(row["instance_hours"], 9),
                cost=row["cost"],
                pooled_cost=row["pooled_cost"],
                discount_cost=row["discount_cost"],
                discount_rows=row["discount_rows"],
                first_discount_rows=tuple(row["first_discount_rows"]),
                first_rows=tuple(shown),
                more_rows=row["rows"] - len(shown),
                more_cost=row["cost"] - row["discount_cost"] - sum(costs, ZERO) if is_known else None,
            )
        )
    return found


def _bill_row(row: dict[str, Any]) -> BillRow:
    return BillRow(
        provider=row["provider"],
        billing_period=row["billing_period"],
        source_file=row["source_file"],
        source_row=row["source_row"],
        start=from_ms(row["from_ms"]),
        end=from_ms(row["to_ms"]),
        description=row["description"],
        instance_hours=row["instance_hours"],
        effective_cost=row["effective_cost"],
        currency=row["currency"],
        cost=row["cost"],
    )
