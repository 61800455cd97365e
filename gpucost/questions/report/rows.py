"""Read the attributed tables: sums by dimension, as rows with the derived ratios."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, replace
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpucost.engine import dicts, run_stage
from gpucost.errors import GpucostError
from gpucost.options import Names
from gpucost.periods import Period, TimeBucket, is_whole_days, time_buckets, within
from gpucost.questions.report import labels
from gpucost.questions.report.query import Query, filters
from gpucost.records import frozen_dataclass, grouped
from gpucost.render.view import Measures, NodeTotals, NotCollected, Row, Unallocated, hours, ratio
from gpucost.store import sqlfiles
from gpucost.store.usage import unknown_name

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PACKAGE = "gpucost.questions.report"
NO_PRICE = "none"
ZERO = Decimal(0)
MICRO = Decimal("0.000000001")
# in row order
KINDS = ("allocated", "unallocated", "not_collected", "api", "shared")
ALL = 2**62


@frozen_dataclass
class PricedNodes:
    """Capacity and cost of the nodes priced from one source, and the oldest price date."""

    source: str
    capacity_gpu_ms: float
    over_allocated_gpu_ms: float
    node_cost: Decimal
    as_of: date | None


def in_hours(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert x_gpu_ms to x_gpu_hours, rounded to 9 decimals."""
    return {
        name.replace("gpu_ms", "gpu_hours"): hours(value) if name.endswith("gpu_ms") else value
        for name, value in row.items()
    }


def keys_of(sums: Mapping[str, Any], by: Sequence[str]) -> dict[str, str | None]:
    """The values of the dimensions `by`, from a row with the columns of the macro `dimensions`."""
    found = sums["labels"]
    if not found:
        return {name: sums[name] for name in by}
    return {name: sums[name] if name in sums else found[at] for at, name in enumerate(by)}


# The period cut into the requested local months, days or hours.
_TIME_BUCKETS = """
CREATE OR REPLACE TEMP TABLE time_buckets AS
SELECT unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms,
    unnest($month::VARCHAR[]) AS month, unnest($day::VARCHAR[]) AS day, unnest($hour::VARCHAR[]) AS hour"""


def cut(
    con: DuckDBPyConnection,
    period: Period,
    parts: Sequence[TimeBucket],
    *,
    by_day: bool,
    each_team: bool = False,
) -> None:
    """Make time_buckets from the period's parts, and set the variables of views and queries.

    These are the period's bounds, whether daily sums suffice, whether there are several parts, and whether each team
    has a report of its own.
    """
    sqlfiles.run(con, "filters")
    con.execute(
        _TIME_BUCKETS,
        {
            name: [getattr(part, name) for part in parts]
            for name in ("from_ms", "to_ms", "month", "day", "hour")
        },
    )
    con.execute("SET VARIABLE report_from_ms = $1::BIGINT", [period.start_ms])
    con.execute("SET VARIABLE report_to_ms = $1::BIGINT", [period.end_ms])
    con.execute("SET VARIABLE report_by_day = $1::BOOLEAN", [by_day])
    con.execute("SET VARIABLE report_is_cut = $1::BOOLEAN", [len(parts) > 1])
    con.execute("SET VARIABLE report_each_team = $1::BOOLEAN", [each_team])


def cut_by(
    con: DuckDBPyConnection, query: Query, tz: ZoneInfo, by: Names, *, each_team: bool = False
) -> None:
    """Cut the query's period as the dimensions `by` and changes of labels require. Makes label_spans, too."""
    teams = [team for team, _ in query.top_teams]
    tops = [top for _, top in query.top_teams]
    con.execute("SET VARIABLE top_teams = map($1::VARCHAR[], $2::VARCHAR[])", [teams, tops])
    con.execute("SET VARIABLE filters = $1", [filters(query)])
    by_day = is_whole_days(query.period, tz) and "hour" not in by
    cut(con, query.period, time_buckets(query.period, tz, by), by_day=by_day, each_team=each_team)
    if changes := labels.prepare(con, query, by):
        parts = time_buckets(query.period, tz, by, changes)
        cut(con, query.period, parts, by_day=False, each_team=each_team)


# The cells and nodes of the period, by day if the query needs whole local days only: the sums are the same. Views,
# because cells are many and most reports read them once.
_COST_CELLS = """
CREATE OR REPLACE TEMP VIEW report_cost_cells AS
SELECT * FROM cost_daily
WHERE getvariable('report_by_day') AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms')
UNION ALL BY NAME
FROM hourly_costs(getvariable('report_from_ms'), getvariable('report_to_ms')) WHERE NOT getvariable('report_by_day')"""
_NODE_CELLS = """
CREATE OR REPLACE TEMP VIEW report_node_cells AS
SELECT * FROM node_daily
WHERE getvariable('report_by_day') AND from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms')
UNION ALL BY NAME
FROM hourly_node_costs(getvariable('report_from_ms'), getvariable('report_to_ms')) WHERE NOT getvariable('report_by_day')"""


