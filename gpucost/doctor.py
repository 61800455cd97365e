"""Checks of config, store, servers, metrics and prices, with one fix for each problem."""

import os
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from gpucost import pipeline
from gpucost.catalog import activity_metrics
from gpucost.collect.prometheus.client import Ask, PrometheusClient, Retries, status
from gpucost.collect.prometheus.queries import (
    ACTIVITY_LOST,
    ANNOTATIONS,
    DCGM_FIX,
    FRACTIONS,
    FRACTIONS_FIX,
    FRACTIONS_LOST,
    GPU_REQUESTS,
    KSM,
    KSM_FIX,
    KUEUE_NEEDS,
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
    activity_fix,
    activity_names,
    mig_fix,
    needs,
)
from gpucost.config.files import places
from gpucost.config.load import load_config
from gpucost.config.model import Config, PrometheusSource
from gpucost.errors import ConfigError, GpucostError, SourceError
from gpucost.periods import iso, label_name
from gpucost.records import frozen_dataclass
from gpucost.store.connection import Store
from gpucost.store.sqlfiles import column


class Status(StrEnum):
    """ok: no problem; warn: less accurate figures; fail: missing or wrong figures."""

    ok = "ok"
    warn = "warn"
    fail = "fail"


OK, WARN, FAIL = Status


@frozen_dataclass
class SetupCheck:
    """One check. `fix` is one command or setting, set unless the status is ok."""

    area: str
    subject: str
    status: Status
    found: str
    fix: str | None = None


Checks = Iterator[SetupCheck]
# A check of a server, without its area (the server): subject, status, result and fix.
Finding = tuple[str, Status, str, str | None]
Findings = Iterator[Finding]

# A daily collection is late after a day and a half.
STALE_AFTER = timedelta(hours=36)
# Price sources that can be refreshed, with the command for each.
REFRESHED = {"catalog": "gpucost collect prices", "spot_history": "gpucost collect spot"}


def check_store(config: Config, now: datetime) -> Checks:
    """Check that the store opens and that its data from each server is fresh."""
    store, path = Store.of(config), str(config.store)
    if not store.exists:
        yield SetupCheck("store", path, WARN, "does not exist yet", "gpucost collect prometheus")
        return
    try:
        info = store.info()
    except GpucostError as error:
        yield SetupCheck("store", path, FAIL, error.message, error.fix or "name another file with --store")
        return
    yield SetupCheck(
        "store", path, OK, f"opens; schema {info.schema_version}, {info.samples:,} activity samples"
    )
    has_slurm = any(source.kind == "slurm" for source in info.sources)
    stored = {source.source: source for source in info.sources}
    for server in config.prometheus:
        source = server.source
        if part := stored.get(source):
            text, age = f"holds {iso(part.start)} to {iso(part.end)}", now - part.end
            if age > STALE_AFTER:
                text += f", {age / timedelta(days=1):.1f} days old"
                yield SetupCheck("store", source, WARN, text, "gpucost collect prometheus, daily")
            else:
                yield SetupCheck("store", source, OK, text)
        # a store filled by Slurm has no use for the default server
        elif not has_slurm or "prometheus" in config.model_fields_set:
            fix = f"gpucost collect prometheus --source {shlex.quote(source)}"
            yield SetupCheck("store", source, WARN, "nothing collected yet", fix)


def check_slurm(config: Config) -> Checks:
    """Check that the Slurm under [slurm] answers and shows all users' jobs, if configured."""
    from gpucost.collect.slurm.live import Commands, slurm_of
    from gpucost.collect.slurm.sacct import sacct_command

    settings = config.slurm
    if not (settings.sacct or settings.slurmrestd):
        return
    try:
        source = slurm_of(settings)
        cluster = source.cluster() or settings.cluster or "a cluster without a name"
        retention = source.retention()
        hidden = source.hidden() if isinstance(source, Commands) else None
    except GpucostError as error:
        place = settings.slurmrestd or settings.sacct or ""
        yield SetupCheck("slurm", place, FAIL, error.message, error.fix or "correct [slurm]")
        return
    if hidden:
        text = f"PrivateData hides other users' {hidden}: their GPUs would look unallocated"
        yield SetupCheck(
            "slurm", source.name, FAIL, text, "sacctmgr modify user NAME set adminlevel=operator"
        )
        return
    keeps = f", and keeps jobs for {retention.days} days" if retention else ""
    yield SetupCheck("slurm", source.name, OK, f"answers for {cluster}{keeps}")
    yield SetupCheck("slurm", "sacct for billed jobs", OK, sacct_command())
    yield SetupCheck("slurm", "sacct with nodes and GPUs", OK, sacct_command(steps=True))


