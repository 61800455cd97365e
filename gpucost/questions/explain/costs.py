"""The cost of a team, namespace or workload, down to pods, nodes, prices and bill rows."""

from collections import defaultdict
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from gpucost.config.model import Config
from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.errors import GpucostError
from gpucost.inventory import load_activity
from gpucost.periods import Period, from_ms
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import ZERO, check_names, in_hours, prepare
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.shapes import Shape
from gpucost.store.usage import load_devices


@frozen_dataclass
class WorkloadCost:
    """The usage and cost of a workload on one node."""

    cluster: str
    namespace: str
    workload: str
    node: str
    allocated_gpu_hours: float
    cost: Decimal
    estimated_cost: Decimal
    price_sources: list[str]


@frozen_dataclass
class PodCost(Shape):
    """The time of a pod on a node in the period, its devices and its cost.

    `devices` are the UUIDs in metrics, with /instance appended for a MIG slice.
    """

    start: datetime
    end: datetime
    cluster: str
    namespace: str
    pod: str
    uid: str
    node: str
    gpus: float
    devices: list[str]
    allocated_gpu_hours: float
    active_gpu_hours: float
    idle_gpu_hours: float
    unmeasured_gpu_hours: float
    cost: Decimal


@frozen_dataclass
class NodePrice(Shape):
    """An interval at one price per hour of the whole node."""

    start: datetime
    end: datetime
    price_per_hour: Decimal
    price_source: str
    price_as_of: date | None


@frozen_dataclass
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


@frozen_dataclass
class BilledMachine:
    """The charges of a node's machine that overlap the period: totals and the first rows.

    `pooled_cost` is the cost of its hours at the mean price of the machines that share commitments with it.
    `discount_cost`, below 0 and part of `cost`, is the sum of discount rows; `first_discount_rows` names the first as
    file:row. `more_rows` counts the rows after the first; their cost and `discount_cost` are in `more_cost`, which
    adds up to `cost`.
    """

    instance_key: str
    is_scale_set: bool
    rows: int
    instance_hours: float
    cost: Decimal | None
    pooled_cost: Decimal
    discount_cost: Decimal
    discount_rows: int
    first_discount_rows: list[str]
    first_rows: list[BillRow]
    more_rows: int
    more_cost: Decimal | None


@frozen_dataclass
class NodeCost:
    """A node and the shares of its cost: they add up to node_cost, like the sums by price source."""

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
    prices: list[NodePrice]
    bill: list[BilledMachine]


@frozen_dataclass
class CostExplained(Shape):
    """The answer. Costs are in `currency`, the most expensive first.

    The costs of workloads, of nodes and of pods each add up to `cost`.
    """

    period: Period
    period_name: str
    currency: str
    cost_basis: str
    allocated_gpu_hours: float
    cost: Decimal
    estimated_cost: Decimal
    workloads: list[WorkloadCost]
    nodes: list[NodeCost]
    pods: list[PodCost]

    HIDDEN = ("period_name",)


@frozen_dataclass
class TeamExplained(Shape):
    """The output of `gpucost explain team`: the team and the answer."""

    team: str
    answer: CostExplained

    FLAT = ("answer",)


@frozen_dataclass
class NamespaceExplained(Shape):
    """The output of `gpucost explain namespace`: the namespace and the answer."""

    namespace: str
    answer: CostExplained

    FLAT = ("answer",)


@frozen_dataclass
class WorkloadExplained(Shape):
    """The output of `gpucost explain workload`: the workload and the answer."""

    workload: str
    answer: CostExplained

    FLAT = ("answer",)


def explain_cost(con: DuckDBPyConnection, config: Config, query: Query, most_rows: int) -> CostExplained:
    """The cost of the query's teams, namespaces and workloads, with the first `most_rows` charges per machine.

    Works on a read-only connection; makes temporary tables. Raises GpucostError if a filter matches nothing.
    """
    prepare(con, query, config.tz)
    check_names(con, query)
    workloads = [
        WorkloadCost(**in_hours(row)) for row in answer_rows(con, "gpucost.questions.explain", "10_workloads")
    ]
    if not workloads:
        raise GpucostError(
            f"no data for {query.period_name}", "gpucost report shows the newest month with data"
        )
    bounds = query.period.bounds
    prices = grouped(
        (row.pop("node_id"), NodePrice(**_with_instants(row))) for row in dicts(con.execute(_PRICES, bounds))
    )
    bills = _bills(con, bounds, most_rows)
    nodes = []
    for row in map(in_hours, answer_rows(con, "gpucost.questions.explain", "20_nodes")):
        node_id = row.pop("node_id")
        nodes.append(NodeCost(**row, prices=prices[node_id], bill=bills[node_id]))
    load_activity(con, config.activity)
    load_devices(con, query.period)
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
        pods=[
            PodCost(**in_hours(_with_instants(row)))
            for row in answer_rows(con, "gpucost.questions.explain", "70_pods", bounds)
        ],
    )


# The prices of the selected pods' nodes during the time that they count: collected time, and billed time beyond it.
_PRICES = """
SELECT p.node_id, greatest(p.from_ms, c.from_ms, $from_ms) AS from_ms, least(p.to_ms, c.to_ms, $to_ms) AS to_ms,
    p.price_per_hour, p.price_source, p.price_as_of
FROM node_prices AS p JOIN (
    SELECT node_id, c.from_ms, least(c.to_ms, up_to_ms) AS to_ms, true AS seen FROM nodes JOIN collected AS c USING (cluster)
    UNION ALL
    SELECT node_id, from_ms, to_ms, false FROM nodes JOIN coverage_gaps USING (cluster) WHERE kind = 'not_collected'
) AS c ON c.node_id = p.node_id AND (c.seen OR p.price_source = 'bill')
    AND greatest(p.from_ms, c.from_ms, $from_ms) < least(p.to_ms, c.to_ms, $to_ms)
SEMI JOIN (FROM cost_rows WHERE kind = 'allocated') AS f ON f.node_id = p.node_id ORDER BY p.node_id, p.from_ms, c.from_ms"""


def _bills(con: DuckDBPyConnection, bounds: dict[str, int], most_rows: int) -> dict[int, list[BilledMachine]]:
    run_stage(con, "gpucost.questions.explain", "40_bill_rows", bounds)
    con.execute(
        "SELECT * EXCLUDE (machine, number) FROM explained_bill_rows WHERE number <= $1 ORDER BY number",
        [most_rows],
    )
    first = grouped((row.pop("instance_key"), BillRow(**_with_instants(row))) for row in dicts(con))
    bills: dict[int, list[BilledMachine]] = defaultdict(list)
    for row in answer_rows(
        con, "gpucost.questions.explain", "50_billed_machines", bounds | {"most": most_rows}
    ):
        node_id = row.pop("node_id")
        key = row.pop("instance_key")
        bills[node_id].append(
            BilledMachine(instance_key=row.pop("machine") or key, first_rows=first[key], **row)
        )
    return bills


def _with_instants(row: dict[str, Any]) -> dict[str, Any]:
    start = from_ms(row.pop("from_ms"))
    end = from_ms(row.pop("to_ms"))
    return row | {"start": start, "end": end}
