"""Which series are asked for: metrics, their other spellings, and the labels that narrow them down."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpucost.config import Activity

Scope = Literal["activity", "cluster", "requests", "pods"]

# Resources that are GPUs or the like, as kube-state-metrics spells them (every character outside [a-zA-Z0-9_] becomes "_").
GPU_RESOURCES = r"nvidia_com_.+|amd_com_gpu|habana_ai_.+|aws_amazon_com_neuron.*|gpu_intel_com_.+|google_com_tpu"
_GPU_ONLY = f'resource=~"{GPU_RESOURCES}"'

# Names of one and the same metric, by exporter version: dcgm-exporter 1.x said dcgm_gpu_utilization.
_OLD_NAMES = {"DCGM_FI_DEV_GPU_UTIL": ("dcgm_gpu_utilization",)}

# One regular expression of namespaces must stay a readable query; more than this many, and pods are asked for unrestricted.
_MOST_NAMESPACES = 150
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


def selectors(activity: Activity) -> list[Selector]:
    """Everything that a report is made from. Requests come before the pods that they narrow down."""
    return [*_activity(activity), *_REQUESTS, *_CLUSTER, *_PODS]


def in_namespaces(selector: Selector, namespaces: Iterable[str]) -> Selector:
    """A pod selector narrowed to some namespaces, unless they are too many to list."""
    names = sorted(set(namespaces))
    if len(names) > _MOST_NAMESPACES:
        return selector
    listed = "|".join(re.escape(name).replace("\\", "\\\\").replace('"', '\\"') for name in names)
    return selector.with_matchers(f'namespace=~"{listed}"')


def _activity(activity: Activity) -> list[Selector]:
    if activity.device_metric == activity.mig_metric:
        return [Selector(activity.device_metric, scope="activity", shard_label="UUID")]
    return [
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

_CLUSTER = [
    Selector("kube_node_info"),
    Selector("kube_node_created"),
    Selector("kube_node_labels"),
    Selector("kube_node_status_capacity", (_GPU_ONLY,)),
    Selector("kube_node_status_allocatable", (_GPU_ONLY,)),
    Selector("kube_node_status_condition", ('condition="Ready"', 'status="true"')),
    Selector("kube_node_spec_unschedulable"),
]

_PODS = [
    _pod("kube_pod_info"),
    _pod("kube_pod_owner"),
    _pod("kube_pod_labels"),
    _pod("kube_pod_status_phase", 'phase=~"Succeeded|Failed"'),
    _pod("kube_pod_status_scheduled_time"),
    _pod("kube_pod_start_time"),
    _pod("kube_pod_completion_time"),
    _pod("kube_pod_init_container_info"),
    Selector("kube_namespace_labels", (), "pods", "namespace"),
    Selector("kube_replicaset_owner", (), "pods", "replicaset"),
    Selector("kube_job_owner", (), "pods", "job_name"),
]