def check_prices(config: Config, now: datetime) -> Checks:
    """Check the price book, that every node has a price, and the age of prices.

    This brings attribution up to date.
    """
    from gpucost.price.book import read_book
    from gpucost.price.fx import rates

    book = config.prices.book
    if book is None:
        yield SetupCheck("prices", "price book", OK, "none; the catalog's list prices are used")
    else:
        try:
            rows = read_book(book, config.currency, config.tz, rates(config))
        except GpucostError as error:
            yield SetupCheck("prices", str(book), FAIL, error.message, error.fix or "correct the file")
            return
        yield SetupCheck("prices", str(book), OK, f"{len(rows)} prices")
    store = Store.of(config)
    if not store.exists:
        return
    try:
        pipeline.attribute(config, store)
        with store.read() as con:
            nodes = con.execute("SELECT count(DISTINCT (cluster, node)) FROM nodes").fetchall()[0][0]
            ages = con.execute(_PRICE_AGES).fetchall()
            warnings = con.execute(_WARNINGS).fetchall()
    except GpucostError as error:
        yield SetupCheck("prices", "attribution", FAIL, error.message, error.fix)
        return
    if not any(is_failed for _, _, is_failed, _, _ in warnings):
        yield SetupCheck("prices", "nodes", OK, f"all {nodes} GPU nodes in the store have a price")
    yield from _price_ages(config, ages, now)
    for area, subject, is_failed, text, fix in warnings:
        yield SetupCheck(area, subject, FAIL if is_failed else WARN, text, fix)


# The newest three warnings of each kind; the third also counts the rest.
_WARNINGS = """
SELECT CASE WHEN code IN ('unpriced_node', 'stale_price') THEN 'prices' ELSE 'data' END, coalesce(nullif(subject, ''), code),
    code = 'unpriced_node', message || CASE WHEN number = 3 AND count > 3 THEN ' (and ' || (count - 3) || ' more)' ELSE '' END,
    coalesce(fix, 'gpucost sql "from warnings where code = ''' || code || '''"')
FROM (SELECT *, row_number() OVER (PARTITION BY code ORDER BY from_ms DESC, subject) AS number,
    count(*) OVER (PARTITION BY code) AS count FROM warnings)
WHERE number <= 3
ORDER BY code, number"""
# Source and age of each node's last price.
_PRICE_AGES = """
SELECT price_source, count(*), min(price_as_of), max(price_as_of)
FROM (FROM node_prices QUALIFY row_number() OVER (PARTITION BY node_id ORDER BY to_ms DESC) = 1)
GROUP BY price_source HAVING min(price_as_of) IS NOT NULL ORDER BY ALL"""


def _price_ages(config: Config, ages: list[tuple[str, int, date, date]], now: datetime) -> Checks:
    """Number of nodes and dates of prices for each source of the nodes' last prices."""
    for source, nodes, oldest, newest in ages:
        dates = f"price date {oldest}" if oldest == newest else f"price dates {oldest} to {newest}"
        days = (now.astimezone(config.tz).date() - oldest).days
        text = f"prices {nodes} node{'s' if nodes > 1 else ''} now, {dates}"
        if days > 0:
            text += f", up to {days} day{'s' if days > 1 else ''} old"
        # the price book's owner dates it; a bill is as old as its month
        is_stale = source in REFRESHED and days > config.prices.stale_after_days
        yield SetupCheck(
            "prices", source, WARN if is_stale else OK, text, REFRESHED[source] if is_stale else None
        )


_CLUSTERS = """
SELECT cluster FROM series
UNION SELECT source FROM loads WHERE kind = 'slurm'
ORDER BY 1"""


