"""The series to query: metrics, their spellings and selecting labels, as listed in metrics.toml."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Literal

from gpucost.catalog import (
    ActivityMetric,
    accelerators,
    activity_metrics,
    claim_metrics,
    devices,
    other_resources,
)
from gpucost.config.model import Activity
from gpucost.records import frozen_dataclass, grouped
from gpucost.resources import shipped

Scope = Literal["activity", "cluster", "requests", "hosts", "pods"]
# Always 1, alternating 0 and 1, or a number that rarely changes.
Constant = Literal["one", "flag", "number"]

# Resources for devices, slices or slots of accelerators, as kube-state-metrics spells them (each character
# outside [a-zA-Z0-9_] becomes "_"), and as Kubernetes does, in Kueue's metrics.
GPU_RESOURCES = devices()
_ONLY = {
    "gpu_quotas": f'resource=~"{GPU_RESOURCES.replace("_", "[./_-]")}"',
    # Pods and nodes: everything except known other resources, so that reports can name unlisted accelerators.
    "accelerators": f'resource!~"{other_resources()}"',
    "cores_and_memory": 'resource=~"cpu|memory"',
}

# Maximum names in one regular expression, so that queries stay readable; with more, all names are queried.
MOST_NAMES = 150
_HEX = "0123456789abcdef"


@frozen_dataclass
class Selector:
    """The series of one metric. `metric` is the stored name, `constant` the kind of value during a life."""

    metric: str
    matchers: tuple[str, ...] = ()
    scope: Scope = "cluster"
    shard_label: str = "node"
    constant: Constant | None = field(default=None, compare=False)

    def spelled(self, names: set[str] | None) -> list[str]:
        """The server's spellings of the name, in any case; all spellings if its names are unknown."""
        if names is None:
            return sorted({self.metric, self.metric.lower()} if self.scope == "activity" else {self.metric})
        return sorted(name for name in names if name.lower() == self.metric.lower())

    def with_matchers(self, *matchers: str) -> Selector:
        """A copy with additional matchers."""
        return replace(self, matchers=self.matchers + matchers)

    def text(self, name: str) -> str:
        """PromQL for one spelling of the name."""
        return f"{name}{{{','.join(self.matchers)}}}" if self.matchers else name

    def shards(self) -> list[Selector]:
        """Selectors that together find the same series, about a sixteenth each, by a label's last character."""
        label = self.shard_label
        by_end = [self.with_matchers(f'{label}=~"(?i).*{end}"') for end in _HEX]
        return [*by_end, self.with_matchers(f'{label}!~"(?i).*[{_HEX}]"')]


def selectors(activity: Activity, cost_basis: str = "node") -> list[Selector]:
    """All selectors of reports. They begin with the ones for narrowing others down: requests, GPU nodes, hosts, pods.

    Cores and memory are included only if the cost basis charges them.
    """
    hosts = [] if cost_basis == "node" else _HOSTS
    return [*_activity(activity), *_REQUESTS, *_CLUSTER, *hosts, *_PODS]


