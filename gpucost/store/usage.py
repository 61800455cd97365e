"""Usage in a period from the attributed store: nodes with prices, and selected pods."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gpucost.engine import dicts
from gpucost.errors import GpucostError, StoreError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, iso, within
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store import sqlfiles

Row = dict[str, Any]


@frozen_dataclass
class UsageRows:
    """Rows with the columns of the statements below.

    A node that was not collected for a while has several rows.
    """

    nodes: list[Row]
    prices: list[Row]
    pods: list[Row]
    others: list[Row]


# one row per allocation: its team, or the last one if labels changed
_USAGE_TEAMS = """
CREATE OR REPLACE TEMP TABLE usage_teams AS
SELECT allocation_id, arg_max(team, from_ms) AS team
FROM cost_runs
WHERE allocation_id IS NOT NULL AND from_ms < $to_ms AND $from_ms < to_ms + (hours - 1) * 3600000
GROUP BY allocation_id"""
# workloads that write checkpoints: [[units]] resumes is set, or a pod's epochs continued the epochs of an
# earlier pod
_USAGE_RESUMED = """
CREATE OR REPLACE TEMP TABLE usage_resumed AS
WITH reached AS (
    SELECT a.cluster, a.namespace, a.workload, a.allocation_id, a.held_from_ms, bool_or(s.resumes) AS resumes,
        arg_min(v.value, v.at_ms) AS first_epoch, max(v.value) AS last_epoch
    FROM progress_series AS s
    JOIN allocations AS a ON a.pod = s.pod AND a.namespace = s.namespace AND a.cluster = coalesce(s.cluster, a.cluster)
    JOIN progress_values AS v ON v.series_id = s.series_id AND v.at_ms >= a.held_from_ms AND v.at_ms < a.held_to_ms
    WHERE s.unit = 'epoch'
    GROUP BY ALL
)
SELECT DISTINCT r.cluster, r.namespace, r.workload
FROM reached AS r LEFT JOIN reached AS e ON (e.cluster, e.namespace, e.workload) = (r.cluster, r.namespace, r.workload)
    AND e.held_from_ms < r.held_from_ms AND r.first_epoch BETWEEN 2 AND e.last_epoch + 1
WHERE r.resumes OR e.allocation_id IS NOT NULL"""
# workloads by globs of Kind/name or name
_USAGE_PODS = """
CREATE OR REPLACE TEMP TABLE usage_pods AS
SELECT a.* REPLACE (greatest(a.held_from_ms, $from_ms) AS held_from_ms, least(a.held_to_ms, $to_ms) AS held_to_ms), t.team,
    a.held_from_ms AS life_from_ms, a.held_to_ms AS life_to_ms,
    coalesce(w.workload_type, '') AS workload_type, r.workload IS NOT NULL AS resumes
FROM allocations AS a JOIN usage_teams AS t USING (allocation_id)
LEFT JOIN allocation_traits AS w USING (allocation_id)
LEFT JOIN usage_resumed AS r ON (r.cluster, r.namespace, r.workload) = (a.cluster, a.namespace, a.workload)
WHERE a.gpus > 0 AND a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms
    AND passes($clusters, a.cluster) AND passes($namespaces, a.namespace) AND passes($teams, t.team)
    AND fits_workload($workloads, a.workload)"""
_FITS_WORKLOAD = """
CREATE OR REPLACE TEMP MACRO fits_workload(globs, workload) AS len(globs::VARCHAR[]) = 0 OR len(list_filter(globs::VARCHAR[],
    lambda name: name IN (workload, split_part(workload, '/', 2))
    OR workload GLOB name OR split_part(workload, '/', 2) GLOB name)) > 0"""
# the collected parts of each node's life, without its stops; $all_nodes: also nodes without a selected pod
_USAGE_NODES = """
WITH lives AS (
    SELECT n.node_id, greatest(n.up_from_ms, c.from_ms, $from_ms) AS from_ms, least(n.up_to_ms, c.to_ms, $to_ms) AS to_ms
    FROM nodes AS n JOIN collected AS c USING (cluster)
    WHERE passes($clusters, n.cluster) AND ($all_nodes OR n.node_id IN (SELECT node_id FROM usage_pods))
),
running AS (
    SELECT l.node_id,
        unnest(list_prepend(l.from_ms, coalesce(list_sort(list(s.to_ms) FILTER (s.to_ms IS NOT NULL)), []))) AS from_ms,
        unnest(list_append(coalesce(list_sort(list(s.from_ms) FILTER (s.from_ms IS NOT NULL)), []), l.to_ms)) AS to_ms
    FROM lives AS l LEFT JOIN node_stops AS s ON s.node_id = l.node_id AND s.from_ms < l.to_ms AND l.from_ms < s.to_ms
    WHERE l.from_ms < l.to_ms
    GROUP BY l.node_id, l.from_ms, l.to_ms
)
SELECT n.node_id, n.cluster, n.node, n.gpu_count, r.from_ms, r.to_ms, n.capacity_type, n.provider, n.region,
    n.instance_type, n.gpu_model, has_users(n) AS has_users
