"""What is wrong with config, store, servers, metrics and prices, and the one command or setting that mends each."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpucost import pipeline
from gpucost.collect.prometheus.queries import (
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
    UNLISTED_REQUESTS,
    Need,
    mig_fix,
    needs,
)
from gpucost.config.load import load_config, places
from gpucost.config.model import Config, PrometheusSource
from gpucost.errors import ConfigError, GpucostError, SourceError
from gpucost.periods import MS_PER_HOUR, from_ms, iso, label_name
from gpucost.store.connection import Store
from gpucost.store.schema import StoreInfo


class Status(StrEnum):
    """ok: as it should be; warn: figures are poorer for it; fail: figures are missing or wrong."""

    ok = "ok"
    warn = "warn"
    fail = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `fix` is one command or setting, and stands wherever the status is not ok."""

    area: str
    subject: str
    status: Status
    found: str
    fix: str | None = None


# A daily collection is late after a day and a half.
STALE_AFTER = timedelta(hours=36)
COVERAGE_DAYS = 31
SHOWN_OF_A_KIND = 3
# Sources of prices that can be asked again -> the command that does.
REFRESHED = {"catalog": "gpucost collect prices", "spot_history": "gpucost collect spot"}


def check_store(config: Config, now: datetime) -> Iterator[Check]:
    """Does the store open, and is every server's data in it fresh?"""
    store = Store(config.store)
    if not store.exists:
        yield Check("store", str(store.path), Status.warn, "not there yet", "gpucost collect prometheus")
        return
    try:
        info = store.info()
    except GpucostError as error:
        yield Check("store", str(store.path), Status.fail, error.message, error.fix or "name another file with --store")
        return
    yield Check("store", str(store.path), Status.ok, f"opens; schema {info.schema_version}, {info.samples:,} activity samples")
    for server in config.prometheus:
        yield _freshness(server.source, info, now)


def _freshness(source: str, info: StoreInfo, now: datetime) -> Check:
    held = next((known for known in info.sources if known.source == source), None)
    if held is None:
        command = f"gpucost collect prometheus --source {shlex.quote(source)}"
        return Check("store", source, Status.warn, "nothing collected yet", command)
    period = f"holds {iso(held.start)} to {iso(held.end)}"
    if now - held.end > STALE_AFTER:
        days = (now - held.end) / timedelta(days=1)
        return Check("store", source, Status.warn, f"{period}, {days:.1f} days old", "gpucost collect prometheus, daily")
    return Check("store", source, Status.ok, period)


def check_prices(config: Config, now: datetime) -> Iterator[Check]:
    """Does the price book parse, has every node seen a price, and how old is it? Brings attribution up to date to tell."""
    from gpucost.price.book import read_book
    from gpucost.price.fx import rates

    if config.prices.book is None:
        yield Check("prices", "price book", Status.ok, "none; list prices of the catalog are used")
    else:
        try:
            rows = read_book(config.prices.book, config.currency, config.tz, rates(config))
            yield Check("prices", str(config.prices.book), Status.ok, f"{len(rows)} prices")
        except GpucostError as error:
            yield Check("prices", str(config.prices.book), Status.fail, error.message, error.fix or "correct the file")
            return
    store = Store(config.store)
    if store.exists:
        yield from _found_by_attribution(config, store, now)


def _found_by_attribution(config: Config, store: Store, now: datetime) -> Iterator[Check]:
    try:
        pipeline.attribute(config, store)
        with store.read() as con:
            nodes = con.execute("SELECT count(DISTINCT (cluster, node)) FROM nodes").fetchall()[0][0]
            ages = con.execute(_PRICE_AGES).fetchall()
            warnings = con.execute(
                "SELECT code, subject, message, fix, row_number() OVER (PARTITION BY code ORDER BY from_ms DESC, subject),"
                " count(*) OVER (PARTITION BY code) FROM warnings ORDER BY code, 5"
            ).fetchall()
    except GpucostError as error:
        yield Check("prices", "attribution", Status.fail, error.message, error.fix)
        return
    if not any(code == "unpriced_node" for code, *_ in warnings):
        yield Check("prices", "nodes", Status.ok, f"all {nodes} GPU nodes in the store have a price")
    yield from _price_ages(config, ages, now)
    for code, subject, message, fix, number, count in warnings:
        area = "prices" if code in ("unpriced_node", "stale_price") else "data"
        status = Status.fail if code == "unpriced_node" else Status.warn
        if number <= SHOWN_OF_A_KIND:
            more = f" (and {count - number} more)" if number == SHOWN_OF_A_KIND < count else ""
            look = f"gpucost sql \"from warnings where code = '{code}'\""
            yield Check(area, subject or code, status, message + more, fix or look)