def among(selector: Selector, label: str, names: Iterable[str], *, without: bool = False) -> Selector:
    """A selector limited to (or without) some values of a label, unless there are too many to list."""
    wanted = sorted(set(names))
    if len(wanted) > MOST_NAMES:
        return selector
    matcher = one_of(label, wanted)
    return selector.with_matchers(matcher.replace("=~", "!~", 1) if without else matcher)


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher of these label values. PromQL strings use the escapes of JSON."""
    return f"{label}=~{json.dumps('|'.join(map(re.escape, values)), ensure_ascii=False)}"


_PLACES = {"device": ('GPU_I_ID=""',), "mig": ('GPU_I_ID!=""',), "compared": ('GPU_I_ID=""',)}


def activity_series(activity: Activity, *parts: str) -> list[tuple[ActivityMetric, Selector]]:
    """The metrics of these parts, and the series of each."""
    several = grouped(
        (metric.metric, metric) for metric in activity_metrics(activity) if metric.part in parts
    )
    found = []
    for name, (metric, *more) in several.items():
        matchers = (*(() if more else _PLACES.get(metric.part, ())), *filter(None, [metric.only]))
        found.append((metric, Selector(name, matchers, "activity", metric.device[0])))
    return found


def _activity(activity: Activity) -> list[Selector]:
    parts = ("device", "mig", *(["memory"] if activity.memory else []), "profile")
    return [selector for _, selector in activity_series(activity, *parts)]


def compared(activity: Activity) -> list[list[Selector]]:
    """The metrics that settle the unit of a device metric, by measure; the better measures first."""
    return list(
        grouped(
            (metric.measures, selector) for metric, selector in activity_series(activity, "compared")
        ).values()
    )


def activity_names(activity: Activity, *parts: str) -> list[str]:
    """The names of the metrics of these parts, the configured one first."""
    return [selector.metric for _, selector in activity_series(activity, *parts)]


_METRICS = tomllib.loads(shipped("collect/prometheus/metrics.toml"))


def _read_selectors(section: str, scope: Scope, shard_label: str) -> list[Selector]:
    """The selectors of a section, with the given defaults."""
    return [
        Selector(item["metric"], tuple(_ONLY.get(only, only) for only in item.get("only", ())), scope,
                 item.get("shard_label", shard_label), item.get("constant"))
        for item in _METRICS["selectors"][section]
    ]  # fmt: skip


def _claims(kind: Literal["pod", "device"], scope: Scope, shard_label: str) -> list[Selector]:
    return [Selector(metric, (), scope, shard_label) for metric in claim_metrics(kind)]


GPU_CAPACITY = Selector("kube_node_status_capacity", (_ONLY["accelerators"],))
_REQUESTS = [*_read_selectors("requests", "requests", "uid"), *_claims("pod", "requests", "uid")]
_CLUSTER = [
    *_read_selectors("cluster", "cluster", "node"),
    *_claims("device", "cluster", "resourceclaim"),
    *_read_selectors("Kueue", "cluster", "cluster_queue"),
    *_read_selectors("LocalQueue", "cluster", "name"),
    *_read_selectors("KAI", "cluster", "queue_name"),
    *_read_selectors("Volcano", "cluster", "queue_name"),
    *_read_selectors("interruptions", "cluster", "node_name"),
    *_read_selectors("health", "cluster", "UUID"),
]
_HOSTS = _read_selectors("hosts", "hosts", "uid")
_PODS = _read_selectors("pods", "pods", "uid")


def queue_metrics() -> list[dict[str, str | None]]:
    """The metrics of queues: scheduler, metric, and the meaning as a gauge or a counter."""
    found = []
    for scheduler in ("Kueue", "LocalQueue", "KAI", "Volcano"):
        for item in _METRICS["selectors"][scheduler]:
            meaning = {name: item.get(name) for name in ("metric", "gauge", "counter")}
            found.append({"scheduler": scheduler, **meaning})
    return found


KSM = "kube-state-metrics"
ALLOW = f"{KSM}: keep the metric in --metric-allowlist"
NODE_LABELS_FIX = f"{KSM} --metric-labels-allowlist=nodes=[*]"
NAMESPACE_LABELS_FIX = f"{KSM} --metric-labels-allowlist=namespaces=[team]"
KSM_FIX = f"helm install {KSM} prometheus-community/{KSM}, and have Prometheus scrape it"
DCGM_FIX = "helm install dcgm-exporter gpu-helm-charts/dcgm-exporter, and have Prometheus scrape it on every GPU node"

REQUESTS = "kube_pod_container_resource_requests"
GPU_REQUESTS = f'{REQUESTS}{{resource=~"{GPU_RESOURCES}"}}'
# By metric family, series of uncollected objects. They prove that a family was exported while no GPU pod ran.
OTHERS = {
    "nodes": Selector("kube_node_status_capacity", ('resource="cpu"',)),
    "pods": Selector("kube_pod_info", scope="pods"),
    "phases": Selector("kube_pod_status_phase", ('phase="Failed"',), "pods"),
    "requests": Selector(REQUESTS, (_ONLY["cores_and_memory"],), "pods"),
}
UNLISTED_REQUESTS = f'{REQUESTS}{{resource!~"{accelerators()}|{other_resources()}"}}'
MIG_REQUESTS = f'{REQUESTS}{{resource=~"nvidia_com_mig_.*"}}'

POD_LABELS = "kube_pod_labels"
NODE_LABELS = "kube_node_labels"
NODE_LABELS_LOST = "spot, instance type, region and GPU model of nodes are unknown"
ACTIVITY_LOST = "all GPU time is unmeasured"
MIG_ACTIVITY_LOST = "the time of MIG instances is unmeasured"


TYPE_LABELS: tuple[str, ...] = tuple(_METRICS["types"]["labels"])


def activity_fix(metric: str) -> str:
    """The fix for a missing metric, with or without a running exporter."""
    return f"run dcgm-exporter with {metric} among its counters (-f) on every GPU node, and have Prometheus scrape it"


def mig_fix(metric: str) -> str:
    """The fix for a missing metric of MIG instances, which the exporter omits by default."""
    return f"dcgm-exporter: add {metric} to its counters file (-f)"


@frozen_dataclass
class Need:
    """A required metric, labels of which at least one must be present, and the loss without them."""

    metric: str
    labels: list[str]
    lost: str
    essential: bool = False
    always: bool = True
    fix: str = ALLOW
    hint: bool = False


@frozen_dataclass
class NodeFact:
    """A fact about nodes, and the labels that can contain it."""

    name: str
    labels: list[str]
    lost: str
    common: bool = True


def _needs(section: str) -> tuple[Need, ...]:
    return tuple(Need(**need) for need in _METRICS["needs"][section])


NEEDS, HOST_NEEDS, KUEUE_NEEDS = _needs("node"), _needs("hosts"), _needs("kueue")
NODE_FACTS = tuple(NodeFact(**fact) for fact in _METRICS["node_facts"])

# The requesters behind GPU reservations of KAI and Run:ai; looked for if they are in use.
RESERVATIONS = f'{REQUESTS}{{namespace=~"kai-resource-reservation|runai-reservation"}}'
ANNOTATIONS = "kube_pod_annotations"
FRACTIONS = ("annotation_gpu_fraction", "annotation_gpu_memory")
FRACTIONS_LOST = (
    "whole GPUs are charged to the namespace of the reservations, not to the pods that share them"
)
FRACTIONS_FIX = (
    f"{KSM} --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]"
)

# The loss if a metric exists without its labels, or if all metrics of a kind are missing.
NAMESPACE_LABELS_LOST = "teams cannot follow namespace labels"
REQUESTS_LOST = f"no pod has ever requested a GPU ({REQUESTS} with a GPU resource)"


def stored_needs(activity: Activity) -> list[tuple[str, str, str, str]]:
    """The needs checked after a run and before a report: kind, metric, loss and fix.

    The kinds activity_name and mig_name are alternative names of activity and mig_activity.
    """
    return [
        *(("activity_name", name, "", "") for name in activity_names(activity, "device")),
        *(("mig_name", name, "", "") for name in activity_names(activity, "mig")),
        *(
            ("hint" if need.hint else "metric", need.metric, need.lost, need.fix)
            for need in NEEDS
            if need.always
        ),
        ("exporter", KSM, "no pod's GPUs are known", KSM_FIX),
        ("labels", NODE_LABELS, NODE_LABELS_LOST, NODE_LABELS_FIX),
        ("team_labels", "kube_namespace_labels", NAMESPACE_LABELS_LOST, NAMESPACE_LABELS_FIX),
        ("requests", REQUESTS, REQUESTS_LOST, ALLOW),
        ("activity", activity.device_metric, ACTIVITY_LOST, activity_fix(activity.device_metric)),
        ("mig_activity", activity.mig_metric, MIG_ACTIVITY_LOST, mig_fix(activity.mig_metric)),
    ]


def needs(cost_basis: str) -> tuple[Need, ...]:
    """The metrics that figures with this cost basis need."""
    return NEEDS if cost_basis == "node" else (*NEEDS, *HOST_NEEDS)