FROM running AS r JOIN nodes AS n USING (node_id)
WHERE r.from_ms < r.to_ms
ORDER BY n.cluster, n.node, r.from_ms"""
# other pods on the nodes of the selected ones
_USAGE_OTHERS = """
SELECT a.* REPLACE (greatest(a.held_from_ms, $from_ms) AS held_from_ms, least(a.held_to_ms, $to_ms) AS held_to_ms), '' AS team,
    coalesce(w.workload_type, '') AS workload_type, false AS resumes
FROM allocations AS a SEMI JOIN usage_pods AS p USING (node_id) ANTI JOIN usage_pods AS o USING (allocation_id)
LEFT JOIN allocation_traits AS w USING (allocation_id)
WHERE a.gpus > 0 AND a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms
ORDER BY a.cluster, a.uid, a.held_from_ms"""
# the usage's cost as in the report: of pods, and with unallocated and not collected time
_USAGE_COST = """
SELECT coalesce(sum(c.cost * c.cells) FILTER (c.kind = 'allocated'), 0), coalesce(sum(c.cost * c.cells), 0)
FROM (
    SELECT *, greatest(0, least(hours, ($to_ms - to_ms) // 3600000 + 1)
        - greatest(0, ($from_ms - from_ms + 3599999) // 3600000))::BIGINT AS cells
    FROM cost_runs
    WHERE to_ms <= $to_ms AND from_ms + (hours - 1) * 3600000 >= $from_ms
) AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
WHERE passes($clusters, n.cluster) AND passes($namespaces, a.namespace) AND passes($teams, c.team)
    AND fits_workload($workloads, a.workload)"""
_USAGE_PRICES = """
SELECT node_id, from_ms, to_ms, price_per_hour, price_source, price_as_of,
    coalesce(purchase_option IN ('reserved', 'savings_plan', 'cud'), false) AS is_committed
FROM node_prices
WHERE from_ms < $to_ms AND $from_ms < to_ms AND ($all_nodes OR node_id IN (SELECT node_id FROM usage_pods))
ORDER BY node_id, from_ms"""


# filters of usage, in the order of _USAGE_NAMES
_FILTERS = ("teams", "namespaces", "workloads", "clusters")


def _names(filters: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The names of each filter; empty if it is not set."""
    return {name: list(filters.get(name, ())) for name in _FILTERS}


def read_usage(con: DuckDBPyConnection, from_ms: int, to_ms: int, **filters: Sequence[str]) -> UsageRows:
    """Usage in [from_ms, to_ms). Without a filter on pods, it includes nodes without pods.

    `filters` are teams, namespaces, workloads and clusters. Creates temporary tables.
    """
    period = {"from_ms": from_ms, "to_ms": to_ms}
    names = _names(filters)
    _make_macros(con)
    con.execute(_USAGE_TEAMS, period)
    con.execute(_USAGE_RESUMED)
    con.execute(_USAGE_PODS, period | names)
    narrowed = period | {"all_nodes": not any(names[name] for name in _FILTERS if name != "clusters")}
    return UsageRows(
        nodes=dicts(con.execute(_USAGE_NODES, narrowed | {"clusters": names["clusters"]})),
        prices=dicts(con.execute(_USAGE_PRICES, narrowed)),
        pods=dicts(con.execute("FROM usage_pods ORDER BY cluster, uid, held_from_ms")),
        others=dicts(con.execute(_USAGE_OTHERS, period)),
    )


def _make_macros(con: DuckDBPyConnection) -> None:
    sqlfiles.run(con, "filters")
    con.execute(_FITS_WORKLOAD)


def read_cost(
    con: DuckDBPyConnection, from_ms: int, to_ms: int, **filters: Sequence[str]
) -> tuple[Decimal, Decimal]:
    """The report's cost of [from_ms, to_ms) with these filters.

    The first is the cost of held GPUs, the second includes unallocated and not collected time.
    """
    _make_macros(con)
    params = {"from_ms": from_ms, "to_ms": to_ms, **_names(filters)}
    ((held, total),) = con.execute(_USAGE_COST, params).fetchall()
    return held, total


_OFFERED = 5
_USAGE_NAMES = """
SELECT DISTINCT c.team, a.namespace, a.workload, a.cluster, a."user"
FROM cost_runs AS c JOIN allocations AS a USING (allocation_id)
WHERE c.from_ms < $to_ms AND $from_ms < c.to_ms + (c.hours - 1) * 3600000
UNION
SELECT NULL, NULL, NULL, cluster, NULL FROM nodes WHERE up_from_ms < $to_ms AND $from_ms < up_to_ms"""


def nothing_used(
    con: DuckDBPyConnection, from_ms: int, to_ms: int, period_name: str, **filters: Sequence[str]
) -> GpucostError:
    """The error for filters without usage in [from_ms, to_ms)."""
    if error := unknown_name(con, from_ms, to_ms, period_name, filters):
        return error
    wanted = [name for names in _names(filters).values() for name in names]
    message = f"no usage {within(period_name)} by {', '.join(wanted)}"
    return GpucostError(message, "list users of GPUs: gpucost report --by workload")


def unknown_name(
    con: DuckDBPyConnection,
    from_ms: int,
    to_ms: int,
    period_name: str,
    filters: Mapping[str, Sequence[str]],
    other_teams: Collection[str] = (),
    *,
    patterns: bool = True,
) -> GpucostError | None:
    """The error for the first filter name that held no GPUs in [from_ms, to_ms).

    It lists the most similar names. Workloads may be named without their kind. With `patterns`, names with
    `*` always pass. Clusters whose nodes were up and `other_teams` also count as known.
    """
    rows = con.execute(_USAGE_NAMES, {"from_ms": from_ms, "to_ms": to_ms}).fetchall()
    if not rows:
        return GpucostError(
            f"no GPU was allocated {within(period_name)}", "gpucost report shows the newest month with data"
        )
    for place, dimension in enumerate((*_FILTERS, "users")):
        existing = {row[place] for row in rows}.union(other_teams if dimension == "teams" else ())
        names = sorted(existing - {None})
        for name in filters.get(dimension, ()):
            bare = [full_name for full_name in names if full_name.partition("/")[2] == name]
            if name in names or (patterns and "*" in name) or (bare and dimension == "workloads"):
                continue
            offered = bare or difflib.get_close_matches(name, names, _OFFERED, 0)
            message = f"no {dimension.removesuffix('s')} {name!r} held GPUs {within(period_name)}"
            return GpucostError(
                message,
                f"use a known name: {', '.join(offered)}" if offered else "list missing data: gpucost doctor",
            )
    return None


def read_idle(con: DuckDBPyConnection, period: Period, at_least_ms: int) -> list[Row]:
    """Intervals of at least `at_least_ms` with all GPUs of a pod idle: (cluster, uid, from_ms, to_ms).

    Only devices that the exporter labels with their pod count. Needs inventory's activity_series; creates
    temporary tables.
    """
    _load_whole_devices(con, period)
    return dicts(sqlfiles.run(con, "activity_idle", {"at_least_ms": at_least_ms}))


# A pod is measured if all of its devices are, as in activity_idle.sql.
_MEASURED = """
SELECT cluster, uid
FROM (
    SELECT a.*, d.device
    FROM activity_devices AS d JOIN allocations AS a USING (allocation_id) JOIN blocks AS b USING (series_id)
    WHERE d.kind = 'activity' AND b.hour >= greatest(d.held_from_ms, $from_ms) // 3600000
        AND b.hour <= (least(d.held_to_ms, $to_ms) - 1) // 3600000
)
GROUP BY allocation_id, cluster, uid
HAVING count(DISTINCT device) >= any_value(
    CASE WHEN contains(resource, '_mig_') THEN units WHEN gpus >= 1 THEN ceil(gpus - 1e-6) ELSE 1 END)"""


def read_measured(con: DuckDBPyConnection, period: Period) -> set[tuple[str, str]]:
    """Pods (cluster, uid) with measured activity in the period, among the pods of the last `read_idle`."""
    return set(con.execute(_MEASURED, period.bounds).fetchall())


def read_levels(con: DuckDBPyConnection, period: Period) -> list[Row]:
    """One row per measured pod, with the columns of activity_levels.sql; needs the same tables as `read_idle`."""
    _load_whole_devices(con, period)
    return levels_of(con, None)


def levels_of(con: DuckDBPyConnection, owners: Collection[tuple[str, str, str]] | None) -> list[Row]:
    """The rows of `read_levels` about the workloads `owners` (None: all), from the tables of `read_idle`."""
    names = None if owners is None else list(map(list, owners))
    answer = sqlfiles.run(con, "activity_levels", {"owners": names})
    return dicts(answer)


_DROPPED = """
SELECT max(b.hour)
FROM activity_devices AS d JOIN blocks AS b USING (series_id)
WHERE b.vals IS NULL AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000"""


def _load_whole_devices(con: DuckDBPyConnection, period: Period) -> None:
    """Call `load_devices`. Raise StoreError if samples of activity_devices were dropped."""
    load_devices(con, period)
    if (hour := sqlfiles.value(con, _DROPPED)) is not None:
        until = iso(from_ms((hour + 1) * MS_PER_HOUR))
        raise StoreError(
            f"samples before {until} were dropped (store.raw_retention_days)",
            f"name a period from {until} on",
        )


def load_devices(con: DuckDBPyConnection, period: Period) -> None:
    """Create activity_devices and activity_use from inventory's activity_series.

    They have the series and the use of pods' devices.
    """
    sqlfiles.run(con, "activity_devices", period.bounds)
    sqlfiles.run(con, "activity_use")
