"""The cost of fleets by the attribution stages in an empty store; what-ifs multiply instead and must agree."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from duckdb import DuckDBPyConnection

from gpucost import attribute as attribution, inventory
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import scratch_store
from gpucost.whatif.fleet import Costs, Fleet

_NODES = """
INSERT INTO nodes BY NAME
SELECT unnest($id::UBIGINT[]) AS node_id, unnest($cluster::VARCHAR[]) AS cluster, unnest($node::VARCHAR[]) AS node,
    unnest($from_ms::BIGINT[]) AS up_from_ms, unnest($to_ms::BIGINT[]) AS up_to_ms, unnest($gpus::DOUBLE[]) AS gpu_count,
    'on_demand' AS capacity_type"""
_PRICES = """
INSERT INTO node_prices BY NAME
SELECT unnest($id::UBIGINT[]) AS node_id, unnest($from_ms::BIGINT[]) AS from_ms, unnest($to_ms::BIGINT[]) AS to_ms,
    unnest($price::VARCHAR[])::DECIMAL(38, 9) AS price_per_hour, 'option' AS price_source, NULL AS price_as_of"""
_PODS = """
INSERT INTO allocations BY NAME
SELECT unnest($id::UBIGINT[]) AS allocation_id, unnest($node::UBIGINT[]) AS node_id, unnest($cluster::VARCHAR[]) AS cluster,
    unnest($namespace::VARCHAR[]) AS namespace, unnest($workload::VARCHAR[]) AS workload, unnest($uid::VARCHAR[]) AS uid,
    uid AS pod, unnest($gpus::DOUBLE[]) AS gpus, gpus AS units, 'nvidia_com_gpu' AS resource, 'Pod' AS workload_kind,
    unnest($from_ms::BIGINT[]) AS held_from_ms, unnest($to_ms::BIGINT[]) AS held_to_ms"""
_TEAMS = """
INSERT INTO allocation_teams BY NAME
SELECT allocation_id, 'team' AS team, 0 AS from_ms, 9223372036854775807 AS to_ms FROM allocations"""
_COLLECTED = (
    "INSERT INTO collected SELECT cluster, min(up_from_ms), max(up_to_ms) FROM nodes GROUP BY cluster"
)
_NODE_COSTS = "SELECT cluster, sum(node_cost), sum(capacity_gpu_ms) FROM node_daily JOIN nodes USING (node_id) GROUP BY ALL"
_HELD_COSTS = """
SELECT n.cluster, a.cluster, a.namespace, a.workload, sum(c.cost), sum(c.allocated_gpu_ms)
FROM cost_daily AS c JOIN allocations AS a USING (allocation_id) JOIN nodes AS n ON n.node_id = a.node_id GROUP BY ALL"""


def stage_costs(fleets: Sequence[Fleet]) -> list[Costs]:
    """Return the cost of each fleet. All are attributed together; the cluster of a fleet's nodes is its number."""
    with scratch_store() as con:
        inventory.declare(con)
        _load(con, fleets)
        con.execute("SET VARIABLE cost_basis = 'node'")
        attribution.stage(con, Config().tz, everything=True)
        nodes = {row[0]: row[1:] for row in con.execute(_NODE_COSTS).fetchall()}
        held = con.execute(_HELD_COSTS).fetchall()
    costs = []
    for number, fleet in enumerate(fleets):
        node_cost, capacity_ms = nodes.get(str(number), (Decimal(0), 0))
        rows = [row for row in held if row[0] == str(number)]
        cost = sum((row[4] for row in rows), Decimal(0))
        by_workload = {("default", row[2], row[3]): row[4] for row in rows}
        held_hours = round(sum(row[5] for row in rows) / MS_PER_HOUR, 9)
        hours = (
            round(capacity_ms / MS_PER_HOUR, 9),
            held_hours,
            round(sum(node.hours for node in fleet.nodes), 9),
        )
        costs.append(Costs(node_cost, cost, *hours, by_workload))
    return costs


def _load(con: DuckDBPyConnection, fleets: Sequence[Fleet]) -> None:
    """Fill nodes, node_prices, allocations, allocation_teams and collected."""
    nodes, prices, pods = [], [], []
    for number, fleet in enumerate(fleets):
        ids = {}
        for node in fleet.nodes:
            ids[node.key] = len(nodes)
            nodes.append((len(nodes), str(number), node.name, node.from_ms, node.to_ms, node.gpus))
            for price, start, end in node.steps:
                prices.append((ids[node.key], start, end, f"{price.per_node_hour:f}"))
        for pod in fleet.pods:
            names = (str(number), pod.namespace, pod.workload, pod.uid)
            pods.append((len(pods), ids[pod.place], *names, pod.gpus, pod.from_ms, pod.to_ms))
    for statement, rows in ((_NODES, nodes), (_PRICES, prices), (_PODS, pods)):
        # the parameters of a statement have the order of the rows' cells
        names = re.findall(r"\$(\w+)", statement)
        con.execute(statement, {name: [row[at] for row in rows] for at, name in enumerate(names)})
    con.execute(_TEAMS)
    con.execute(_COLLECTED)