# What the last price of each node comes from, and how old that is.
_PRICE_AGES = """
SELECT price_source, count(*), min(price_as_of), max(price_as_of)
FROM (FROM node_prices QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY to_ms DESC) = 1)
GROUP BY price_source ORDER BY ALL"""


def _price_ages(config: Config, ages: list[tuple[str, int, date | None, date | None]], now: datetime) -> Iterator[Check]:
    """For each source that nodes are priced from last: how many, and of which days its prices are."""
    today = now.astimezone(config.tz).date()
    for source, nodes, oldest, newest in ages:
        if oldest is None or newest is None:
            continue
        dates = f"of {oldest}" if oldest == newest else f"of {oldest} to {newest}"
        days = (today - oldest).days
        text = f"prices {nodes} node{'s' if nodes > 1 else ''} at present, {dates}: up to {days} days old"
        # the price book's owner dates it; a bill is as old as its month
        stale = source in REFRESHED and days > config.prices.stale_after_days
        yield Check("prices", source, Status.warn if stale else Status.ok, text, REFRESHED[source] if stale else None)


_COVERAGE = """
SELECT c.cluster, c.end_ms, coalesce(g.kind, ''), coalesce(count(g.kind), 0), coalesce(sum(g.to_ms - g.from_ms), 0),
    max(g.from_ms), arg_max(g.to_ms, g.from_ms), arg_max(g.families, g.from_ms), arg_max(g.reason, g.from_ms)
FROM (SELECT cluster, max(to_ms) AS end_ms, greatest(min(from_ms), end_ms - $1) AS since_ms FROM collected GROUP BY cluster) AS c
LEFT JOIN LATERAL (
    SELECT * REPLACE (greatest(from_ms, c.since_ms) AS from_ms, least(to_ms, c.end_ms) AS to_ms) FROM coverage_gaps
    WHERE cluster = c.cluster AND kind IN ('not_collected', 'partial') AND accepted_by IS NULL
) AS g ON g.from_ms < g.to_ms
GROUP BY ALL ORDER BY ALL"""


def check_coverage(config: Config) -> Iterator[Check]:
    """Until when each cluster is collected, and what of the month before that is missing. Attribution is up to date."""
    store = Store(config.store)
    if not store.exists:
        return
    try:
        with store.read() as con:
            rows = con.execute(_COVERAGE, [COVERAGE_DAYS * 24 * MS_PER_HOUR]).fetchall()
            known = [name for (name,) in con.execute("SELECT DISTINCT cluster FROM series ORDER BY ALL").fetchall()]
    except GpucostError:
        return  # said before
    for cluster, end_ms, kind, count, missing_ms, from_ms_, to_ms_, families, reason in rows:
        text = f"collected until {iso(from_ms(end_ms))}"
        if not count:
            yield Check("coverage", cluster, Status.ok, f"{text}, nothing missing in the {COVERAGE_DAYS} days before")
            continue
        start, end = iso(from_ms(from_ms_)), iso(from_ms(to_ms_))
        lacks = "from answers that were partial" if kind == "partial" else "missing"
        text += f"; {missing_ms / MS_PER_HOUR:.1f} h {lacks} in the {COVERAGE_DAYS} days before, in {count} gap(s)"
        text += f", the last {start} to {end} ({', '.join(families)}): {reason}"
        yield Check("coverage", cluster, Status.warn, text, f"gpucost collect prometheus --from {start} --to {end}")
    yield from _unknown_clusters(config, known)


