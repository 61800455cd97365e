"""What a server does not export, and the setting that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.collect.needs import (
    ACTIVITY_LOST,
    ALLOW,
    DCGM_FIX,
    KSM,
    KSM_FIX,
    MIG_ACTIVITY_LOST,
    NAMESPACE_LABELS_FIX,
    NEEDS,
    NODE_LABELS,
    NODE_LABELS_FIX,
    NODE_LABELS_LOST,
    REQUESTS,
    mig_fix,
)
from gpucost.collect.result import Finding
from gpucost.model import from_ms, iso

if TYPE_CHECKING:
    from collections.abc import Callable

    import duckdb

    from gpucost.collect.result import CollectResult
    from gpucost.config import Activity

# Where there is kube-state-metrics, there is one of these, whatever runs.
_ALWAYS_THERE = ("kube_node_info", "kube_pod_info")


def findings(
    con: duckdb.DuckDBPyConnection,
    result: CollectResult,
    activity: Activity,
    data_from_ms: int | None,
    has_now: Callable[[str], bool],
) -> list[Finding]:
    """Metrics and labels that this run did not meet though a report needs them. Reads the dictionary of series.

    `data_from_ms` is where the source's data begins, as far as the store knows; `has_now` asks the server for a metric.
    """
    if not result.windows and result.failed_windows:
        return []
    source, seen = result.source, set(result.metrics)
    if not seen and not result.dropped and data_from_ms is not None and result.asked.end_ms <= data_from_ms:
        return [_before(source, data_from_ms)]

    def exists(*metrics: str) -> bool:
        """Is one of them there at other times? Then nothing has to be installed, only this time is lost."""
        return any(_ever(con, source, metric) for metric in metrics) or any(has_now(metric) for metric in metrics)

    found = [*_state_metrics(con, source, seen, exists), *_activity(con, result, activity, exists)]
    if "kube_namespace_labels" in seen and not _has_labels(con, source, "kube_namespace_labels"):
        found.append(Finding(
            "note", "namespace_labels_not_exported",
            f"{source}: kube_namespace_labels holds no label: teams cannot follow namespace labels", NAMESPACE_LABELS_FIX,
        ))  # fmt: skip
    if result.not_collected is not None and seen and not result.failed_windows:
        found.append(_before(source, result.not_collected.end_ms))
    found += [Finding("warning", "gap", f"{source}: {gap}") for gap in result.gaps]
    return found


def _before(source: str, data_from_ms: int) -> Finding:
    lost = f"{source} has nothing before {iso(from_ms(data_from_ms))}; that time is lost"
    return Finding("warning", "before_retention", lost, "collect every day, before the server forgets: the README says how")


def _state_metrics(con: duckdb.DuckDBPyConnection, source: str, seen: set[str], exists: Callable[..., bool]) -> list[Finding]:
    if not any(metric.startswith("kube_") for metric in seen):
        silent = f"{source} holds no sample of {KSM} in this period"
        if exists(*_ALWAYS_THERE):
            return [Finding("warning", "no_kube_state_metrics", f"{silent}, though at other times; that time is lost")]
        return [Finding("warning", "no_kube_state_metrics", silent, KSM_FIX)]
    # where nobody asks for a GPU, no pod is looked at
    looked_at = ("kube_",) if REQUESTS in seen else ("kube_node_",)
    found = [
        Finding("warning", f"missing_{need.metric}", f"{source} has no {need.metric}: {need.lost}", need.fix)
        for need in NEEDS
        if need.always and need.metric.startswith(looked_at) and need.metric not in seen
    ]
    if NODE_LABELS not in seen:
        missing = f"{source} has no {NODE_LABELS}: {NODE_LABELS_LOST}"
        found.append(Finding("warning", f"missing_{NODE_LABELS}", missing, NODE_LABELS_FIX))
    elif not _has_labels(con, source, NODE_LABELS):
        bare = f"{source}: {NODE_LABELS} holds no label: {NODE_LABELS_LOST}"
        found.append(Finding("warning", "node_labels_not_exported", bare, NODE_LABELS_FIX))
    if REQUESTS not in seen and _ever(con, source, REQUESTS):
        found.append(Finding("note", "no_gpu_requests", f"{source}: no pod asked for a GPU in this period"))
    elif REQUESTS not in seen:
        never = f"{source}: no pod has ever asked for a GPU ({REQUESTS} with a GPU resource)"
        found.append(Finding("warning", "no_gpu_requests", never, ALLOW))
    return found


def _activity(
    con: duckdb.DuckDBPyConnection, result: CollectResult, activity: Activity, exists: Callable[..., bool]
) -> list[Finding]:
    source, seen = result.source, set(result.metrics)
    dropped = {d.metric for d in result.dropped}
    device, mig = activity.device_metric, activity.mig_metric
    if not seen & {device, mig}:
        spoiled = sorted(dropped & {device, mig})
        if spoiled:
            return [Finding("warning", "activity_invalid", f"{source}: {' and '.join(spoiled)} held no valid sample")]
        if exists(device, mig):
            silent = f"{source} has neither {device} nor {mig} in this period, though at other times: {ACTIVITY_LOST}"
            return [Finding("warning", "no_activity", silent)]
        return [Finding("warning", "no_activity", f"{source} has neither {device} nor {mig}: {ACTIVITY_LOST}", DCGM_FIX)]
    if mig not in seen and _mig_is_used(con, source):
        return [Finding("warning", "no_mig_activity", f"{source} has no {mig}: {MIG_ACTIVITY_LOST}", mig_fix(mig))]
    return []


def _ever(con: duckdb.DuckDBPyConnection, source: str, metric: str) -> bool:
    rows = con.execute("SELECT 1 FROM series WHERE source = $1 AND metric = $2 LIMIT 1", [source, metric]).fetchall()
    return bool(rows)


def _has_labels(con: duckdb.DuckDBPyConnection, source: str, metric: str) -> bool:
    rows = con.execute(
        "SELECT 1 FROM series WHERE source = $1 AND metric = $2"
        " AND len(list_filter(map_keys(labels), lambda name: starts_with(name, 'label_'))) > 0 LIMIT 1",
        [source, metric],
    ).fetchall()
    return bool(rows)


def _mig_is_used(con: duckdb.DuckDBPyConnection, source: str) -> bool:
    rows = con.execute(
        "SELECT 1 FROM series WHERE source = $1 AND starts_with(labels['resource'], 'nvidia_com_mig_')"
        " AND metric IN ('kube_pod_container_resource_requests', 'kube_node_status_capacity') LIMIT 1",
        [source],
    ).fetchall()
    return bool(rows)
