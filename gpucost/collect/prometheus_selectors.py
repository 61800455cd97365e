"""Which series are asked for: metrics, their other spellings, and the labels that narrow them down."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from gpucost.catalog.accelerators import claim_metrics, devices, other_resources
from gpucost.store.activity import MEMORY_METRIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpucost.config import Activity

Scope = Literal["activity", "cluster", "requests", "hosts", "pods"]

# What counts devices, slices or slots of accelerators, as kube-state-metrics spells it (every character outside
# [a-zA-Z0-9_] becomes "_"); and as Kubernetes does, in Kueue's metrics.
GPU_RESOURCES = devices()
_GPU_QUOTA_ONLY = f'resource=~"{GPU_RESOURCES.replace("_", "[./_-]")}"'
# Of pods and nodes everything is asked for but what is known to be none: an accelerator that no table lists is to be named.
_ACCELERATORS = f'resource!~"{other_resources()}"'
_HOST_ONLY = 'resource=~"cpu|memory"'

# Names of one and the same metric, by exporter version: dcgm-exporter 1.x said dcgm_gpu_utilization.
_OLD_NAMES = {"DCGM_FI_DEV_GPU_UTIL": ("dcgm_gpu_utilization",)}

# One regular expression of names must stay a readable query; more than this many, and all of them are asked for.
MOST_NAMES = 150
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
    if len(wanted) > MOST_NAMES:
        return selector
    return selector.with_matchers(one_of(label, wanted))


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher of these values of a label, whatever characters they hold: PromQL's strings take JSON's escapes."""
    return f"{label}=~{json.dumps('|'.join(map(re.escape, values)), ensure_ascii=False)}"


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
    Selector("kube_pod_container_resource_requests", (_ACCELERATORS,), "requests", "uid"),
    Selector("kube_pod_container_resource_limits", (_ACCELERATORS,), "requests", "uid"),
    Selector("kube_pod_init_container_resource_requests", (_ACCELERATORS,), "requests", "uid"),
    # KAI and Run:ai: pods that ask for a part of a GPU request none
    Selector("kube_pod_annotations", ('annotation_gpu_fraction!=""',), "requests", "uid"),
    Selector("kube_pod_annotations", ('annotation_gpu_fraction=""', 'annotation_gpu_memory!=""'), "requests", "uid"),
    *(Selector(metric, (), "requests", "uid") for metric in claim_metrics("pod")),
]

GPU_CAPACITY = Selector("kube_node_status_capacity", (_ACCELERATORS,))

_CLUSTER = [
    Selector("kube_node_info"),
    Selector("kube_node_created"),
    Selector("kube_node_labels"),
    GPU_CAPACITY,
    Selector("kube_node_status_allocatable", (_ACCELERATORS,)),
    Selector("kube_node_status_condition", ('condition="Ready"', 'status="true"')),
    Selector("kube_node_spec_unschedulable"),
    # one series a shard
    Selector("kube_state_metrics_total_shards", shard_label="instance"),
    Selector("kube_state_metrics_shard_ordinal", shard_label="instance"),
    # one a node, of node_exporter: whether it ran through a silence
    Selector("node_boot_time_seconds", shard_label="instance"),
    *(Selector(metric, shard_label="resourceclaim") for metric in claim_metrics("device")),
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
