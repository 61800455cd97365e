"""What the attributed store says was used in a period: nodes with their prices, and the pods asked for."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucost.errors import GpucostError
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from gpucost.config.model import Activity
    from gpucost.periods import Period


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
    """What the GPUs that each workload held came to: rows (cluster, namespace, workload, cost)."""
    return sqlfiles.run(con, "fleet_workloads").fetchall()


Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UsageRows:
    """Rows as the SQL of `usage_*.sql` names their columns. A node that was not collected for a while has several rows."""

    nodes: list[Row]
    prices: list[Row]
    pods: list[Row]


def read_usage(
    con: duckdb.DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    *,
    teams: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    workloads: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> UsageRows:
    """What was used in [from_ms, to_ms). Without filters all nodes, those on which nothing ran too. Makes temporary tables."""
    period: dict[str, object] = {"from_ms": from_ms, "to_ms": to_ms}
    filters = {"teams": list(teams), "namespaces": list(namespaces), "workloads": list(workloads), "clusters": list(clusters)}
    sqlfiles.run(con, "usage_teams", period)
    sqlfiles.run(con, "usage_pods", period | filters)
    narrowed = period | {"all_nodes": not any(filters.values())}
    return UsageRows(
        nodes=_rows(sqlfiles.run(con, "usage_nodes", narrowed)),
        prices=_rows(sqlfiles.run(con, "usage_prices", narrowed)),
        pods=_rows(con.execute("FROM usage_pods ORDER BY cluster, uid, held_from_ms")),
    )


def _rows(answer: duckdb.DuckDBPyConnection) -> list[Row]:
    columns = [str(column[0]) for column in answer.description or []]
    return [dict(zip(columns, values, strict=True)) for values in answer.fetchall()]


_DIMENSIONS = ("team", "namespace", "workload", "cluster")
_OFFERED = 5


def nothing_used(
    con: duckdb.DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    period_name: str,
    *,
    teams: Sequence[str] = (),
    namespaces: Sequence[str] = (),
    workloads: Sequence[str] = (),
    clusters: Sequence[str] = (),
) -> GpucostError:
    """The error for filters that leave nothing of [from_ms, to_ms): the first name that nobody had, and the ones most like it.

    Workloads may be named without their kind. Patterns are taken to fit.
    """
    rows = sqlfiles.run(con, "usage_names", {"from_ms": from_ms, "to_ms": to_ms}).fetchall()
    if not rows:
        return GpucostError(f"nothing held GPUs in {period_name}", "gpucost report shows the newest month with data")
    for position, (dimension, asked) in enumerate(zip(_DIMENSIONS, (teams, namespaces, workloads, clusters), strict=True)):
        names = sorted({str(row[position]) for row in rows})
        known = {*names, *(name.partition("/")[2] for name in names)} if dimension == "workload" else set(names)
        for name in asked:
            if name not in known and "*" not in name:
                offered = [one for one in names if one.partition("/")[2] == name]
                offered = offered or difflib.get_close_matches(name, names, _OFFERED, 0.5) or names[:_OFFERED]
                return GpucostError(
                    f"no {dimension} {name!r} held GPUs in {period_name}", f"name one that did: {', '.join(offered)}"
                )
    named = ", ".join([*teams, *namespaces, *workloads, *clusters])
    return GpucostError(f"nothing in {period_name} was used by {named}", "gpucost report --by workload shows who used what")


# dcgm-exporter's used frame buffer, in MiB; not every exporter is set to tell it
MEMORY_METRIC = "DCGM_FI_DEV_FB_USED"


def read_idle(con: duckdb.DuckDBPyConnection, metrics: Activity, period: Period, at_least_ms: int) -> list[Row]:
    """Rows (cluster, uid, from_ms, to_ms): stretches of at least `at_least_ms` in which every GPU of a pod was measured idle.

    Only devices that the exporter labels with their pod are known. Makes temporary tables.
    """
    load_devices(con, metrics, period)
    sqlfiles.run(con, "activity_runs")
    return _rows(sqlfiles.run(con, "activity_idle", {"at_least_ms": at_least_ms}))


def read_levels(con: duckdb.DuckDBPyConnection, metrics: Activity, period: Period) -> list[Row]:
    """One row per measured pod, as activity_levels.sql names its columns. Makes temporary tables."""
    load_devices(con, metrics, period)
    return _rows(sqlfiles.run(con, "activity_levels"))


def load_devices(con: duckdb.DuckDBPyConnection, metrics: Activity, period: Period) -> None:
    """Make the temporary table activity_devices: which series tell of which pods of `period`."""
    sqlfiles.run(
        con,
        "activity_devices",
        {
            "from_ms": period.start_ms,
            "to_ms": period.end_ms,
            "device": metrics.device_metric.lower(),
            "device_scale": metrics.device_scale,
            "mig": metrics.mig_metric.lower(),
            "mig_scale": metrics.mig_scale,
            "memory": MEMORY_METRIC.lower(),
        },
    )
