"""Labels as dimensions and filters of a report; see docs/labels.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpucost.engine import run_stage
from gpucost.errors import GpucostError
from gpucost.options import Names
from gpucost.periods import label_name, within
from gpucost.questions.report.query import LABEL, Query, filters, is_label, nearest
from gpucost.render.view import Notice
from gpucost.store.sqlfiles import column, value

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

PRIORITY_CLASS = "priority_class"
_OFFERED = 5
_INVENTORY = "gpucost.inventory"
# The stored nodes, as the stage of label_history reads them.
_STORED_NODES = """
CREATE OR REPLACE TEMP VIEW node_lifetimes AS SELECT node_id, cluster, node, up_from_ms, up_to_ms FROM nodes;
CREATE OR REPLACE TEMP VIEW plain_hosts AS FROM nodes WHERE labels['label_host'] = node"""
_NO_SPANS = """
CREATE OR REPLACE TEMP TABLE label_spans (
    node_id UBIGINT, allocation_id UBIGINT, labels MAP(VARCHAR, VARCHAR), from_ms BIGINT, to_ms BIGINT, is_selected BOOLEAN)"""
_EXPORTED = """
CREATE OR REPLACE TEMP TABLE exported_labels AS
SELECT DISTINCT cluster, unnest(map_keys(labels)) AS label FROM label_history"""
_NAMES = "SELECT DISTINCT label FROM exported_labels ORDER BY ALL"
# The hours at whose start a value in the period changes.
_CHANGES = """
SELECT DISTINCT from_ms FROM label_spans
WHERE from_ms > getvariable('report_from_ms') AND from_ms < getvariable('report_to_ms') ORDER BY ALL"""
_VALUES = """
SELECT DISTINCT labels[$1] FROM label_spans WHERE allocation_id IS NOT NULL AND labels[$1] IS NOT NULL ORDER BY ALL"""
# Clusters of Kubernetes with usage, but without the label. The filter of labels would leave them out.
_LACKING = """
SELECT DISTINCT a.cluster
FROM report_cost_cells AS c JOIN allocations AS a ON a.allocation_id = c.allocation_id
WHERE c.kind = 'allocated' AND passes($clusters, a.cluster) AND passes($namespaces, a.namespace) AND passes($teams, c.team)
    AND passes_workload($workloads, a.workload) AND passes($users, a."user")
    AND a.cluster IN (SELECT cluster FROM state_intervals WHERE metric = 'kube_pod_info')
    AND a.cluster NOT IN (SELECT cluster FROM exported_labels WHERE passes($spellings, label))
ORDER BY ALL"""
# Pods, namespaces and nodes with two values of a label.
_CONFLICTS = """
SELECT count(DISTINCT (cluster, metric, coalesce(uid, namespace, node))) FROM state_intervals
WHERE ends_with(metric, '_labels') AND labels[$1 || '_conflict1'] <> labels[$1 || '_conflict2']
    AND first_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') <= last_ms"""


def prepare(con: DuckDBPyConnection, query: Query, by: Names) -> list[int]:
    """Make the temporary table label_spans, and set report_has_labels. Return the hours, in milliseconds, at which
    a value changes.

    The table is empty if neither `by` nor a filter reads labels. Raises GpucostError for a label that is not exported.
    """
    wanted = _wanted(query, by)
    con.execute(_NO_SPANS)
    con.execute("SET VARIABLE report_has_labels = $1::BOOLEAN", [bool(wanted)])
    con.execute("SET VARIABLE report_by_label = $1::BOOLEAN", [bool(query.labels)])
    if not wanted:
        return []
    for stage in ("interface", "11_state_intervals", "12_pods_without_uid"):
        run_stage(con, _INVENTORY, stage)
    con.execute(_STORED_NODES)
    run_stage(con, _INVENTORY, "21_label_history")
    con.execute(_EXPORTED)
    exported = column(con, _NAMES)
    names = [_exported(name, exported) for name in wanted]
    columns = {"names": names, "dimensions": list(wanted), "wanted": list(wanted.values())}
    run_stage(con, __package__, "10_label_spans", columns)
    return column(con, _CHANGES)


def _wanted(query: Query, by: Names) -> dict[str, list[str]]:
    """The dimensions that are labels, each with the values that pass; empty means all."""
    found: dict[str, list[str]] = {}
    for name in by:
        if is_label(name) or name == PRIORITY_CLASS:
            found[name] = []
    for text in query.labels:
        name, _, passing = text.partition("=")
        found.setdefault(f"{LABEL}{name}", []).append(passing)
    return found


def _exported(dimension: str, exported: list[str]) -> list[str]:
    """The names of the label in the store. kube-state-metrics replaces characters, newer versions also capitals."""
    if dimension == PRIORITY_CLASS:
        return [dimension]
    name = dimension.removeprefix(LABEL)
    full = label_name(name)
    spellings = (full, re.sub("([a-z0-9])([A-Z])", r"\1_\2", full).lower(), name)
    if found := [each for each in dict.fromkeys(spellings) if each in exported]:
        return found
    message = f"label not exported: {name!r}"
    if exported:
        others = ", ".join(each.removeprefix("label_") for each in nearest(full, exported)[:_OFFERED])
        message += f"; exported labels are, for example, {others}"
    raise GpucostError(message, _allow(name))


def _allow(name: str) -> str:
    flag = f"kube-state-metrics --metric-labels-allowlist=pods=[{name}]"
    return f"{flag}, or namespaces=[{name}] or nodes=[{name}]"


def notices(con: DuckDBPyConnection, query: Query) -> list[Notice]:
    """Warn about labels that a cluster does not export, and labels that share a name in kube-state-metrics."""
    found = []
    for dimension in filter(is_label, _wanted(query, query.dimensions)):
        name = dimension.removeprefix(LABEL)
        spellings = _exported(dimension, column(con, _NAMES))
        if clusters := column(con, _LACKING, filters(query) | {"spellings": spellings}):
            text = f"label {name} is not exported in {', '.join(clusters)}: their usage is without it"
            found.append(Notice("label_not_exported", text, _allow(name)))
        for label in spellings:
            if count := value(con, _CONFLICTS, [label]):
                names = f"{label}_conflict1 and {label}_conflict2"
                text = f"{names} differ on {count:,} objects: Prometheus reads two labels as one, shown as unassigned"
                found.append(Notice("label_conflict", text, "remove one of the two labels"))
    return found


def unknown_value(con: DuckDBPyConnection, query: Query) -> GpucostError | None:
    """The error for the first value of a filter that no holder of GPUs has in the period."""
    for dimension, values in _wanted(query, ()).items():
        name = dimension.removeprefix(LABEL)
        existing = column(con, _VALUES, [dimension])
        for text in values:
            if text not in existing:
                offered = ", ".join(nearest(text, existing)[:_OFFERED])
                return GpucostError(
                    f"no pod with label {name}={text} held GPUs {within(query.period_name)}",
                    f"use an existing value: {offered}" if offered else "gpucost report --by workload",
                )
    return None
