"""What a server does not export, and the setting that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.collect.result import Finding

if TYPE_CHECKING:
    import duckdb

    from gpucost.collect.result import CollectResult
    from gpucost.config import Activity

NODE_LABELS = (
    "node.kubernetes.io/instance-type", "topology.kubernetes.io/region", "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type", "eks.amazonaws.com/capacityType", "cloud.google.com/gke-spot",
    "cloud.google.com/gke-gpu-partition-size", "cloud.google.com/gke-max-shared-clients-per-gpu",
    "kubernetes.azure.com/scalesetpriority", "nvidia.com/gpu.product", "nvidia.com/gpu.count", "nvidia.com/gpu.replicas",
    "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig.strategy",
)  # fmt: skip

_ALLOW_NODES = f"kube-state-metrics: --metric-labels-allowlist=nodes=[{','.join(NODE_LABELS)}]"
_ALLOW_NAMESPACES = "kube-state-metrics: --metric-labels-allowlist=namespaces=[team]"


@dataclass(frozen=True, slots=True)
class _Needed:
    metric: str
    without: str
    fix: str


def _ksm(metric: str, without: str) -> _Needed:
    return _Needed(metric, without, f"kube-state-metrics must export it (--metric-allowlist), and Prometheus keep it: {metric}")


_NODE_METRICS = [
    _ksm("kube_node_info", "nodes cannot be told apart when a name is used again"),
    _ksm("kube_node_created", "a node counts only from its first sample"),
    _Needed("kube_node_labels", "instance types, zones and capacity types are unknown, and so are list prices", _ALLOW_NODES),
    _ksm("kube_node_status_capacity", "the number of GPUs per node must come from labels or the exporter"),
]
_POD_METRICS = [
    _ksm("kube_pod_info", "no pod can be found on its node"),
    _ksm("kube_pod_status_phase", "the end of a pod is its last sample, so finished jobs seem to go on"),
    _ksm("kube_pod_status_scheduled_time", "a pod's beginning is its start time or first sample: image pulls are missed"),
    _ksm("kube_pod_owner", "pods are not gathered into workloads"),
]


def findings(con: duckdb.DuckDBPyConnection, result: CollectResult, activity: Activity) -> list[Finding]:
    """Metrics and labels that this run did not meet though a report needs them. Reads the dictionary of series."""
    if not result.windows and result.failed_windows:
        return []
    source, seen = result.source, set(result.metrics)
    found = [*_nodes(source, seen), *_pods(con, source, seen), *_activity(con, result, activity)]
    if "kube_node_labels" in seen and not _has_labels(con, source, "kube_node_labels"):
        found.append(Finding(
            "warning", "node_labels_not_exported",
            f"{source}: kube_node_labels holds no label: instance types, zones and capacity types are unknown", _ALLOW_NODES,
        ))  # fmt: skip
    if "kube_namespace_labels" in seen and not _has_labels(con, source, "kube_namespace_labels"):
        found.append(Finding(
            "note", "namespace_labels_not_exported",
            f"{source}: kube_namespace_labels holds no label: teams cannot follow namespace labels", _ALLOW_NAMESPACES,
        ))  # fmt: skip
    if result.not_collected is not None and seen:
        found.append(Finding(
            "warning", "before_retention", f"{source} has nothing before {result.not_collected.end:%Y-%m-%d %H:%M} UTC",
            "collect daily, so that nothing is lost to the server's retention: 0 3 * * * gpucost collect prometheus",
        ))  # fmt: skip
    found += [Finding("warning", "gap", f"{source}: kube-state-metrics was silent in {gap}") for gap in result.gaps]
    return found


def _nodes(source: str, seen: set[str]) -> list[Finding]:
    if not any(metric.startswith("kube_") for metric in seen):
        return [Finding(
            "warning", "no_kube_state_metrics", f"{source} holds no sample of kube-state-metrics in this period",
            "install it and have Prometheus scrape it: helm install kube-state-metrics prometheus-community/kube-state-metrics",
        )]  # fmt: skip
    return [_missing(source, needed) for needed in _NODE_METRICS if needed.metric not in seen]


def _pods(con: duckdb.DuckDBPyConnection, source: str, seen: set[str]) -> list[Finding]:
    if not any(metric.startswith("kube_") for metric in seen):
        return []
    requests = "kube_pod_container_resource_requests"
    if requests in seen:
        return [_missing(source, needed) for needed in _POD_METRICS if needed.metric not in seen]
    if _ever(con, source, requests):
        return [Finding("note", "no_gpu_requests", f"{source}: no pod asked for a GPU in this period")]
    return [Finding(
        "warning", "no_gpu_requests", f"{source}: no pod has ever asked for a GPU ({requests} with a GPU resource)",
        f"kube-state-metrics: --metric-allowlist must include {requests}",
    )]  # fmt: skip


def _activity(con: duckdb.DuckDBPyConnection, result: CollectResult, activity: Activity) -> list[Finding]:
    source, seen = result.source, set(result.metrics)
    dropped = {d.metric for d in result.dropped}
    device, mig = activity.device_metric, activity.mig_metric
    if not seen & {device, mig}:
        spoiled = sorted(dropped & {device, mig})
        if spoiled:
            return [Finding("warning", "activity_invalid", f"{source}: {' and '.join(spoiled)} held no valid sample")]
        return [Finding(
            "warning", "no_activity", f"{source} has neither {device} nor {mig}: all held GPU time is unmeasured",
            "install dcgm-exporter and have Prometheus scrape it: helm install dcgm-exporter gpu-helm-charts/dcgm-exporter",
        )]  # fmt: skip
    if mig not in seen and _mig_is_used(con, source):
        return [Finding(
            "warning", "no_mig_activity", f"{source} has MIG instances but no {mig} for them: their time is unmeasured",
            f"add {mig} to dcgm-exporter's counters file (-f)",
        )]  # fmt: skip
    return []


def _missing(source: str, needed: _Needed) -> Finding:
    return Finding("warning", f"missing_{needed.metric}", f"{source} has no {needed.metric}: {needed.without}", needed.fix)


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
