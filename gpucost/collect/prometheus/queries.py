"""Which series are asked for: metrics, their other spellings, and the labels that narrow them down."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from gpucost.catalog import accelerators, claim_metrics, devices, other_resources
from gpucost.store.usage import MEMORY_METRIC

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpucost.config.model import Activity

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


KSM = "kube-state-metrics"
ALLOW = f"{KSM}: keep the metric in --metric-allowlist"
NODE_LABELS_FIX = f"{KSM} --metric-labels-allowlist=nodes=[*]"
NAMESPACE_LABELS_FIX = f"{KSM} --metric-labels-allowlist=namespaces=[team]"
KSM_FIX = f"helm install {KSM} prometheus-community/{KSM}, and have Prometheus scrape it"
DCGM_FIX = "helm install dcgm-exporter gpu-helm-charts/dcgm-exporter, and have Prometheus scrape it on every GPU node"

REQUESTS = "kube_pod_container_resource_requests"
GPU_REQUESTS = f'{REQUESTS}{{resource=~"{GPU_RESOURCES}"}}'
UNLISTED_REQUESTS = f'{REQUESTS}{{resource!~"{accelerators()}|{other_resources()}"}}'
MIG_REQUESTS = f'{REQUESTS}{{resource=~"nvidia_com_mig_.*"}}'

POD_LABELS = "kube_pod_labels"
NODE_LABELS = "kube_node_labels"
NODE_LABELS_LOST = "spot, instance type, region and GPU model of nodes are unknown"
ACTIVITY_LOST = "all GPU time is unmeasured"
MIG_ACTIVITY_LOST = "the time of MIG instances is unmeasured"


# Pod labels that tell what a workload is for, as Kubernetes spells them; of the domains in them every label counts.
TYPE_LABELS = (
    "gpucost.io/workload-type",
    "leaderworkerset.sigs.k8s.io/name",
    "serving.kserve.io/inferenceservice",
    "serving.knative.dev/service",
    "ray.io/cluster",
    "ray.io/serve",
    "ray.io/originated-from-crd",
    "training.kubeflow.org/job-name",
    "trainer.kubeflow.org/trainjob-ancestor-step",
    "jobset.sigs.k8s.io/jobset-name",
    "notebook-name",
    "app",
    "app.kubernetes.io/name",
    "app.kubernetes.io/component",
    "component",
)


def mig_fix(metric: str) -> str:
    """What brings the metric of MIG instances, which the exporter leaves out by default."""
    return f"dcgm-exporter: add {metric} to its counters file (-f)"


@dataclass(frozen=True, slots=True)
class Need:
    """A metric that is read, labels of which one has to stand on it, and what is lost without.

    `essential`: figures are missing or wrong without it, not just poorer. `always`: it is there wherever pods are.
    `hint`: no figure needs it, only the guess at what a workload is for.
    """

    metric: str
    labels: tuple[str, ...]
    lost: str
    essential: bool = False
    always: bool = True
    fix: str = ALLOW
    hint: bool = False


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A fact about nodes, and the labels that may tell it, as kube-state-metrics spells them.

    `common`: some label tells it of every GPU node, where labels are exported.
    """

    name: str
    labels: tuple[str, ...]
    lost: str
    common: bool = True


NEEDS = (
    Need("kube_pod_info", ("node",), "no pod is on any node", essential=True, fix=f"scrape {KSM}"),
    Need("kube_pod_status_phase", ("phase",), "ended pods look as if they went on", essential=True),
    Need("kube_pod_status_scheduled_time", ("uid",), "a pod's beginning is known to one scrape only"),
    Need("kube_pod_completion_time", ("uid",), "a pod's end is known to one scrape only, if any has ended", always=False),
    Need("kube_pod_owner", ("owner_kind",), "workloads show as single pods"),
    Need(
        "kube_pod_container_info",
        ("image",),
        "notebooks are known by the names of workloads alone, not by their images",
        hint=True,
    ),
    Need("kube_node_created", ("node",), "a node's beginning is its first sample"),
    Need("kube_node_info", ("provider_id", "system_uuid"), "reused node names are not told apart"),
    Need("kube_node_status_capacity", ("resource",), "shared and sliced GPUs may be miscounted"),
)

# What `gpucost queue` reads, looked for where there is Kueue.
KUEUE_PENDING = "kueue_pending_workloads"
KUEUE_FIX = "Kueue: metrics.enableClusterQueueResources: true in its manager's configuration"
KUEUE_NEEDS = (
    Need(
        "kueue_admission_wait_time_seconds_bucket",
        ("le",),
        "how long workloads wait is unknown",
        always=False,
        fix="scrape Kueue",
    ),
    Need("kueue_cluster_queue_nominal_quota", ("resource",), "quotas are unknown", always=False, fix=KUEUE_FIX),
    Need("kueue_cluster_queue_resource_usage", ("resource",), "use of quotas is unknown", always=False, fix=KUEUE_FIX),
)

