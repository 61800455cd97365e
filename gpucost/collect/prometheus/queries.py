"""Which series are asked for: metrics, their other spellings, and the labels that narrow them down. metrics.toml lists them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import field, replace
from importlib.resources import files
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
from gpucost.records import grouped, record

Scope = Literal["activity", "cluster", "requests", "hosts", "pods"]
# 1, or 0 and 1 in turn, or a number that hardly ever changes
Constant = Literal["one", "flag", "number"]

# What counts devices, slices or slots of accelerators, as kube-state-metrics spells it (every character outside
# [a-zA-Z0-9_] becomes "_"); and as Kubernetes does, in Kueue's metrics.
GPU_RESOURCES = devices()
_ONLY = {
    "gpu_quotas": f'resource=~"{GPU_RESOURCES.replace("_", "[./_-]")}"',
    # Of pods and nodes everything is asked for but what is known to be none: an accelerator that no table lists is to be named.
    "accelerators": f'resource!~"{other_resources()}"',
    "cores_and_memory": 'resource=~"cpu|memory"',
}

# One regular expression of names must stay a readable query; more than this many, and all of them are asked for.
MOST_NAMES = 150
_HEX = "0123456789abcdef"


@record
class Selector:
    """One metric's series. `metric` is the name that they are stored under, `constant` what each says as long as it lives."""

    metric: str
    matchers: tuple[str, ...] = ()
    scope: Scope = "cluster"
    shard_label: str = "node"
    constant: Constant | None = field(default=None, compare=False)

    def spelled(self, known: set[str] | None) -> list[str]:
        """The spellings that the server has, in any case; all of them where it does not tell its names."""
        if known is None:
            return sorted({self.metric, self.metric.lower()} if self.scope == "activity" else {self.metric})
        return sorted(name for name in known if name.lower() == self.metric.lower())

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
    return [*_activity(activity), *_REQUESTS, *_CLUSTER, *hosts, *_PODS]


def among(selector: Selector, label: str, names: Iterable[str], *, without: bool = False) -> Selector:
    """A selector narrowed to some values of a label, or to all others, unless they are too many to list."""
    wanted = sorted(set(names))
    if len(wanted) > MOST_NAMES:
        return selector
    matcher = one_of(label, wanted)
    return selector.with_matchers(matcher.replace("=~", "!~", 1) if without else matcher)


def one_of(label: str, values: Iterable[str]) -> str:
    """A matcher of these values of a label, whatever characters they hold: PromQL's strings take JSON's escapes."""
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
    parts = ("device", "mig", "memory") if activity.memory else ("device", "mig")
    return [selector for _, selector in activity_series(activity, *parts)]


def compared(activity: Activity) -> list[list[Selector]]:
    """What settles the unit of a device's metric: for each measure, the better first, its metrics."""
    return list(
        grouped(
            (metric.measures, selector) for metric, selector in activity_series(activity, "compared")
        ).values()
    )


def activity_names(activity: Activity, *parts: str) -> list[str]:
    """The names of the metrics of these parts, the configured one's first."""
    return [selector.metric for _, selector in activity_series(activity, *parts)]


_METRICS = tomllib.loads((files("gpucost.collect.prometheus") / "metrics.toml").read_text(encoding="utf-8"))


def _listed(section: str, scope: Scope, shard_label: str) -> list[Selector]:
    """The selectors of a section; what its entries leave out is as given."""
    return [
        Selector(item["metric"], tuple(_ONLY.get(only, only) for only in item.get("only", ())), scope,
                 item.get("shard_label", shard_label), item.get("constant"))
        for item in _METRICS["selectors"][section]
    ]  # fmt: skip


def _claims(kind: Literal["pod", "device"], scope: Scope, shard_label: str) -> list[Selector]:
    return [Selector(metric, (), scope, shard_label) for metric in claim_metrics(kind)]


GPU_CAPACITY = Selector("kube_node_status_capacity", (_ONLY["accelerators"],))
_REQUESTS = [*_listed("requests", "requests", "uid"), *_claims("pod", "requests", "uid")]
_CLUSTER = [
    *_listed("cluster", "cluster", "node"),
    *_claims("device", "cluster", "resourceclaim"),
    *_listed("kueue", "cluster", "cluster_queue"),
    *_listed("interruptions", "cluster", "node_name"),
]
_HOSTS = _listed("hosts", "hosts", "uid")
_PODS = _listed("pods", "pods", "uid")