def prepare(con: DuckDBPyConnection, query: Query, tz: ZoneInfo, *, each_team: bool = False) -> None:
    """Make the tables and views for the query's period.

    These are time_buckets, label_spans, report_cost_cells, report_node_cells and cost_rows.
    """
    cut_by(con, query, tz, query.dimensions, each_team=each_team)
    con.execute(_COST_CELLS)
    con.execute(_NODE_CELLS)
    run_stage(con, PACKAGE, "20_cost_rows", {"by": list(query.dimensions)})


# The part of a report: a team if each has a report of its own, otherwise None.
Part = str | None


def in_parts(answer: Iterable[dict[str, Any]]) -> dict[Part, list[dict[str, Any]]]:
    """Group rows by `part` and remove that key."""
    return grouped((row.pop("part"), row) for row in answer)


def rows_by(con: DuckDBPyConnection, bys: Sequence[tuple[Sequence[str], int]]) -> list[dict[Part, list[Row]]]:
    """The rows for each list of dimensions, up to its limit.

    Allocated rows by cost descending, then keys; then unallocated and not collected rows.
    """
    found: list[dict[Part, list[Row]]] = [defaultdict(list) for _ in bys]
    lists = {"bys": [list(by) for by, _ in bys], "most": [most for _, most in bys]}
    answer = run_stage(con, PACKAGE, "30_rows", lists)
    columns = [column[0] for column in answer.description or []]
    while some := answer.fetchmany(_AT_ONCE):
        for values in some:
            sums = dict(zip(columns, values, strict=True))
            place = sums["place"] - 1
            found[place][sums["part"]].append(_row(sums, bys[place][0]))
    for parts in found:
        for rows in parts.values():
            rows.sort(
                key=lambda row: (
                    KINDS.index(row.kind),
                    -row.measures.cost,
                    [(key is None, key or "") for key in row.keys.values()],
                )
            )
    return found


_AT_ONCE = 10_000


def _row(sums: Mapping[str, Any], by: Sequence[str]) -> Row:
    kind = sums["kind"]
    measured = sums["active_gpu_ms"] + sums["idle_gpu_ms"]
    measures = Measures(
        hours(sums["allocated_gpu_ms"]),
        hours(sums["active_gpu_ms"]),
        hours(sums["idle_gpu_ms"]),
        hours(sums["unmeasured_gpu_ms"]),
        hours(sums["spot_gpu_ms"]),
        sums["cost"],
        sums["idle_cost"],
        sums["spot_cost"],
        sums["estimated_cost"],
        spot_ratio=ratio(sums["spot_gpu_ms"], sums["known_capacity_gpu_ms"]),
        efficiency=ratio(sums["active_gpu_ms"], measured),
        measured_ratio=ratio(measured, sums["allocated_gpu_ms"]),
        avg_utilization=ratio(sums["utilization_gpu_ms"], measured),
    )
    return Row(
        kind=kind,
        keys=keys_of(sums, by),
        measures=measures,
        unallocated=Unallocated(
            hours(sums["unallocated_gpu_ms"]), hours(sums["unavailable_gpu_ms"]), sums["unallocated_cost"]
        )
        if kind == "unallocated"
        else None,
        not_collected=NotCollected(hours(sums["not_collected_gpu_ms"]), sums["not_collected_cost"])
        if kind == "not_collected"
        else None,
    )


_COUNTS = """
SELECT part_of(team) AS part, count(DISTINCT (cluster, namespace, workload)) AS workloads,
    count(DISTINCT cluster) AS clusters, count(DISTINCT namespace) AS namespaces
FROM cost_rows WHERE kind = 'allocated' GROUP BY part"""


def workload_counts(con: DuckDBPyConnection) -> dict[Part, dict[str, int]]:
    """The numbers of workloads that held GPUs, and of their clusters and namespaces."""
    counts: dict[Part, dict[str, int]] = defaultdict(lambda: {"workloads": 0, "clusters": 0, "namespaces": 0})
    counts |= {part: row for part, (row,) in in_parts(dicts(con.execute(_COUNTS))).items()}
    return counts