def check_clusters(config: Config) -> Checks:
    """Cluster names in the settings that the store lacks: such settings have no effect."""
    store = Store.of(config)
    if not store.exists:
        return
    try:
        with store.read() as con:
            stored = column(con, _CLUSTERS)
    except GpucostError:
        return  # an earlier check reports it
    named = [("[[clusters]] name", cluster.name) for cluster in config.clusters]
    named += [("[[coverage.accept]] cluster", gap.cluster) for gap in config.coverage.accept if gap.cluster]
    for where, name in dict.fromkeys(named):
        if stored and name not in stored:
            text = f"unknown cluster {name}; known: {', '.join(stored)}"
            fix = f"use a known name, or collect from the server that has {name}"
            yield SetupCheck("coverage", where, WARN, text, fix)


# Prometheus looks back five minutes for a sample; a restart does not end a series.
FRESH = timedelta(minutes=10)
LOOK_BACK = timedelta(days=1)
_SKEW = timedelta(minutes=2)
_SPANS = (
    (timedelta(days=1), timedelta(minutes=5)),
    (timedelta(days=30), timedelta(hours=1)),
    (timedelta(days=360), timedelta(hours=6)),
)
_MINUTE = timedelta(minutes=1)
# errors from answers of servers that lack an endpoint or are not a Prometheus
_UNREADABLE = (SourceError, LookupError, TypeError, ValueError, AttributeError, OverflowError)


def check_server(source: PrometheusSource, config: Config, now: datetime, ask: Ask | None = None) -> Checks:
    """Check `source`; without an answer, this is its only check.

    `ask` replaces the connection in tests.
    """
    try:
        # with the collector's credentials and error texts, but few retries: a user waits
        retries = Retries(attempts=2, initial=0.2, longest=1.0, jitter=0.1)
        with closing(PrometheusClient(source, retries)) as client:
            for finding in _server(source, config, now, ask or client.get):
                yield SetupCheck(source.source, *finding)
    except SourceError as error:
        fix = error.fix or "check [prometheus] url in gpucost.toml"
        yield SetupCheck(source.source, source.url, FAIL, error.message, fix)


def _server(source: PrometheusSource, config: Config, now: datetime, ask: Ask) -> Findings:
    answer = ask("query", {"query": "vector(1)"})
    version, retention = status(ask, "buildinfo", "version"), status(ask, "runtimeinfo", "storageRetention")
    about = "answers" + (f", version {version}" if version else "")
    yield source.url, OK, about + (f", keeps {retention}" if retention else ""), None
    yield from _clock(answer)
    yield from _partial(source, ask)
    label, activity_metric = source.cluster_label, config.activity.device_metric
    states = _newest(ask, ("kube_node_info", "kube_pod_info"), label, now)
    activity = _newest(ask, tuple(activity_names(config.activity, "device", "mig")), label, now)
    # the end of all data, or now if it is fresh
    last = max([*states.values(), *activity.values()], default=now)
    last = last if last < now - FRESH else now

    def looked_at(ends: Mapping[str, datetime]) -> datetime:
        """The end of these series, or of all data if they are fresh."""
        end = max(ends.values(), default=last)
        return end if end < last - FRESH else last

    yield from _end(last, now, has_data=bool(states or activity))
    for subject, mine, other, lost in (
        (KSM, states, activity, "data since then is not collected"),
        (activity_metric, activity, states, f"{ACTIVITY_LOST} since then"),
    ):
        if mine and other and max(mine.values()) < last - FRESH:
            text = f"silent since {iso(max(mine.values()))}, while other metrics continue: {lost}"
            yield subject, FAIL, text, "see on Prometheus' targets page why it is not scraped"
    yield from _late_clusters(states, config)
    if states or not activity:
        yield from _states(Seen(ask, looked_at(states)), config)
        yield from _shards(ask, looked_at(states), label)
    elif config.hosts:
        yield activity_metric, OK, "present, and [[hosts]] describes machines without Kubernetes", None
        return
    else:
        yield KSM, FAIL, "no samples: pods and nodes are unknown", KSM_FIX
    yield from _activity(Seen(ask, looked_at(activity)), config)


def _end(last: datetime, now: datetime, *, has_data: bool) -> Findings:
    if last == now:
        data = ", data until then" if has_data else ""
        yield "time", OK, f"checked at {iso(last)} and the day before{data}", None
        return
    days = (now - last) / timedelta(days=1)
    ago = f"{days:.0f} days" if days > 2 else f"{days * 24:.0f} hours"
    text = f"data ends at {iso(last)} ({ago} ago); the day before that was checked"
    fix = "see Prometheus' targets page: kube-state-metrics and dcgm-exporter are not scraped"
    yield "time", FAIL if days > 1 else WARN, text, fix


