"""Checks of one Prometheus: does it answer, and does it hold the metrics and labels that the figures need?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from gpucost.config import Config, PrometheusSource
from gpucost.doctor.check import Check, Status
from gpucost.doctor.needs import GPU_REQUESTS, KSM, MIG_REQUESTS, NEEDS, NODE_FACTS, NODE_LABELS_FIX, REQUESTS, Need
from gpucost.errors import SourceError
from gpucost.model import to_ms

# Asks the server for a path under /api/v1 and returns the answer's data. Raises SourceError.
Ask = Callable[[str, Mapping[str, str]], Any]

LOOK_BACK = timedelta(days=1)


def check_server(source: PrometheusSource, config: Config, now: datetime, ask: Ask | None = None) -> Iterator[Check]:
    """Checks `source`; without an answer from it, that is the only one. `ask` replaces the connection, for tests."""
    area = source.source
    try:
        asked = ask or _connect(source, now)
        asked("query", {"query": "vector(1)"})
        yield Check(area, source.url, Status.ok, _about(asked))
        seen = Seen(asked, now)
        yield _requests(area, seen)
        for need in NEEDS:
            yield _needed(area, seen, need)
        yield from _node_labels(area, seen)
        yield from _team_labels(area, seen, config)
        yield from _activity(area, seen, config)
    except SourceError as error:
        yield Check(area, source.url, Status.fail, error.message, error.fix or "check [prometheus] url in gpucost.toml")


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
    if not labels:
        return Check(area, need.metric, need.status, f"not there: {need.lost}", need.fix)
    if not any(label in labels or f"exported_{label}" in labels for label in need.labels):
        found = f"has no label {' or '.join(need.labels)}: {need.lost}"
        return Check(area, need.metric, need.status, found, "keep it in metric_relabel_configs")
    return Check(area, need.metric, Status.ok, "there")


def _node_labels(area: str, seen: Seen) -> Iterator[Check]:
    labels = seen.labels("kube_node_labels")
    if not any(label.startswith("label_") for label in labels):
        lost = "spot, instance type, region and GPU model of nodes are unknown"
        yield Check(area, "kube_node_labels", Status.fail, f"no node label is exported: {lost}", NODE_LABELS_FIX)
        return
    for fact in NODE_FACTS:
        told_by = [label for label in fact.labels if label in labels]
        subject = f"kube_node_labels: {fact.name}"
        if told_by:
            yield Check(area, subject, Status.ok, ", ".join(told_by))
        else:
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


def _activity(area: str, seen: Seen, config: Config) -> Iterator[Check]:
    metric = config.activity.device_metric
    labels = seen.labels(metric)
    if not labels:
        yield Check(area, metric, Status.fail, "not there: all GPU time is unmeasured", "scrape dcgm-exporter on every GPU node")
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
        fix = f"dcgm-exporter: add {mig} to its counters file"
        yield Check(area, mig, Status.warn, "not there for MIG instances: their time is unmeasured", fix)
    elif sliced:
        yield Check(area, mig, Status.ok, "there for MIG instances")


def _connect(source: PrometheusSource, now: datetime) -> Ask:
    """Asks as the collector does, with its credentials and its words for what goes wrong; impatient, since a user waits."""
    import requests

    from gpucost.collect.prometheus_auth import session
    from gpucost.collect.prometheus_client import PrometheusClient, Retries

    client = PrometheusClient(source, Retries(attempts=2, initial=0.2, longest=1.0, jitter=0.1))
    opened = session(source)

    def ask(path: str, params: Mapping[str, str]) -> Any:
        if path == "query":
            return client.value(params["query"], to_ms(now))
        try:
            url = f"{source.url}/api/v1/{path}"
            response = opened.get(url, params=dict(params), timeout=source.timeout_seconds, allow_redirects=False)
            if response.status_code != 200:
                raise SourceError(f"{source.url} answered HTTP {response.status_code} for /api/v1/{path}")
            return response.json()["data"]
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise SourceError(f"{source.url} gave no usable answer for /api/v1/{path}: {type(error).__name__}") from None

    return ask