def _unknown_clusters(config: Config, known: list[str]) -> Iterator[Check]:
    """Names in the settings that no series has, where there are series: what they declare or sign has no effect."""
    named = [("[[clusters]] name", cluster.name) for cluster in config.clusters]
    named += [("[[coverage.accept]] cluster", gap.cluster) for gap in config.coverage.accept if gap.cluster]
    for where, name in dict.fromkeys(named):
        if known and name not in known:
            text = f"no cluster is called {name}; known: {', '.join(known)}"
            yield Check("coverage", where, Status.warn, text, f"write a known name, or collect from the server that has {name}")


# Asks the server for a path under /api/v1 and returns the answer's data. Raises SourceError.
Ask = Callable[[str, Mapping[str, str]], Any]

# Prometheus looks back five minutes for a sample; a restart is no end.
FRESH = timedelta(minutes=10)
_SKEW = timedelta(minutes=2)
_SPANS = (
    (timedelta(days=1), timedelta(minutes=5)),
    (timedelta(days=30), timedelta(hours=1)),
    (timedelta(days=360), timedelta(hours=6)),
)
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Ends:
    """About when the newest samples lie, by cluster; empty where there are none, or the server does not tell."""

    now: datetime
    states: Mapping[str, datetime] = field(default_factory=dict)
    activity: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def last(self) -> datetime:
        """When all data ends; now where it goes on."""
        newest = max([*self.states.values(), *self.activity.values()], default=self.now)
        return newest if newest < self.now - FRESH else self.now

    def looked_at(self, ends: Mapping[str, datetime]) -> datetime:
        """The moment to look at what ends so: when it was last there."""
        end = max(ends.values(), default=self.last)
        return end if end < self.last - FRESH else self.last


def ends(ask: Ask, config: Config, label: str, now: datetime) -> Ends:
    """Looks for the newest samples of kube-state-metrics and of dcgm-exporter; `label` names a series' cluster."""
    activity = config.activity
    return Ends(
        now,
        _newest(ask, ("kube_node_info", "kube_pod_info"), label, now),
        _newest(ask, (activity.device_metric, activity.mig_metric), label, now),
    )


def check_times(area: str, data: Ends, config: Config) -> Iterator[Check]:
    """At which time the server was looked at, and who fell silent before: one finding for each that did."""
    if data.last < data.now:
        age = (data.now - data.last) / timedelta(days=1)
        status = Status.fail if age > 1 else Status.warn
        ago = f"{age:.0f} days" if age > 2 else f"{age * 24:.0f} hours"
        text = f"data ends at {iso(data.last)} ({ago} ago); the day before that was checked"
        yield Check(
            area, "time", status, text, "see its page of targets: kube-state-metrics and dcgm-exporter are scraped no more"
        )
    else:
        known = data.states or data.activity
        yield Check(
            area, "time", Status.ok, f"looked at {iso(data.last)} and the day before" + (", data until then" if known else "")
        )
    for subject, mine, other, lost in (
        (KSM, data.states, data.activity, "no time since then is collected"),
        (config.activity.device_metric, data.activity, data.states, f"{ACTIVITY_LOST} since then"),
    ):
        if mine and other and max(mine.values()) < data.last - FRESH:
            text = f"silent since {iso(max(mine.values()))}, while others go on: {lost}"
            yield Check(area, subject, Status.fail, text, "see on its page of targets why it is scraped no more")
    declared = {cluster.name for cluster in config.clusters}
    newest = max(data.states.values(), default=data.last)
    late = {name: end for name, end in data.states.items() if end < newest - FRESH and name not in declared}
    if late:
        text = "; ".join(f"{name or 'no cluster label'}: nothing since {iso(end)}" for name, end in sorted(late.items()))
        fix = "see its page of targets; a cluster that was taken down is declared: [[clusters]] name, until"
        yield Check(area, "clusters", Status.warn, text, fix)


