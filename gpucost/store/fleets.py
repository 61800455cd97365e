"""A described fleet in the tables of a store: what collecting and pricing it would have left there, and what it came to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb


def put_fleet(con: duckdb.DuckDBPyConnection, tables: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
    """Fill nodes, node_prices, allocations, allocation_teams and collected.

    `tables` holds the columns of `nodes`, `prices`, `pods` and `teams`, as sql/fleet_*.sql bind them. Names of nodes are unique
    in a cluster.
    """
    for name, columns in tables.items():
        sqlfiles.run(con, f"fleet_{name}", columns)
    sqlfiles.run(con, "fleet_collected")


def cluster_costs(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """What each cluster came to: rows (cluster, node cost, cost, unallocated cost, GPU-ms offered, GPU-ms held, node-ms)."""
    return sqlfiles.run(con, "fleet_clusters").fetchall()


def workload_costs(con: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """What the GPUs that each workload held came to: rows (team, cluster, namespace, workload, cost)."""
    return sqlfiles.run(con, "fleet_workloads").fetchall()