# What is needed besides where a series of the first name is there.
CONDITIONAL_NEEDS: tuple[tuple[str, tuple[Need, ...]], ...] = ((KUEUE_PENDING, KUEUE_NEEDS),)
# What tells whose the GPUs are that KAI and Run:ai reserve, looked for where they do.
RESERVATIONS = f'{REQUESTS}{{namespace=~"kai-resource-reservation|runai-reservation"}}'
ANNOTATIONS = "kube_pod_annotations"
FRACTIONS = ("annotation_gpu_fraction", "annotation_gpu_memory")
FRACTIONS_LOST = "whole GPUs are charged to the namespace of the reservations, not to the pods that share them"
FRACTIONS_FIX = f"{KSM} --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]"

# What the cost bases besides `node` read, too.
HOST_NEEDS = (
    Need(
        f'{REQUESTS}{{resource=~"cpu|memory"}}',
        ("resource",),
        "cores and memory are charged to nobody: a node's whole price rides on its GPUs",
        essential=True,
    ),
    Need('kube_node_status_capacity{resource=~"cpu|memory"}', ("resource",), "cores and memory are those of the instance type"),
)


# What is lost where a metric is there but its labels are not, or where nothing of a kind is.
NAMESPACE_LABELS_LOST = "teams cannot follow namespace labels"
REQUESTS_LOST = f"no pod has ever asked for a GPU ({REQUESTS} with a GPU resource)"


def stored_needs(device_metric: str, mig_metric: str) -> list[tuple[str, str, str, str]]:
    """What the store is searched for after a run and before a report: kind, metric, what is lost without it, and the fix."""
    return [
        *(("hint" if need.hint else "metric", need.metric, need.lost, need.fix) for need in NEEDS if need.always),
        ("exporter", KSM, "nobody's hold on a GPU is known", KSM_FIX),
        ("labels", NODE_LABELS, NODE_LABELS_LOST, NODE_LABELS_FIX),
        ("team_labels", "kube_namespace_labels", NAMESPACE_LABELS_LOST, NAMESPACE_LABELS_FIX),
        ("requests", REQUESTS, REQUESTS_LOST, ALLOW),
        ("activity", device_metric, ACTIVITY_LOST, DCGM_FIX),
        ("mig_activity", mig_metric, MIG_ACTIVITY_LOST, mig_fix(mig_metric)),
    ]


def needs(cost_basis: str) -> tuple[Need, ...]:
    """The metrics that figures by this cost basis need."""
    return NEEDS if cost_basis == "node" else (*NEEDS, *HOST_NEEDS)


# Every node label that inventory and prices read.
NODE_FACTS = (
    NodeFact(
        "instance type",
        ("label_node_kubernetes_io_instance_type", "label_beta_kubernetes_io_instance_type"),
        "no catalog price fits (a price book with node_selector can)",
    ),
    NodeFact(
        "region",
        ("label_topology_kubernetes_io_region", "label_failure_domain_beta_kubernetes_io_region"),
        "prices by region do not fit",
    ),
    NodeFact(
        "zone",
        (
            "label_topology_kubernetes_io_zone",
            "label_failure_domain_beta_kubernetes_io_zone",
            "label_topology_k8s_aws_zone_id",
        ),
        "prices by zone do not fit",
    ),
    NodeFact(
        "capacity type",
        (
            "label_karpenter_sh_capacity_type",
            "label_eks_amazonaws_com_capacityType",
            "label_eks_amazonaws_com_capacity_type",
            "label_cloud_google_com_gke_provisioning",
            "label_cloud_google_com_gke_spot",
            "label_cloud_google_com_gke_preemptible",
            "label_cloud_google_com_gke_flex_start",
            "label_kubernetes_azure_com_scalesetpriority",
            "label_node_kubernetes_io_lifecycle",
            "label_node_lifecycle",
            "label_karpenter_k8s_aws_capacity_reservation_id",
            "label_karpenter_k8s_aws_capacity_reservation_type",
            "label_eks_amazonaws_com_capacity_reservation_id",
            "label_eks_amazonaws_com_capacity_reservation_type",
            "label_karpenter_sh_capacity_reservation_id",
            "label_cloud_google_com_reservation_name",
        ),
        "all nodes count as on demand; right where there are no spot nodes",
    ),
    NodeFact(
        "GPU model",
        (
            "label_nvidia_com_gpu_product",
            "label_cloud_google_com_gke_accelerator",
            "label_amd_com_gpu_product_name",
            "label_karpenter_k8s_aws_instance_gpu_name",
            "label_cloud_google_com_gke_tpu_accelerator",
        ),
        "the model comes from the instance type or dcgm-exporter",
    ),
    NodeFact(
        "GPU count",
        ("label_nvidia_com_gpu_count", "label_cloud_google_com_gke_accelerator_count", "label_gpu_intel_com_device_count"),
        "the count comes from the instance type or dcgm-exporter",
    ),
    NodeFact(
        "slices and slots",
        (
            "label_nvidia_com_mig_strategy",
            "label_nvidia_com_gpu_replicas",
            "label_cloud_google_com_gke_gpu_partition_size",
            "label_cloud_google_com_gke_max_shared_clients_per_gpu",
            "label_nvidia_com_gpu_sharing_strategy",
            "label_cloud_google_com_gke_gpu_sharing_strategy",
        ),
        "the part of a GPU that a slot or a slice is comes from what the node offers",
        common=False,
    ),
)