def _late_clusters(states: Mapping[str, datetime], config: Config) -> Findings:
    """Undeclared clusters that fell silent before others."""
    declared = {cluster.name for cluster in config.clusters}
    late = [
        f"{name or 'no cluster label'}: no samples since {iso(end)}"
        for name, end in sorted(states.items())
        if end < max(states.values()) - FRESH and name not in declared
    ]
    if late:
        fix = "see Prometheus' targets page; declare a removed cluster: [[clusters]] name, until"
        yield "clusters", WARN, "; ".join(late), fix


def _clock(answer: Any) -> Findings:
    """Check the server's clock by `answer`, from a query without a time."""
    try:
        skew = timedelta(seconds=float(answer["result"][0]["value"][0]) - time.time())
    except _UNREADABLE:
        return
    if abs(skew) > _SKEW:
        where = "ahead of" if skew > timedelta() else "behind"
        minutes = f"{abs(skew) / _MINUTE:.0f} minutes {where} this machine's"
        text = f"its clock is {minutes}: hours are collected too late, or queried twice"
        yield "clock", WARN, text, "let both follow a time server: chronyc tracking shows the offset"


def _by_cluster(ask: Ask, path: str, label: str, read: Callable[[Any], Any], **params: Any) -> dict[str, Any]:
    """The result of a query by `label`, by cluster; empty without a usable answer.

    Moments are datetimes; `read` reads a row.
    """
    texts = {
        name: f"{value.timestamp():.0f}" if isinstance(value, datetime) else str(value)
        for name, value in params.items()
    }
    try:
        return {row["metric"].get(label, ""): read(row) for row in ask(path, texts)["result"]}
    except _UNREADABLE:
        return {}


def _newest(ask: Ask, metrics: tuple[str, ...], label: str, now: datetime) -> dict[str, datetime]:
    """The approximate time of the newest samples of any of `metrics`, by cluster."""
    query = " or ".join(f"count by ({label}) ({metric})" for metric in dict.fromkeys(metrics))

    def last_steps(start: datetime, end: datetime, step: timedelta) -> dict[str, datetime]:
        return _by_cluster(
            ask, "query_range", label, lambda row: datetime.fromtimestamp(float(row["values"][-1][0]), UTC),
            query=query, start=start, end=end, step=f"{step.total_seconds():.0f}",
        )  # fmt: skip

    for span, step in _SPANS:
        if newest := last_steps(now - span, now, step):
            last = max(newest.values())
            # refine to the minute
            return newest | (last_steps(last, min(last + step, now), _MINUTE) if last < now - FRESH else {})
    return {}


class Seen:
    """A server's data of the day before a moment."""

    def __init__(self, ask: Ask, at: datetime) -> None:
        self._ask = ask
        self._range = {"start": f"{(at - LOOK_BACK).timestamp():.0f}", "end": f"{at.timestamp():.0f}"}

    def labels(self, selector: str) -> set[str]:
        """Label names on series of `selector`; empty without such series."""
        # Without series, VictoriaMetrics answers with the name only.
        return set(self._ask("labels", {"match[]": selector, **self._range}) or ()) - {"__name__"}

    def values(self, selector: str, label: str) -> set[str]:
        """The values of one label on series of `selector`."""
        return set(self._ask(f"label/{label}/values", {"match[]": selector, **self._range}) or ())


def _partial(source: PrometheusSource, ask: Ask) -> Findings:
    """Check for missing stores (Thanos lists its stores with their last errors)."""
    try:
        stores = [store for kind in ask("stores", {}).values() for store in kind]
        down = sorted(str(store["name"]) for store in stores if store["lastError"])
    except _UNREADABLE:
        down = []
    if down:
        text = f"no answer from {', '.join(down)}: their data is missing"
        yield "stores", FAIL, text, "start them; they are listed on /stores"
    if source.partial_response == "accept":
        text = "partial answers are accepted: their hours are loaded and marked"
        fix = 'partial_response = "refuse" in [prometheus], once all stores answer'
        yield "partial_response", WARN, text, fix


