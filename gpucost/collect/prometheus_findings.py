"""What a server did not answer with in a run, and what its clusters do not export: with the setting that mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.collect.needs import ACTIVITY_LOST, DCGM_FIX, KSM, KSM_FIX, REQUESTS, stored_needs
from gpucost.collect.result import Finding
from gpucost.model import from_ms, iso
from gpucost.store import missing

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
    """Metrics and labels that this run did not meet though a report needs them. Reads the stored series.

    `data_from_ms` is where the source's data begins, as far as the store knows; `has_now` asks the server for a metric.
    """
    if not result.windows and result.failed_windows:
        return []
    source, seen = result.source, set(result.metrics)
    if not seen and not result.dropped and data_from_ms is not None and result.asked.end_ms <= data_from_ms:
        return [_before(source, data_from_ms)]
    found = [*_silence(con, result, activity, has_now)]
    missing.look(con, stored_needs(activity.device_metric, activity.mig_metric))
    codes = {finding.code for finding in found}
    found += [
        Finding("note" if lack.level == "note" else "warning", lack.code, lack.message, lack.fix)
        for lack in missing.of_source(con, source, result.asked)
        if lack.code not in codes
    ]
    if result.not_collected is not None and seen and not result.failed_windows:
        found.append(_before(source, result.not_collected.end_ms))
    return found


def _before(source: str, data_from_ms: int) -> Finding:
    lost = f"{source} has nothing before {iso(from_ms(data_from_ms))}; that time is lost"
    return Finding("warning", "before_retention", lost, "collect every day, before the server forgets: the README says how")


def _silence(
    con: duckdb.DuckDBPyConnection, result: CollectResult, activity: Activity, has_now: Callable[[str], bool]
) -> list[Finding]:
    """Exporters of which the server told nothing in this run, and whether they are to be installed or this time alone is lost."""
    source, seen = result.source, set(result.metrics)
    found = []

    def at_other_times(*metrics: str) -> bool:
        return any(_ever(con, source, metric) for metric in metrics) or any(has_now(metric) for metric in metrics)

    if not any(metric.startswith("kube_") for metric in seen):
        silent = f"{source} holds no sample of {KSM} in this period"
        if at_other_times(*_ALWAYS_THERE):
            found.append(Finding("warning", "no_kube_state_metrics", f"{silent}, though at other times; that time is lost"))
        else:
            found.append(Finding("warning", "no_kube_state_metrics", silent, KSM_FIX))
    elif REQUESTS not in seen and _ever(con, source, REQUESTS):
        found.append(Finding("note", "no_gpu_requests", f"{source}: no pod asked for a GPU in this period"))
    metrics = {activity.device_metric, activity.mig_metric}
    if not seen & metrics:
        neither = f"{source} has neither {activity.device_metric} nor {activity.mig_metric}"
        spoiled = sorted(metrics & {dropped.metric for dropped in result.dropped})
        if spoiled:
            found.append(Finding("warning", "activity_invalid", f"{source}: {' and '.join(spoiled)} held no valid sample"))
        elif at_other_times(activity.device_metric, activity.mig_metric):
            lost = f"{neither} in this period, though at other times: {ACTIVITY_LOST}"
            found.append(Finding("warning", "no_activity", lost))
        else:
            found.append(Finding("warning", "no_activity", f"{neither}: {ACTIVITY_LOST}", DCGM_FIX))
    return found


def _ever(con: duckdb.DuckDBPyConnection, source: str, metric: str) -> bool:
    rows = con.execute("SELECT 1 FROM series WHERE source = $1 AND metric = $2 LIMIT 1", [source, metric]).fetchall()
    return bool(rows)
