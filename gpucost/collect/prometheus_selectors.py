"""Which series are asked for: metrics, their other spellings, and the labels that narrow them down."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from gpucost.store.activity import MEMORY_METRIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpucost.config import Activity

Scope = Literal["activity", "cluster", "requests", "hosts", "pods"]

# Resources that are GPUs or the like, as kube-state-metrics spells them (every character outside [a-zA-Z0-9_] becomes "_").
GPU_RESOURCES = r"nvidia_com_.+|amd_com_gpu|habana_ai_.+|aws_amazon_com_neuron.*|gpu_intel_com_.+|google_com_tpu"
_GPU_ONLY = f'resource=~"{GPU_RESOURCES}"'
# The same as Kubernetes spells them, in Kueue's metrics.
_GPU_QUOTA_ONLY = (
    r'resource=~"nvidia\\.com/.+|amd\\.com/gpu|habana\\.ai/.+|aws\\.amazon\\.com/neuron.*|gpu\\.intel\\.com/.+|google\\.com/tpu"'
)
_HOST_ONLY = 'resource=~"cpu|memory"'

# Names of one and the same metric, by exporter version: dcgm-exporter 1.x said dcgm_gpu_utilization.
_OLD_NAMES = {"DCGM_FI_DEV_GPU_UTIL": ("dcgm_gpu_utilization",)}

# One regular expression of names must stay a readable query; more than this many, and all of them are asked for.
_MOST_NAMES = 150
_HEX = "0123456789abcdef"


@dataclass(frozen=True, slots=True)
class Selector:
    """One metric's series. `metric` is the name that they are stored under."""

    metric: str
    matchers: tuple[str, ...] = ()
    scope: Scope = "cluster"
    shard_label: str = "node"

    def spelled(self, known: set[str] | None) -> list[str]:
        """The spellings that the server has, in any case; all of them where it does not tell its names."""
        wanted = (self.metric, *_OLD_NAMES.get(self.metric, ()))
        if known is None:
            return sorted({*wanted, *(name.lower() for name in wanted)} if self.scope == "activity" else {self.metric})
        lowered = {name.lower() for name in wanted}
        return sorted(name for name in known if name.lower() in lowered)

    def with_matchers(self, *matchers: str) -> Selector:
        """The same with more conditions."""
        return replace(self, matchers=self.matchers + matchers)

    def text(self, name: str) -> str:
        """PromQL for one spelling of the name."""
        return f"{name}{{{','.join(self.matchers)}}}" if self.matchers else name

    def shards(self) -> list[Selector]:
        """Selectors that together find the same series, each about a sixteenth: by the last character of a label."""
        label = self.shard_label
        by_end = [self.with_matchers(f'{label}=~"(?i).*{end}"') for end in _HEX]
        return [*by_end, self.with_matchers(f'{label}!~"(?i).*[{_HEX}]"')]


def selectors(activity: Activity, cost_basis: str = "node") -> list[Selector]:
    """Everything that a report is made from. What narrows others down comes before them: requests, GPU nodes, hosts, pods.

    Cores and memory are asked for only where the cost basis charges them.
    """
    hosts = [] if cost_basis == "node" else _HOSTS
    return [*_activity(activity), *_REQUESTS, *_CLUSTER, *_KUEUE, *hosts, *_PODS]


def among(selector: Selector, label: str, names: Iterable[str]) -> Selector:
    """A selector narrowed to some values of a label, unless they are too many to list."""
    wanted = sorted(set(names))
    if len(wanted) > _MOST_NAMES:
        return selector
    listed = "|".join(re.escape(name).replace("\\", "\\\\").replace('"', '\\"') for name in wanted)
    return selector.with_matchers(f'{label}=~"{listed}"')


def _activity(activity: Activity) -> list[Selector]:
    memory = [Selector(MEMORY_METRIC, scope="activity", shard_label="UUID")] if activity.memory else []
    if activity.device_metric == activity.mig_metric:
        return [Selector(activity.device_metric, scope="activity", shard_label="UUID"), *memory]
    return [
        *memory,
        Selector(activity.device_metric, ('GPU_I_ID=""',), "activity", "UUID"),
        Selector(activity.mig_metric, ('GPU_I_ID!=""',), "activity", "UUID"),
    ]


def _pod(metric: str, *matchers: str) -> Selector:
    return Selector(metric, matchers, "pods", "uid")


_REQUESTS = [
    Selector("kube_pod_container_resource_requests", (_GPU_ONLY,), "requests", "uid"),
    Selector("kube_pod_container_resource_limits", (_GPU_ONLY,), "requests", "uid"),
    Selector("kube_pod_init_container_resource_requests", (_GPU_ONLY,), "requests", "uid"),
]

GPU_CAPACITY = Selector("kube_node_status_capacity", (_GPU_ONLY,))

_CLUSTER = [
    Selector("kube_node_info"),
    Selector("kube_node_created"),
    Selector("kube_node_labels"),
    GPU_CAPACITY,
    Selector("kube_node_status_allocatable", (_GPU_ONLY,)),
    Selector("kube_node_status_condition", ('condition="Ready"', 'status="true"')),
    Selector("kube_node_spec_unschedulable"),
    # one series a shard
    Selector("kube_state_metrics_total_shards", shard_label="instance"),
    Selector("kube_state_metrics_shard_ordinal", shard_label="instance"),
]

# Kueue's counters stand still between admissions, and its gauges between changes: runs of equal values hold both cheaply.
_KUEUE = [
    Selector("kueue_admission_wait_time_seconds_sum", shard_label="cluster_queue"),
    Selector("kueue_admission_wait_time_seconds_count", shard_label="cluster_queue"),
    Selector("kueue_admission_wait_time_seconds_bucket", shard_label="cluster_queue"),
    Selector("kueue_pending_workloads", shard_label="cluster_queue"),
    Selector("kueue_cluster_queue_nominal_quota", (_GPU_QUOTA_ONLY,), shard_label="cluster_queue"),
    Selector("kueue_cluster_queue_borrowing_limit", (_GPU_QUOTA_ONLY,), shard_label="cluster_queue"),
    Selector("kueue_cluster_queue_resource_usage", (_GPU_QUOTA_ONLY,), shard_label="cluster_queue"),
    Selector("kueue_cluster_queue_resource_reservation", (_GPU_QUOTA_ONLY,), shard_label="cluster_queue"),
]

_HOSTS = [
    Selector("kube_node_status_capacity", (_HOST_ONLY,), "hosts"),
    Selector("kube_pod_container_resource_requests", (_HOST_ONLY,), "hosts", "uid"),
    Selector("kube_pod_init_container_resource_requests", (_HOST_ONLY,), "hosts", "uid"),
]

_PODS = [
    _pod("kube_pod_info"),
    _pod("kube_pod_owner"),
    _pod("kube_pod_labels"),
    _pod("kube_pod_status_phase", 'phase=~"Pending|Succeeded|Failed"'),
    _pod("kube_pod_status_scheduled_time"),
    _pod("kube_pod_start_time"),
    _pod("kube_pod_completion_time"),
    _pod("kube_pod_init_container_info"),
    _pod("kube_pod_container_info"),
    Selector("kube_namespace_labels", (), "pods", "namespace"),
    Selector("kube_replicaset_owner", (), "pods", "replicaset"),
    Selector("kube_job_owner", (), "pods", "job_name"),
]