def _shards(ask: Ask, at: datetime, label: str) -> Findings:
    """Check that every shard of kube-state-metrics is scraped and that a missing one would show."""
    subject = "kube_state_metrics_total_shards"

    def counts(query: str) -> dict[str, float]:
        return _by_cluster(ask, "query", label, lambda row: float(row["value"][1]), query=query, time=at)

    targets = counts(f"count by ({label}) (count by ({label}, instance) (kube_pod_info))")
    totals = counts(f"max by ({label}) ({subject})")
    shards = counts(
        f"count by ({label}) (count by ({label}, shard_ordinal) (kube_state_metrics_shard_ordinal))"
    )
    for cluster, total in sorted(totals.items()):
        if 0 < shards.get(cluster, 0.0) < total:
            text = f"{shards[cluster]:.0f} of {total:.0f} {KSM} shards{_where(cluster)} are scraped: pods of the rest are missing"
            yield subject, FAIL, text, "see why the others are not scraped"
    for cluster, count in sorted(targets.items()):
        if count > 1 and cluster not in totals:
            pods = f"missing, but {count:.0f} {KSM} report pods{_where(cluster)}"
            text = f"{pods}: if they are shards, a missing one goes unnoticed"
            fix = f"also scrape the telemetry port of {KSM} (8081; selfMonitor.enabled in its Helm chart)"
            yield subject, WARN, text, fix


def _where(cluster: str) -> str:
    return f" of cluster {cluster}" if cluster else ""


def _states(seen: Seen, config: Config) -> Findings:
    """Check metrics of pods and nodes from kube-state-metrics and related exporters."""
    yield _requests(seen)
    if resources := seen.values(UNLISTED_REQUESTS, "resource"):
        text = f"{', '.join(sorted(resources))}: unknown to gpucost, not attributed"
        yield f"{REQUESTS}: others", WARN, text, "ignore this if they are not accelerators"
    for need in needs(config.prices.cost_basis):
        yield _needed(seen, need)
    if (labels := seen.labels("kube_pod_info")) and not labels & {"uid", "exported_uid"}:
        text = "has no label uid: pods are identified by name, node and start only"
        yield "kube_pod_info: uid", WARN, text, "keep it in metric_relabel_configs"
    if seen.labels("kueue_pending_workloads"):
        for need in KUEUE_NEEDS:
            yield _needed(seen, need)
    # holders of GPUs reserved by KAI or Run:ai, if there are any
    if seen.labels(RESERVATIONS):
        text = f"neither gpu-fraction nor gpu-memory is exported: {FRACTIONS_LOST}"
        yield _any_label(ANNOTATIONS, seen.labels(ANNOTATIONS), FRACTIONS, (FAIL, text, FRACTIONS_FIX))
    yield from _node_labels(seen)
    yield from _team_labels(seen, config)
    allowed = filter(None, (config.team_labels.pod, *TYPE_LABELS))
    fix = f"{KSM} --metric-labels-allowlist=pods=[{','.join(allowed)}]"
    lack = (WARN, "not labeled: derived from owners, names and images", fix)
    yield _any_label(
        f"{POD_LABELS}: workload type", seen.labels(POD_LABELS), map(label_name, TYPE_LABELS), lack
    )


def _requests(seen: Seen) -> Finding:
    if resources := seen.values(GPU_REQUESTS, "resource"):
        return REQUESTS, OK, "GPUs requested as " + ", ".join(sorted(resources)), None
    if seen.labels(REQUESTS):
        return REQUESTS, WARN, "no pod requested a GPU in the last day", "ignore this if it is true"
    return (
        REQUESTS,
        FAIL,
        "missing: no GPU is allocated",
        f"scrape {KSM}, and keep the metric in its allowlist",
    )


def _needed(seen: Seen, need: Need) -> Finding:
    labels = seen.labels(need.metric)
    bad = FAIL if need.essential else WARN
    if not labels:
        return need.metric, bad, f"missing: {need.lost}", need.fix
    if not any(label in labels or f"exported_{label}" in labels for label in need.labels):
        return (
            need.metric,
            bad,
            f"has no label {' or '.join(need.labels)}: {need.lost}",
            "keep it in metric_relabel_configs",
        )
    return need.metric, OK, "present", None


def _any_label(
    subject: str, labels: set[str], names: Iterable[str], lack: tuple[Status, str, str]
) -> Finding:
    """The `names` found among `labels`; `lack` if there are none."""
    there = ", ".join(name for name in names if name in labels)
    return (subject, OK, there, None) if there else (subject, *lack)