def check_clock(area: str, answer: Any) -> Iterator[Check]:
    """`answer` is that to a query without a time: the server's clock says when it was asked."""
    try:
        skew = timedelta(seconds=float(answer["result"][0]["value"][0]) - time.time())
    except (LookupError, TypeError, ValueError, OverflowError):
        return
    if abs(skew) > _SKEW:
        where = "ahead of" if skew > timedelta() else "behind"
        minutes = abs(skew) / _MINUTE
        text = f"its clock is {minutes:.0f} minutes {where} this machine's: hours are collected too late, or asked for twice"
        yield Check(area, "clock", Status.warn, text, "let both follow a time server: chronyc tracking shows by how much they do")


def by_cluster(ask: Ask, query: str, at: datetime, label: str) -> dict[str, float]:
    """What a query by `label` gives at a moment; empty where the server does not tell."""
    try:
        rows = ask("query", {"query": query, "time": f"{at.timestamp():.0f}"})["result"]
        return {row["metric"].get(label, ""): float(row["value"][1]) for row in rows}
    except (SourceError, LookupError, TypeError, ValueError, AttributeError):
        return {}


def _newest(ask: Ask, metrics: tuple[str, ...], label: str, now: datetime) -> dict[str, datetime]:
    for span, step in _SPANS:
        found = _last_steps(ask, metrics, label, (now - span, now, step))
        if found:
            break
    else:
        return {}
    last = max(found.values())
    if last < now - FRESH:  # to the minute
        found |= _last_steps(ask, metrics, label, (last, min(last + step, now), _MINUTE))
    return found


def _last_steps(
    ask: Ask, metrics: tuple[str, ...], label: str, span: tuple[datetime, datetime, timedelta]
) -> dict[str, datetime]:
    start, end, step = span
    params = {
        "query": " or ".join(f"count by ({label}) ({metric})" for metric in dict.fromkeys(metrics)),
        "start": f"{start.timestamp():.0f}",
        "end": f"{end.timestamp():.0f}",
        "step": f"{step.total_seconds():.0f}",
    }
    try:
        rows = ask("query_range", params)["result"]
        return {row["metric"].get(label, ""): datetime.fromtimestamp(float(row["values"][-1][0]), UTC) for row in rows}
    except (SourceError, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return {}


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
    yield from _unlisted(area, seen)
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
    shards = by_cluster(ask, f"count by ({label}) ({ordinals})", at, label)
    for cluster, total in sorted(totals.items()):
        if 0 < shards.get(cluster, 0.0) < total:
            found = f"{shards[cluster]:.0f} of {total:.0f} shards of {KSM} are heard{_of(cluster)}: the others' pods are missing"
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


def _unlisted(area: str, seen: Seen) -> Iterator[Check]:
    """Resources that may be accelerators, though no table lists them."""
    if resources := seen.values(UNLISTED_REQUESTS, "resource"):
        found = f"{', '.join(sorted(resources))}: no resource that gpucost knows, attributed to nobody"
        yield Check(area, f"{REQUESTS}: others", Status.warn, found, "nothing to do where these are no accelerators")


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
    from gpucost.collect.prometheus.client import PrometheusClient, Retries

    client = PrometheusClient(source, Retries(attempts=2, initial=0.2, longest=1.0, jitter=0.1))
    try:
        yield client.get
    finally:
        client.close()


def examine(
    config_path: Path | None, store_path: Path | None, now: datetime, *, environ: Mapping[str, str] = os.environ
) -> Iterator[Check]:
    """Every check, as it is made. Raises nothing: what cannot be examined is a check that failed.

    A config that cannot be read ends the examination, since it says where everything else is.
    """
    try:
        config = load_config(config_path, store=store_path, environ=environ)
    except ConfigError as error:
        yield Check("config", "settings", Status.fail, error.message, error.fix)
        return
    yield _config_file(config, environ)
    yield from check_store(config, now)
    for source in config.prometheus:
        yield from check_server(source, config, now)
    yield from check_prices(config, now)
    yield from check_coverage(config)


def _config_file(config: Config, environ: Mapping[str, str]) -> Check:
    if config.path:
        return Check("config", str(config.path), Status.ok, f"read; {len(config.prometheus)} server(s)")
    looked = ", ".join(str(place) for place in places(environ, Path.cwd()))
    return Check("config", "file", Status.warn, f"none; defaults are in force. Looked for {looked}", "gpucost init")