KSM = "kube-state-metrics"
ALLOW = f"{KSM}: keep the metric in --metric-allowlist"
NODE_LABELS_FIX = f"{KSM} --metric-labels-allowlist=nodes=[*]"
NAMESPACE_LABELS_FIX = f"{KSM} --metric-labels-allowlist=namespaces=[team]"
KSM_FIX = f"helm install {KSM} prometheus-community/{KSM}, and have Prometheus scrape it"
DCGM_FIX = "helm install dcgm-exporter gpu-helm-charts/dcgm-exporter, and have Prometheus scrape it on every GPU node"

REQUESTS = "kube_pod_container_resource_requests"
GPU_REQUESTS = f'{REQUESTS}{{resource=~"{GPU_RESOURCES}"}}'
# By family of metrics, series of objects that are not collected: they show that a family was exported while no GPU pod ran.
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
    """What brings the metric, whether the exporter runs or not."""
    return f"run dcgm-exporter with {metric} among its counters (-f) on every GPU node, and have Prometheus scrape it"


def mig_fix(metric: str) -> str:
    """What brings the metric of MIG instances, which the exporter leaves out by default."""
    return f"dcgm-exporter: add {metric} to its counters file (-f)"


@record
class Need:
    """A metric that is read, labels of which one has to stand on it, and what is lost without."""

    metric: str
    labels: list[str]
    lost: str
    essential: bool = False
    always: bool = True
    fix: str = ALLOW
    hint: bool = False


@record
class NodeFact:
    """A fact about nodes, and the labels that may tell it."""

    name: str
    labels: list[str]
    lost: str
    common: bool = True


def _needs(section: str) -> tuple[Need, ...]:
    return tuple(Need(**need) for need in _METRICS["needs"][section])


NEEDS, HOST_NEEDS, KUEUE_NEEDS = _needs("node"), _needs("hosts"), _needs("kueue")
NODE_FACTS = tuple(NodeFact(**fact) for fact in _METRICS["node_facts"])

# What tells whose the GPUs are that KAI and Run:ai reserve, looked for where they do.
RESERVATIONS = f'{REQUESTS}{{namespace=~"kai-resource-reservation|runai-reservation"}}'
ANNOTATIONS = "kube_pod_annotations"
FRACTIONS = ("annotation_gpu_fraction", "annotation_gpu_memory")
FRACTIONS_LOST = (
    "whole GPUs are charged to the namespace of the reservations, not to the pods that share them"
)
FRACTIONS_FIX = (
    f"{KSM} --metric-annotations-allowlist=pods=[gpu-fraction,gpu-memory,gpu-fraction-num-devices]"
)

# What is lost where a metric is there but its labels are not, or where nothing of a kind is.
NAMESPACE_LABELS_LOST = "teams cannot follow namespace labels"
REQUESTS_LOST = f"no pod has ever asked for a GPU ({REQUESTS} with a GPU resource)"


def stored_needs(activity: Activity) -> list[tuple[str, str, str, str]]:
    """What the store is searched for after a run and before a report: kind, metric, what is lost without it, and the fix.

    The kinds activity_name and mig_name are other names of activity and mig_activity.
    """
    return [
        *(("activity_name", name, "", "") for name in activity_names(activity, "device")),
        *(("mig_name", name, "", "") for name in activity_names(activity, "mig")),
        *(
            ("hint" if need.hint else "metric", need.metric, need.lost, need.fix)
            for need in NEEDS
            if need.always
        ),
        ("exporter", KSM, "nobody's hold on a GPU is known", KSM_FIX),
        ("labels", NODE_LABELS, NODE_LABELS_LOST, NODE_LABELS_FIX),
        ("team_labels", "kube_namespace_labels", NAMESPACE_LABELS_LOST, NAMESPACE_LABELS_FIX),
        ("requests", REQUESTS, REQUESTS_LOST, ALLOW),
        ("activity", activity.device_metric, ACTIVITY_LOST, activity_fix(activity.device_metric)),
        ("mig_activity", activity.mig_metric, MIG_ACTIVITY_LOST, mig_fix(activity.mig_metric)),
    ]


def needs(cost_basis: str) -> tuple[Need, ...]:
    """The metrics that figures by this cost basis need."""
    return NEEDS if cost_basis == "node" else (*NEEDS, *HOST_NEEDS)