def _node_labels(seen: Seen) -> Findings:
    labels = seen.labels(NODE_LABELS)
    if not any(label.startswith("label_") for label in labels):
        yield NODE_LABELS, FAIL, f"no node label is exported: {NODE_LABELS_LOST}", NODE_LABELS_FIX
        return
    for fact in NODE_FACTS:
        if fact.common or not labels.isdisjoint(fact.labels):
            lack = (WARN, f"not labeled: {fact.lost}", NODE_LABELS_FIX)
            yield _any_label(f"{NODE_LABELS}: {fact.name}", labels, fact.labels, lack)


def _team_labels(seen: Seen, config: Config) -> Findings:
    """Check the labels of teams in the config.

    The namespace label `team` is optional if no label is configured.
    """
    by_namespace, by_pod = config.team_labels.namespace, config.team_labels.pod
    gathered = {label for team in config.teams for label in team.labels} if not by_pod else set()
    for kind, metric, names in (
        ("namespace", "kube_namespace_labels", {by_namespace} if by_namespace else gathered),
        ("pod", "kube_pod_labels", {by_pod} if by_pod else set()),
    ):
        for name in sorted(names):
            label = label_name(name)
            if label in seen.labels(metric):
                yield metric, OK, f"{label} is present", None
            else:
                text = f"{label} is not exported: teams by {kind} label are unknown"
                yield metric, FAIL, text, f"{KSM} --metric-labels-allowlist={kind}s=[{name}]"


def _activity(seen: Seen, config: Config) -> Findings:
    metrics = activity_metrics(config.activity)
    devices = {
        each: labels
        for each in metrics
        if each.part == "device"
        and (labels := seen.labels(f"{each.metric}{{{each.only}}}" if each.only else each.metric))
    }
    metric, mig = config.activity.device_metric, config.activity.mig_metric
    fix = "dcgm-exporter: set DCGM_EXPORTER_KUBERNETES=true"
    if not devices:
        is_running = seen.values(_DCGM, "__name__")
        yield metric, FAIL, f"missing: {ACTIVITY_LOST}", activity_fix(metric) if is_running else DCGM_FIX
    for each, labels in devices.items():
        if not labels & {"pod", "exported_pod"}:
            other = f"let {each.exporter or 'the exporter'} label its series with namespace and pod"
            text = "does not name pods: only nodes with one holder can be measured"
            yield each.metric, WARN, text, fix if each.exporter == "dcgm-exporter" else other
        elif "exported_pod" not in labels and all("dcgm" in pod for pod in seen.values(each.metric, "pod")):
            text = "names only the exporter's own pod, or no pod holds a GPU"
            yield each.metric, WARN, text, f"{fix}; scrape it with honor_labels: true"
        else:
            yield each.metric, OK, "present, and names pods", None
    if any("GPU_I_ID" in labels for labels in devices.values()) or seen.values(MIG_REQUESTS, "resource"):
        there = [
            metric.metric
            for metric in metrics
            if metric.part == "mig" and "GPU_I_ID" in seen.labels(metric.metric)
        ]
        if there:
            yield there[0], OK, "present for MIG instances", None
        else:
            yield mig, WARN, f"missing: {MIG_ACTIVITY_LOST}", mig_fix(mig)


_DCGM = '{__name__=~"DCGM_.+|dcgm_.+"}'


def examine(
    config_path: Path | None,
    store_path: Path | None,
    now: datetime,
    *,
    environ: Mapping[str, str] = os.environ,
) -> Checks:
    """Run every check and yield each result. Raises nothing: a check that cannot run fails.

    A config that cannot be read ends the run, because all other checks depend on it.
    """
    try:
        config = load_config(config_path, store=store_path, environ=environ)
    except ConfigError as error:
        yield SetupCheck("config", "settings", FAIL, error.message, error.fix)
        return
    if config.path:
        count = len(config.prometheus)
        yield SetupCheck(
            "config", str(config.path), OK, f"valid; {count} Prometheus server{'' if count == 1 else 's'}"
        )
    else:
        text = "none; defaults apply. Searched: " + ", ".join(map(str, places(environ, Path.cwd())))
        yield SetupCheck("config", "file", WARN, text, "gpucost init")
    yield from check_store(config, now)
    for source in config.prometheus:
        yield from check_server(source, config, now)
    yield from check_slurm(config)
    yield from check_prices(config, now)
    yield from check_clusters(config)