def total(sums: Sequence[Row]) -> tuple[Measures, Unallocated, NotCollected]:
    """The sums over all rows that pass the filters. Estimated cost covers all kinds of rows."""
    measures = next((row.measures for row in sums if row.kind == "allocated"), NO_MEASURES)
    return (
        replace(measures, estimated_cost=sum((row.measures.estimated_cost for row in sums), ZERO)),
        next((row.unallocated for row in sums if row.unallocated), ALL_HELD),
        next((row.not_collected for row in sums if row.not_collected), ALL_COLLECTED),
    )


# By price source; node_cost over all sources is cost + unallocated_cost + not_collected_cost over cost_rows.
_NODES = """
SELECT NULL AS part, h.price_source AS source,
    sum(h.capacity_gpu_ms::DECIMAL(38, 6))::DOUBLE AS capacity_gpu_ms,
    sum(h.over_allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS over_allocated_gpu_ms,
    sum(h.node_cost) AS node_cost, min(h.price_as_of) AS as_of
FROM report_node_cells AS h JOIN nodes AS n USING (node_id)
WHERE passes($clusters, n.cluster)
GROUP BY h.price_source
ORDER BY h.price_source"""


def priced_nodes(con: DuckDBPyConnection, query: Query) -> dict[Part, list[PricedNodes]]:
    """Capacity and cost of nodes by price source: of all nodes, or of the selected pods' nodes."""
    if query.is_narrowed:
        run_stage(con, PACKAGE, "41_nodes_of_pods")
    else:
        con.execute(_NODES, {"clusters": list(query.clusters)})
    return grouped((row.pop("part"), PricedNodes(**row)) for row in dicts(con))


def node_totals(nodes: list[PricedNodes], unallocated: Unallocated, unseen: NotCollected) -> NodeTotals:
    """Capacity and cost of the nodes, over all price sources."""
    return NodeTotals(
        capacity_gpu_hours=hours(sum(node.capacity_gpu_ms for node in nodes)),
        over_allocated_gpu_hours=hours(sum(node.over_allocated_gpu_ms for node in nodes)),
        node_cost=sum((node.node_cost for node in nodes), ZERO),
        **asdict(unallocated),
        **asdict(unseen),
    )


def unpriced_ms(nodes: list[PricedNodes]) -> float:
    """GPU-milliseconds of nodes without a price."""
    return sum(node.capacity_gpu_ms for node in nodes if node.source == NO_PRICE)


_UNPRICED_GPUS = """
SELECT DISTINCT part_of(c.team) AS part, n.gpu_model, n.capacity_type
FROM report_cost_cells AS c
JOIN report_node_cells AS h USING (node_id, from_ms)
JOIN nodes AS n USING (node_id)
JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN label_spans AS l ON l.node_id = c.node_id AND l.allocation_id IS NOT DISTINCT FROM c.allocation_id
    AND l.from_ms <= c.from_ms AND c.from_ms < l.to_ms
WHERE h.price_source = 'none' AND c.allocated_gpu_ms > 0
    AND is_selected(n.cluster, a.namespace, c.team, a.workload, a."user", l.is_selected)"""


def unpriced_gpus(con: DuckDBPyConnection) -> dict[Part, list[tuple[str | None, str]]]:
    """The GPU models and capacity types with allocated GPU-hours that have no price."""
    answer = con.execute(_UNPRICED_GPUS).fetchall()
    return grouped((part, (model, capacity_type)) for part, model, capacity_type in answer)


NO_MEASURES = Measures(0.0, 0.0, 0.0, 0.0, 0.0, ZERO, ZERO, ZERO, ZERO, None, None, None, None)
ALL_HELD = Unallocated(0.0, 0.0, ZERO)
ALL_COLLECTED = NotCollected(0.0, ZERO)


def has_nodes(con: DuckDBPyConnection) -> bool:
    """Whether any nodes existed in the period, regardless of the filters."""
    return bool(con.execute("FROM report_node_cells LIMIT 1").fetchall())


def check_names(con: DuckDBPyConnection, query: Query, other_teams: Set[str] = frozenset()) -> None:
    """Raise GpucostError if a filter matches nothing. `other_teams` have no GPUs, but a share of costs."""
    if not has_nodes(con):
        return  # a period without data has its own message
    period, name = query.period, query.period_name
    if error := unknown_name(
        con, *period.span, name, query.filters, other_teams | query.relatives, patterns=False
    ):
        raise error
    if error := labels.unknown_value(con, query):
        raise error
    if not con.execute("FROM cost_rows LIMIT 1").fetchall() and other_teams.isdisjoint(query.teams):
        raise GpucostError(
            f"the filters match nothing together {within(name)}", "leave out one of the filters"
        )
