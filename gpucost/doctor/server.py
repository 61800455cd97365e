"""Checks of one Prometheus: does it answer, and does it hold the metrics and labels that the figures need?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, timedelta

from gpucost.collect.needs import (
    ACTIVITY_LOST,
    ANNOTATIONS,
    CONDITIONAL_NEEDS,
    DCGM_FIX,
    FRACTIONS,
    FRACTIONS_FIX,
    FRACTIONS_LOST,
    GPU_REQUESTS,
    KSM,
    KSM_FIX,
    MIG_ACTIVITY_LOST,
    MIG_REQUESTS,
    NODE_FACTS,
    NODE_LABELS,
    NODE_LABELS_FIX,
    NODE_LABELS_LOST,
    POD_LABELS,
    REQUESTS,
    RESERVATIONS,
    TYPE_LABELS,
    Need,
    mig_fix,
    needs,
)
from gpucost.config import Config, PrometheusSource
from gpucost.doctor.check import Check, Status
from gpucost.doctor.times import Ask, by_cluster, check_clock, check_times, ends
from gpucost.errors import SourceError
from gpucost.model import label_name

LOOK_BACK = timedelta(days=1)


def check_server(source: PrometheusSource, config: Config, now: datetime, ask: Ask | None = None) -> Iterator[Check]:
    """Checks `source`; without an answer from it, that is the only one. `ask` replaces the connection, for tests."""
    area = source.source
    connected: AbstractContextManager[Ask] = nullcontext(ask) if ask else _connected(source)
    try:
        with connected as asked:
            answer = asked("query", {"query": "vector(1)"})
            yield Check(area, source.url, Status.ok, _about(asked))
            yield from check_clock(area, answer)
            yield from _partial(area, source, asked)
            found = ends(asked, config, source.cluster_label, now)
            yield from check_times(area, found, config)
            if found.activity and not found.states:
                yield Check(area, KSM, Status.fail, "no sample of it: no pod and no node is known", KSM_FIX)
            else:
                looked_at = found.looked_at(found.states)
                yield from _states(area, Seen(asked, looked_at), config)
                yield from _shards(area, asked, looked_at, source.cluster_label)
            yield from _activity(area, Seen(asked, found.looked_at(found.activity)), config)
    except SourceError as error:
        yield Check(area, source.url, Status.fail, error.message, error.fix or "check [prometheus] url in gpucost.toml")


def _states(area: str, seen: Seen, config: Config) -> Iterator[Check]:
    """What kube-state-metrics, and what exports with it, say of pods and nodes."""
    yield _requests(area, seen)
    for need in needs(config.prices.cost_basis):
        yield _needed(area, seen, need)
    if (labels := seen.labels("kube_pod_info")) and not labels & {"uid", "exported_uid"}:
        found = "has no label uid: pods are told apart by name, node and start alone"
        yield Check(area, "kube_pod_info: uid", Status.warn, found, "keep it in metric_relabel_configs")
    for sign, wanted in CONDITIONAL_NEEDS:
        if seen.labels(sign):
            for need in wanted:
                yield _needed(area, seen, need)
    yield from _fractions(area, seen)
    yield from _node_labels(area, seen)
    yield from _team_labels(area, seen, config)
    yield _type_labels(area, seen, config)


class Seen:
    """What a server holds of the last day."""

    def __init__(self, ask: Ask, now: datetime) -> None:
        self._ask = ask
        self._range = {"start": f"{(now - LOOK_BACK).timestamp():.0f}", "end": f"{now.timestamp():.0f}"}

    def labels(self, selector: str) -> set[str]:
        """Names of the labels that series of `selector` carry; empty where there is no such series."""
        # VictoriaMetrics answers with the name alone where there is nothing.
        return set(self._ask("labels", {"match[]": selector, **self._range}) or ()) - {"__name__"}

    def values(self, selector: str, label: str) -> set[str]:
        """The values of one label on series of `selector`."""
        return set(self._ask(f"label/{label}/values", {"match[]": selector, **self._range}) or ())


def _about(ask: Ask) -> str:
    """Version and retention, where the server tells; many lack the pages."""
    said = "answers"
    for page, key, words in (("buildinfo", "version", ", version {}"), ("runtimeinfo", "storageRetention", ", keeps {}")):
        try:
            value = ask(f"status/{page}", {}).get(key)
        except (SourceError, AttributeError):
            value = None
        said += words.format(value) if value else ""
    return said


def _partial(area: str, source: PrometheusSource, ask: Ask) -> Iterator[Check]:
    """What answers may leave out: Thanos names its stores, and what was last wrong with them."""
    try:
        stores = [store for kind in ask("stores", {}).values() for store in kind]
        down = sorted(str(store["name"]) for store in stores if store["lastError"])
    except (SourceError, LookupError, TypeError, AttributeError):
        down = []
    if down:
        found = f"no answer from {', '.join(down)}: what they hold is missing"
        yield Check(area, "stores", Status.fail, found, "start them; their page is /stores")
    if source.partial_response == "accept":
        found = "partial answers are accepted: their hours are loaded, and marked"
        yield Check(
            area, "partial_response", Status.warn, found, 'partial_response = "refuse" in [prometheus], once all stores answer'
        )


def _shards(area: str, ask: Ask, at: datetime, label: str) -> Iterator[Check]:
    """Is every shard of kube-state-metrics heard, and would it be noticed if one were not?"""
    targets = by_cluster(ask, f"count by ({label}) (count by ({label}, instance) (kube_pod_info))", at, label)
    totals = by_cluster(ask, f"max by ({label}) (kube_state_metrics_total_shards)", at, label)
    ordinals = f"count by ({label}, shard_ordinal) (kube_state_metrics_shard_ordinal)"
    heard = by_cluster(ask, f"count by ({label}) ({ordinals})", at, label)
    for cluster, total in sorted(totals.items()):
        if 0 < heard.get(cluster, 0.0) < total:
            found = (
                f"{heard[cluster]:.0f} of {total:.0f} shards of {KSM} are heard{_of(cluster)}: the pods of the others are missing"
            )
            yield Check(area, "kube_state_metrics_total_shards", Status.fail, found, "see why the others are not scraped")
    for cluster, count in sorted(targets.items()):
        if count > 1 and cluster not in totals:
            found = (
                f"not there, though {count:.0f} {KSM} report pods{_of(cluster)}: if they are shards, nobody notices one that dies"
            )
            fix = f"scrape the telemetry port of {KSM}, too (8081; selfMonitor.enabled in its Helm chart)"
            yield Check(area, "kube_state_metrics_total_shards", Status.warn, found, fix)


def _of(cluster: str) -> str:
    return f" of cluster {cluster}" if cluster else ""


def _requests(area: str, seen: Seen) -> Check:
    if resources := seen.values(GPU_REQUESTS, "resource"):
        return Check(area, REQUESTS, Status.ok, "GPUs requested as " + ", ".join(sorted(resources)))
    if seen.labels(REQUESTS):
        return Check(area, REQUESTS, Status.warn, "no pod requested a GPU in the last day", "nothing to do if that is so")
    return Check(
        area, REQUESTS, Status.fail, "not there: nobody holds a GPU", f"scrape {KSM}, and keep the metric in its allowlist"
    )


def _needed(area: str, seen: Seen, need: Need) -> Check:
    labels = seen.labels(need.metric)
    status = Status.fail if need.essential else Status.warn
    if not labels:
        return Check(area, need.metric, status, f"not there: {need.lost}", need.fix)
    if not any(label in labels or f"exported_{label}" in labels for label in need.labels):
        found = f"has no label {' or '.join(need.labels)}: {need.lost}"
        return Check(area, need.metric, status, found, "keep it in metric_relabel_configs")
    return Check(area, need.metric, Status.ok, "there")


def _fractions(area: str, seen: Seen) -> Iterator[Check]:
    """What tells who shares the GPUs that KAI or Run:ai reserves, where it does."""
    if seen.labels(RESERVATIONS):
        told_by = [label for label in FRACTIONS if label in seen.labels(ANNOTATIONS)]
        if told_by:
            yield Check(area, ANNOTATIONS, Status.ok, ", ".join(told_by))
        else:
            found = f"neither gpu-fraction nor gpu-memory is exported: {FRACTIONS_LOST}"
            yield Check(area, ANNOTATIONS, Status.fail, found, FRACTIONS_FIX)


def _node_labels(area: str, seen: Seen) -> Iterator[Check]:
    labels = seen.labels(NODE_LABELS)
    if not any(label.startswith("label_") for label in labels):
        yield Check(area, NODE_LABELS, Status.fail, f"no node label is exported: {NODE_LABELS_LOST}", NODE_LABELS_FIX)
        return
    for fact in NODE_FACTS:
        told_by = [label for label in fact.labels if label in labels]
        subject = f"{NODE_LABELS}: {fact.name}"
        if told_by:
            yield Check(area, subject, Status.ok, ", ".join(told_by))
        elif fact.common:
            yield Check(area, subject, Status.warn, f"no label tells it: {fact.lost}", NODE_LABELS_FIX)


def _team_labels(area: str, seen: Seen, config: Config) -> Iterator[Check]:
    """Labels that the config reads teams from; the namespace label `team` is optional where nothing is set."""
    gathered = {label for team in config.teams for label in team.labels}
    wanted = [
        ("namespace", "kube_namespace_labels", config.team_labels.namespace),
        ("pod", "kube_pod_labels", config.team_labels.pod),
    ]
    for kind, metric, label in wanted:
        names = {label} if label else gathered if kind == "namespace" and not config.team_labels.pod else set()
        for name in sorted(names):
            spelled = "label_" + re.sub(r"[^A-Za-z0-9_]", "_", name)
            if spelled in seen.labels(metric):
                yield Check(area, metric, Status.ok, f"{spelled} is there")
            else:
                fix = f"{KSM} --metric-labels-allowlist={kind}s=[{name}]"
                yield Check(area, metric, Status.fail, f"{spelled} is not exported: teams by {kind} label are unknown", fix)


def _type_labels(area: str, seen: Seen, config: Config) -> Check:
    """Labels that tell what a workload is for, of which any will do."""
    subject = f"{POD_LABELS}: workload type"
    labels = seen.labels(POD_LABELS)
    if told_by := [label_name(label) for label in TYPE_LABELS if label_name(label) in labels]:
        return Check(area, subject, Status.ok, ", ".join(told_by))
    allowed = [*([config.team_labels.pod] if config.team_labels.pod else []), *TYPE_LABELS]
    fix = f"{KSM} --metric-labels-allowlist=pods=[{','.join(allowed)}]"
    return Check(area, subject, Status.warn, "no label tells it: owners, names and images do", fix)


def _activity(area: str, seen: Seen, config: Config) -> Iterator[Check]:
    metric = config.activity.device_metric
    labels = seen.labels(metric)
    if not labels:
        yield Check(area, metric, Status.fail, f"not there: {ACTIVITY_LOST}", DCGM_FIX)
    elif not labels & {"pod", "exported_pod"}:
        fix = "dcgm-exporter: set DCGM_EXPORTER_KUBERNETES=true"
        yield Check(area, metric, Status.warn, "names no pod: only nodes with one holder can be measured", fix)
    elif "exported_pod" not in labels and all("dcgm" in pod for pod in seen.values(metric, "pod")):
        fix = "dcgm-exporter: set DCGM_EXPORTER_KUBERNETES=true; scrape it with honor_labels: true"
        yield Check(area, metric, Status.warn, "names only the exporter's own pod, or no GPU is held", fix)
    else:
        yield Check(area, metric, Status.ok, "there, and names pods")
    mig = config.activity.mig_metric
    sliced = "GPU_I_ID" in labels or seen.values(MIG_REQUESTS, "resource")
    if sliced and "GPU_I_ID" not in seen.labels(mig):
        yield Check(area, mig, Status.warn, f"not there: {MIG_ACTIVITY_LOST}", mig_fix(mig))
    elif sliced:
        yield Check(area, mig, Status.ok, "there for MIG instances")


@contextmanager
def _connected(source: PrometheusSource) -> Iterator[Ask]:
    """Asks as the collector does, with its credentials and its words for what goes wrong; impatient, since a user waits."""
    from gpucost.collect.prometheus_client import PrometheusClient, Retries

    client = PrometheusClient(source, Retries(attempts=2, initial=0.2, longest=1.0, jitter=0.1))
    try:
        yield client.get
    finally:
        client.close()
