"""Collect kube-state-metrics and dcgm-exporter series from a server with Prometheus' HTTP API.

Samples are read with their own timestamps: a step would invent samples and hide pods that live shorter than the
step. They are read as chunks (remote_read.py) if the server offers it, otherwise as JSON, by range selectors at a
moment. Then constant series are read raw only if their hourly sums are not proof enough (hours.py).
"""

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from gpucost.catalog import activity_metrics
from gpucost.collect.base import (
    Collector,
    CollectResult,
    MissingSpan,
    Progress,
    ProgressState,
    SourceFinding,
    TooMuch,
    late_spans,
    period_of,
    whole_hours,
)
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.hours import Hours, Scrapes, scrapes, speakers
from gpucost.collect.prometheus.queries import (
    ACTIVITY_LOST,
    DCGM_FIX,
    GPU_CAPACITY,
    KSM,
    KSM_FIX,
    MOST_NAMES,
    OTHERS,
    REQUESTS,
    Scope,
    Selector,
    activity_fix,
    activity_names,
    among,
    compared,
    one_of,
    selectors,
    stored_needs,
)
from gpucost.collect.prometheus.remote_read import NotOffered, request
from gpucost.config.model import Activity, Config, Idle, PrometheusSource
from gpucost.errors import SourceError, UsageError
from gpucost.periods import (
    MS_PER_DAY,
    MS_PER_HOUR,
    Period,
    Span,
    from_ms,
    intersect,
    iso,
    merge,
    subtract,
    to_ms,
)
from gpucost.records import DuckDBPyConnection
from gpucost.store import runs, sqlfiles
from gpucost.store.connection import Store
from gpucost.store.metrics import (
    FAMILY_SAMPLES,
    LoadResult,
    ReadAnswer,
    SampleWindow,
    Threshold,
    load_presence,
    load_window,
    series_key,
)

_log = logging.getLogger(__name__)

# kube-state-metrics always exports one of these, even without pods.
_NODE_INFO = "kube_node_info"
_ALWAYS_THERE = (_NODE_INFO, "kube_pod_info")


_PROBE_MINUTES = 10
# Step, margin and chunk of the query for other objects around a silence of a family.
_PRESENCE_STEP_MS, _PRESENCE_MARGIN_MS, _PRESENCE_PART_MS = 2 * 60_000, 15 * 60_000, MS_PER_DAY
# Share of constant samples that are read raw: about two of an hour's sixty, plus the ends of lives.
_CONSTANT_SHARE = 15
# A first run collects at most so many days; the server's data is looked for in the last two years.
_FIRST_DAYS, _LOOKBACK_DAYS = 92, 730
# Age from which the newest sample is reported as old.
_LATE_MS = MS_PER_HOUR

# Upper limits of used MiB, watts, joules and throttled seconds; none is ever idle.
_MOST = {
    "memory_used": 4_194_304.0,
    "power": 10_000.0,
    "energy": 1e15,
    "thermal_throttle": 1e9,
    "power_throttle": 1e9,
}


def thresholds(activity: Activity, idle: Idle) -> dict[str, Threshold]:
    """The idle threshold and the valid range of each metric. A ratio's name allows percentages, too."""
    limits = {}
    for metric in activity_metrics(activity):
        if metric.part == "power" or (metric.part == "memory" and not activity.memory):
            continue
        if metric.measures in _MOST:
            limits[metric.metric] = Threshold(0.0, 0.0, _MOST[metric.measures] / metric.scale)
        elif metric.part in ("device", "mig") or metric.metric not in limits:
            highest = 100.0 / metric.scale if metric.is_set else 100.0
            limits[metric.metric] = Threshold(idle.threshold_percent / metric.scale, 0.0, highest)
    return limits


@contextmanager
def open_client(
    source: PrometheusSource,
    period: Period | None,
    now: datetime | None = None,
    retries: Retries | None = None,
) -> Iterator[tuple[PrometheusClient, datetime]]:
    """A client of a server, and the start of a run that collects `period`.

    Raises UsageError if the period is in the future.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    if period is not None and (period.is_empty or period.start_ms >= to_ms(moment)):
        raise UsageError(f"the period {period} is empty or in the future")
    with closing(PrometheusClient(source, retries)) as client:
        yield client, moment


def server_warnings(source: PrometheusSource, client: PrometheusClient) -> list[SourceFinding]:
    """The server's warnings in this run."""
    return [
        SourceFinding("warning", "server_warning", f"{source.url}: {text}")
        for text in sorted(client.warnings)
    ]


class PrometheusCollector(Collector[list[ReadAnswer]]):
    """Samples of one server. `names` are its metric names; None if it does not report them."""

    kind = "prometheus"

    def __init__(
        self, config: Config, source: PrometheusSource, store: Store, client: PrometheusClient, now: datetime
    ) -> None:
        super().__init__(source, store, client)
        self._activity = activity = config.activity
        self._selectors = selectors(activity, config.prices.cost_basis)
        self._thresholds = thresholds(activity, config.idle)
        self._ambiguous = {
            metric.metric
            for metric in activity_metrics(activity)
            if metric.part == "device" and metric.scale < 100 and not metric.is_set
        }
        self._has_hosts = bool(config.hosts)
        self._names: set[str] | None = None
        self._namespaces: set[str] = set()
        self._gpu_nodes: set[str] = set()
        self._per_hour = 0.0
        self._tells_hours = True
        self._reads_chunks = False
        self._external: frozenset[tuple[str, str]] = frozenset()
        self._now, self._now_ms = now, to_ms(now)
        # Waiting for a later sample before they are logged: empty windows, and the rest of the last non-empty
        # window.
        self._silent: list[Span] = []
        self._short: tuple[Span, int] | None = None
        self.data_from_ms: int | None = None
        self.newest_ms: int | None = None

    def take_stock(self, con: DuckDBPyConnection) -> None:
        """Assign known series to the configured clusters, and read the source's first and newest data."""
        runs.settle_clusters(con, self.source, self._server.cluster_label, self._server.cluster or "default")
        self.data_from_ms = sqlfiles.value(con, runs.FIRST_DATA, [self.kind, self.source])
        self.newest_ms = runs.newest_sample(con, self.source)

    def late_spans(self) -> list[Span]:
        """Hours to query again: incomplete ones, and time after the newest sample of a target with more
        since.
        """
        now_ms, late_hours = self._now_ms, self._server.late_hours
        if self.newest_ms is None or not late_hours:
            return []
        since = now_ms - late_hours * MS_PER_HOUR
        silent_at = min(now_ms, self.newest_ms) - runs.SHORT_SILENCE_MS
        with self.store.write() as con:
            late = late_spans(con, self.source, now_ms, late_hours, self.newest_ms)
            lagging = runs.lagging_targets(con, self.source, self._server.cluster_label, since, silent_at)
        return merge([*late, *((targets.last_ms, now_ms) for targets in lagging if self._has_more(targets))])

    def _has_more(self, targets: runs.LaggingTargets) -> bool:
        """Whether the server has newer samples of these targets than the store. Dead targets cost it little."""
        scope: Scope = "cluster" if targets.metric.startswith("kube_") else "activity"
        target = among(Selector(targets.metric, scope=scope), self._server.cluster_label, [targets.cluster])
        target = among(target, "job", [targets.job])
        length = self._now_ms - targets.last_ms - 1
        for start in range(0, len(targets.instances), MOST_NAMES):
            part = among(target, "instance", targets.instances[start : start + MOST_NAMES])
            sums = [
                f"(count(count_over_time({part.text(name)}[{length}ms])) or vector(0))"
                for name in part.spelled(None)
            ]
            try:
                if self._client.value(" + ".join(sums), self._now_ms):
                    return True
            except TooMuch:
                return True
            # A server that cannot answer this reports its data when the hours are collected.
            except SourceError:
                return False
        return False

    def prepare(self, spans: list[Span]) -> None:
        """Find the existing metrics and their sizes, to size the first windows."""
        start, end = spans[0][0], spans[-1][1]
        self._names = self._client.label_values("__name__", start, end)
        # Without this endpoint, windows have no mark of partial answers.
        may_read = self._server.remote_read and self._names is not None
        self._reads_chunks = may_read and self._offers_chunks((start, end))
        if any(selector.scope == "hosts" for selector in self._selectors):
            capacity = [GPU_CAPACITY.text(GPU_CAPACITY.metric)]
            self._gpu_nodes = self._client.label_values("node", start, end, capacity) or set()
        requests = []
        for selector in self._selectors:
            if selector.scope == "requests":
                requests.append(selector.text(selector.metric))
            elif selector.scope == "hosts" and "pod" in selector.metric:
                requests.append(among(selector, "node", self._gpu_nodes).text(selector.metric))
        self._namespaces = self._client.label_values("namespace", start, end, requests) or set()
        last = end // MS_PER_HOUR * MS_PER_HOUR
        is_thin = self._reads_chunks or self._scrapes((last - MS_PER_HOUR, last)) is not None
        sums = [
            f"(sum(count_over_time({selector.text(name)}[{_PROBE_MINUTES}m])) or vector(0))"
            + (f" / {_CONSTANT_SHARE}" if selector.constant and is_thin else "")
            for selector in self._selectors
            for name in selector.spelled(self._names)
        ]
        moments = [end, start + (end - start) // 2, start + min(MS_PER_HOUR, end - start)]
        try:
            counts = [self._client.value(" + ".join(sums), at) or 0.0 for at in moments] if sums else [0.0]
        except TooMuch:
            counts = [self._server.max_samples * _PROBE_MINUTES / 60]
        self._resize(max(counts) * 60 / _PROBE_MINUTES)

    def _offers_chunks(self, span: Span) -> bool:
        """Whether the server offers remote read, without labels that cannot be removed."""
        source = self._server.url
        try:
            self._read(Selector("gpucost_probe"), "gpucost_probe", (span[1] - 1, span[1]), attempts=2)
        except SourceError as error:
            _log.debug("%s: remote read is not used: %s", source, error.message)
            return False
        labels = self._client.external_labels()
        for name, value in (labels or {}).items():
            values = self._client.label_values(name, *span)
            if values is None or value in values:
                labels = None
        if labels is None:
            _log.info(
                "%s: remote read is not used: cannot distinguish external labels from labels of series",
                source,
            )
            return False
        self._external = frozenset(labels.items())
        return True

    def _read(self, selector: Selector, name: str, span: Span, **limits: int) -> ReadAnswer:
        """The samples of a metric, by remote read."""
        is_state = selector.metric not in self._thresholds
        body = request(name, selector.matchers, span)
        return self._client.read_chunks(
            selector.metric, body, span, self._external, is_state=is_state, **limits
        )

    def fetch(self, span: Span) -> list[ReadAnswer]:
        """All samples of one window; without remote read constant series by hour, other series raw."""
        is_partial = self._reads_chunks and self._client.is_partial(span)
        answers = self._fetch_all(span)
        return [replace(answer, is_partial=True) for answer in answers] if is_partial else answers

    def _fetch_all(self, span: Span) -> list[ReadAnswer]:
        """The answers to all selectors."""
        whole = span[0], span[1] // MS_PER_HOUR * MS_PER_HOUR
        is_by_hour = whole[0] < whole[1] and not self._reads_chunks
        scrapes = self._scrapes(whole) if is_by_hour else None
        answers = []
        constants = []
        # Namespaces of the whole period, so that the result does not depend on window boundaries; plus those
        # of this window.
        namespaces, gpu_nodes = set(self._namespaces), set(self._gpu_nodes)
        narrowing = {"hosts": ("node", gpu_nodes), "pods": ("namespace", namespaces)}
        for selector in self._selectors:
            if selector.scope in narrowing:
                label, names = narrowing[selector.scope]
                if not names:
                    continue  # no priced nodes, or no pod requests a GPU
                selector = among(selector, label, names)
            for name in selector.spelled(self._names):
                hours = (
                    self._hours(selector, name, scrapes)
                    if scrapes is not None and selector.constant
                    else None
                )
                if hours is None:
                    part = self._fetch(selector, name, span)
                    answers += part
                    if selector.metric in self._ambiguous:
                        answers += self._compared(part, span)
                    series = [labels for answer in part for labels in answer.series]
                else:
                    tail = self._fetch(selector, name, (whole[1], span[1])) if whole[1] < span[1] else []
                    hours.read(tail)
                    constants.append(hours)
                    series = hours.series
                if selector.scope in ("activity", "requests", "hosts"):
                    namespaces.update(_namespaces(series))
                if selector == GPU_CAPACITY:
                    gpu_nodes.update(labels["node"] for labels in series if labels.get("node"))
        return answers + self._complete(constants, whole[0])

    def _compared(self, part: list[ReadAnswer], span: Span) -> list[ReadAnswer]:
        """Samples that distinguish ratios from percentages, for targets with values between 0 and 1."""
        between, above = _instances(part, 0.0, 1.0), _instances(part, 1.01, 100.5)
        if not between - above:
            return []
        for alike in compared(self._activity):
            answers = []
            for selector in alike:
                for name in selector.spelled(self._names):
                    answers += self._fetch(among(selector, "instance", between - above), name, span)
            if any(len(answer.ts_ms) for answer in answers):
                return answers
        return []

    def _scrapes(self, span: Span) -> Scrapes | None:
        """The scrapes of kube-state-metrics; None if the server's answers do not prove them."""
        counts = self._by_hour(_NODE_INFO, f"count_over_time({_NODE_INFO}[1h])", span)
        if counts is None or not len(counts.ts_ms):
            return None
        nodes = speakers(counts, span)
        samples = self._fetch(among(Selector(_NODE_INFO), "node", nodes), _NODE_INFO, span)
        return None if any(answer.is_partial for answer in samples) else scrapes(counts, samples, span)

    def _hours(self, selector: Selector, name: str, scrapes: Scrapes) -> Hours | None:
        """A metric's series by hour; None if the server cannot answer by hour."""
        span, text = scrapes.span, selector.text(name)
        sums = self._by_hour(selector.metric, f"sum_over_time({text}[1h])", span)
        if sums is None:
            return None
        unit = value = np.ones(len(sums.values))
        if selector.constant == "number":
            last = span[1] - MS_PER_HOUR, span[1]
            most = self._by_hour(selector.metric, f"max_over_time({text}[{span[1] - span[0]}ms])", last)
            if most is None:
                return None
            keys = (series_key(self.source, most.series[at]) for at in most.series_index)
            highest = dict(zip(keys, np.where(most.values > 0, most.values, np.nan), strict=True))
            by_series = [highest.get(series_key(self.source, labels), np.nan) for labels in sums.series]
            unit = value = np.array(by_series)[sums.series_index]
        if selector.constant == "flag":
            counts = self._by_hour(selector.metric, f"count_over_time({text}[1h])", span)
            if counts is None or not (
                sums.series == counts.series
                and np.array_equal(sums.ts_ms, counts.ts_ms)
                and np.array_equal(sums.series_index, counts.series_index)
            ):
                return None
            value = np.where(sums.values == 0, 0.0, 1.0)
            unit = np.where((sums.values == 0) | (sums.values == counts.values), 1.0, np.nan)
            sums = replace(sums, values=counts.values)
        return Hours(scrapes, self.source, selector, name, sums, unit, value)

    def _by_hour(self, metric: str, query: str, span: Span) -> ReadAnswer | None:
        """The value of a query at the end of each hour; None if the server cannot answer it."""
        if not self._tells_hours:
            return None
        try:
            steps = span[0] + MS_PER_HOUR - 1, span[1] - 1
            answer = self._client.by_step(metric, query, steps, MS_PER_HOUR)
            # Some servers shift the steps.
            late_ms, is_inside = (answer.ts_ms + 1) % MS_PER_HOUR, answer.ts_ms > span[0]
            return None if late_ms.any() or not is_inside.all() or answer.is_partial else answer
        except TooMuch:
            return None
        except SourceError:
            # A server that is down fails at the next query; some servers answer only queries for samples.
            if self._tells_hours:
                self._tells_hours = False
                self._resize(self._per_hour * _CONSTANT_SHARE)
            return None

    def _complete(self, constants: list[Hours], from_ms: int) -> list[ReadAnswer]:
        """The samples of constant series, raw in unproven hours."""
        rest: dict[tuple[int, str], list[tuple[Hours, set[str]]]] = {}
        for hours in constants:
            for hour, names in hours.unproven().items():
                rest.setdefault((hour, hours.selector.shard_label), []).append((hours, names))
        for (hour, _), several in rest.items():
            self._read_hour(several, from_ms, hour)
        return [hours.answer() for hours in constants]

    def _read_hour(self, several: list[tuple[Hours, set[str]]], from_ms: int, hour: int) -> None:
        """Read an hour's unproven rows, with one query for several metrics of a few objects."""
        span = from_ms + hour * MS_PER_HOUR, from_ms + (hour + 1) * MS_PER_HOUR
        label = several[0][0].selector.shard_label
        every = set().union(*(names for _, names in several))
        if len(several) > 1 and "" not in every and len(every) <= MOST_NAMES:
            names_of_metrics = one_of("__name__", sorted(hours.name for hours, _ in several))
            metrics = Selector("", (names_of_metrics,), shard_label=label)
            answers = self._fetch(among(metrics, label, every), "", span)
            for hours, _ in several:
                hours.read(answers, hour)
            return
        for hours, names in several:
            selector = hours.selector if "" in names else among(hours.selector, label, names)
            hours.read(self._fetch(selector, hours.name, span), hour)

    def write(
        self, con: DuckDBPyConnection, run_id: int, span: Span, batch: list[ReadAnswer]
    ) -> LoadResult | None:
        """Load one window up to the source's newest sample; later time is queried again.

        An empty window is logged with a later non-empty one. Otherwise it could be after the newest sample,
        or the server could have no data because the tenant is wrong.
        """
        samples, first, newest = _count(batch, span)
        is_partial = any(answer.is_partial for answer in batch)
        runs.log_answer(con, self.source, samples, self._now, is_partial=is_partial)
        start, end = span
        if first is None or newest is None:
            if self.newest_ms is None or end > self.newest_ms:
                self._silent.append(span)
                return None
            return load_window(con, self._window(run_id, span, batch))
        if self.data_from_ms is None or start < self.data_from_ms:
            start = max(start, first // MS_PER_HOUR * MS_PER_HOUR)
            self._silent.append((span[0], start))
            self.data_from_ms = start if self.data_from_ms is None else min(start, self.data_from_ms)
        for silent in self._silent:
            if silent[0] < silent[1]:
                load_window(con, self._window(run_id, silent, []))
        self._silent.clear()
        if self._short is not None:
            (first_ms, last_ms), end_ms = self._short
            con.execute(runs.EXTEND_LOAD, [end_ms, run_id, first_ms, last_ms])
            self._short = None
        if self.newest_ms is None or newest >= self.newest_ms:
            self.newest_ms = newest
            self._short = (start, newest + 1), end
            end = newest + 1
        return load_window(con, self._window(run_id, (start, end), batch))

    def _window(self, run_id: int, span: Span, answers: list[ReadAnswer]) -> SampleWindow:
        clusters = self._server.cluster_label, self._server.cluster or "default"
        return SampleWindow(self.source, run_id, *span, *clusters, self._thresholds, answers)

    def learned(self, span: Span, loaded: LoadResult) -> None:
        """Size the next windows by this one, at most doubling them."""
        seen = loaded.size * MS_PER_HOUR / (span[1] - span[0])
        self._resize(max(seen * 1.25, self._per_hour / 2))

    def _resize(self, per_hour: float) -> None:
        self._per_hour = per_hour
        self.window_hours = int(self._server.max_samples / per_hour) if per_hour else 24

    def _fetch(self, selector: Selector, name: str, span: Span, *, sharded: bool = False) -> list[ReadAnswer]:
        def too_much(hour: Span, error: TooMuch) -> list[ReadAnswer]:
            if sharded:
                raise SourceError(
                    f"an answer for one hour of {name} is too large for the server, even in sixteenths: {error.message}",
                    fix="raise the server's limit (Prometheus: --query.max-samples)",
                ) from None
            answers = []
            for shard in selector.shards():
                answers += self._fetch(shard, name, hour, sharded=True)
            return answers

        def ask(part: Span) -> ReadAnswer:
            if self._reads_chunks:
                try:
                    return self._read(selector, name, part)
                except NotOffered as error:
                    _log.warning("%s: %s; reading JSON instead", self.source, error.message)
                    self._reads_chunks = False
            return self._matrix(selector.metric, lambda length: f"{selector.text(name)}[{length}ms]", part)

        return self._in_parts(span, ask, too_much)

    def find_others(self, result: CollectResult) -> None:
        """Load when the server has samples of other objects (CPU pods, DaemonSets) in families that are
        silent here.

        Only GPU pods are collected, so the store alone cannot distinguish a cluster without GPU pods from a
        lost metric.
        """
        failed = [(window.period.start_ms, window.period.end_ms) for window in result.failed_windows]
        covered = [(self.data_from_ms or 0, (self.newest_ms or 0) + 1)]
        for span in intersect(subtract(result.spans, failed), covered):
            with self.store.read() as con:
                silences = runs.silent_families(con, self.source, self._server.cluster_label, *span)
                self._namespaces.update(sqlfiles.column(con, runs.NAMESPACES, [self.source]))
            try:
                answers = [answer for silence in silences for answer in self._others(*silence, span)]
            except SourceError as error:  # use only the stored data
                _log.warning("%s: cannot query other objects: %s", self.source, error.message)
                return
            if answers:
                with self.store.write() as con:
                    load_presence(con, self._window(0, span, answers))

    def _others(
        self, family: str, cluster: str, from_ms: int, to_ms: int, span: Span
    ) -> Iterator[ReadAnswer]:
        """The moments, per target, at which uncollected objects have samples of a family, in and around a
        silence.
        """
        label = self._server.cluster_label
        selector = among(OTHERS[family], label, [cluster])
        if selector.scope == "pods":
            selector = among(selector, "namespace", self._namespaces, without=True)
        query = f"max by ({label}, job, instance) (timestamp({selector.text(selector.metric)}))"
        end = min(to_ms + _PRESENCE_MARGIN_MS, span[1])
        for start in range(max(from_ms - _PRESENCE_MARGIN_MS, span[0]), end, _PRESENCE_PART_MS):
            yield from self._moments(family, query, (start, min(start + _PRESENCE_PART_MS, end)))

    def _moments(self, family: str, query: str, span: Span) -> Iterator[ReadAnswer]:
        """The answers to `query`, whose values are moments, as samples at these moments."""

        def ask(part: Span) -> ReadAnswer:
            last = part[1] - 1  # steps end at the last moment, so the newest sample is included
            steps = part[0] + (last - part[0]) % _PRESENCE_STEP_MS, last
            return self._client.by_step(FAMILY_SAMPLES, query, steps, _PRESENCE_STEP_MS)

        for answer in self._in_parts(span, ask, lambda *_: []):
            # A value is a sample's time; several steps return the same sample.
            pairs = np.stack((answer.series_index, np.rint(answer.values * 1000)))
            index, ts_ms = np.unique(pairs, axis=1).astype(np.int64)
            series = [{**labels, "family": family} for labels in answer.series]
            yield ReadAnswer(series, index.astype(np.int32), ts_ms, np.ones(len(ts_ms)))

    def judge(self, result: CollectResult) -> None:
        """Add missing time, metrics and labels of this run to the result. Reads the stored series."""
        start, end = result.spans[0][0], result.spans[-1][1]
        first = end if self.data_from_ms is None else min(self.data_from_ms, end)
        result.not_collected = period_of((start, first)) if start < first else None
        heard_until = min(end, self._now_ms, (self.newest_ms or 0) + 1)
        with self.store.read() as con:
            silences = runs.find_silences(con, self.source, start, heard_until) if start < heard_until else []
            result.gaps = [
                MissingSpan(silence.cluster, period_of(silence[1:]), "no GPU measurements")
                for silence in silences
                if intersect([silence[1:]], result.spans)
                and silence.to_ms - silence.from_ms > runs.SHORT_SILENCE_MS
            ]
            if result.windows or not result.failed_windows:
                # With [[hosts]], the report lists the hosts that are missing.
                found = self._findings(con, result)
                result.findings = [
                    finding for finding in found if not (self._has_hosts and finding.fix == KSM_FIX)
                ]
        if end == self._now_ms:
            result.findings += self._newest()
        if not (result.metrics or result.dropped or result.failed_windows):
            result.findings += self._range()
        result.findings += server_warnings(self._server, self._client)

    def _findings(self, con: DuckDBPyConnection, result: CollectResult) -> Iterator[SourceFinding]:
        began = self.data_from_ms
        if not (result.metrics or result.dropped) and began is not None and result.requested.end_ms <= began:
            yield self._before_retention(began)
            return
        silences = list(self._silence(con, result))
        yield from silences
        runs.look(con, stored_needs(self._activity))
        codes = {finding.code for finding in silences}
        con.execute(runs.OF_SOURCE, {"source": self.source, **result.requested.bounds})
        lacks = (SourceFinding(*row) for row in con.fetchall())
        yield from (lack for lack in lacks if lack.code not in codes)
        if result.not_collected is not None and result.metrics and not result.failed_windows:
            yield self._before_retention(result.not_collected.end_ms)

    def _before_retention(self, data_from_ms: int) -> SourceFinding:
        lost = f"{self.source} has no data before {iso(from_ms(data_from_ms))}; that time is lost"
        fix = "collect every day, before the server deletes old data"
        return SourceFinding("warning", "before_retention", lost, fix)

    def _silence(self, con: DuckDBPyConnection, result: CollectResult) -> Iterator[SourceFinding]:
        """Silent exporters, and whether to install them or only this time is lost."""
        source, seen = self.source, set(result.metrics)
        if not any(metric.startswith("kube_") for metric in seen):
            is_there = self._is_at_other_times(con, _ALWAYS_THERE)
            times = ", but has some at other times; that time is lost" if is_there else ""
            message = f"{source} has no samples of {KSM} in this period{times}"
            yield SourceFinding("warning", "no_kube_state_metrics", message, None if is_there else KSM_FIX)
        elif REQUESTS not in seen and self._is_stored(con, [REQUESTS]):
            yield SourceFinding("note", "no_gpu_requests", f"{source}: no pod requested a GPU in this period")
        names = activity_names(self._activity, "device", "mig")
        if not seen.isdisjoint(names):
            return
        if spoiled := sorted({*names} & {metric for metric, _ in result.dropped}):
            message = f"{source}: {' and '.join(spoiled)} had no valid samples"
            yield SourceFinding("warning", "activity_invalid", message)
            return
        device, is_there = self._activity.device_metric, self._is_at_other_times(con, names)
        times = " in this period, but at other times" if is_there else ""
        message = f"{source} has neither {device} nor {self._activity.mig_metric}{times}: {ACTIVITY_LOST}"
        is_running = any(name.startswith("DCGM_") for name in self._names or ())
        fix = activity_fix(device) if is_running else DCGM_FIX
        yield SourceFinding("warning", "no_activity", message, None if is_there else fix)

    def _is_stored(self, con: DuckDBPyConnection, metrics: Sequence[str]) -> bool:
        query = "SELECT 1 FROM series WHERE source = $1 AND list_contains($2, metric) LIMIT 1"
        return bool(con.execute(query, [self.source, metrics]).fetchall())

    def _is_at_other_times(self, con: DuckDBPyConnection, metrics: Sequence[str]) -> bool:
        """Whether the store has one of the metrics at any time, or the server now."""

        def is_on_server(metric: str) -> bool:
            try:
                return bool(self._client.value(f"count({metric})", self._now_ms))
            except SourceError:  # no answer counts as missing
                return False

        return self._is_stored(con, metrics) or any(map(is_on_server, metrics))

    def _newest(self) -> list[SourceFinding]:
        """A warning if the newest sample is old: the server lags, or this machine's clock is ahead."""
        newest_ms = self.newest_ms or self._on_server(max)
        if newest_ms is None or self._now_ms - newest_ms <= _LATE_MS:
            return []
        age = (self._now_ms - newest_ms) / MS_PER_HOUR
        old = f"{age / 24:,.0f} days" if age >= 48 else f"{age:,.1f} h"
        newest = f"its newest sample is {old} old ({iso(from_ms(newest_ms))}); later time is queried again"
        fix = f"check this machine's clock ({iso(self._now.replace(microsecond=0))}), otherwise find out why the server lags"
        return [SourceFinding("warning", "newest_sample", f"{self.source}: {newest}", fix)]

    def find_first(self) -> None:
        """Begin a first run at the server's first data, at most _FIRST_DAYS ago.

        Without an answer, the run begins with the month.
        """
        if self.newest_ms is None:
            self.first_ms = self._on_server(min, _FIRST_DAYS)

    def _on_server(self, pick: Callable[[Iterable[int]], int], days: int = _LOOKBACK_DAYS) -> int | None:
        """The approximate first (`min`) or last (`max`) moment with nodes on the server; None without any.

        Looks at every day of the last `days`, then at the hours and at every five minutes around the day that
        `pick` chooses. An answer that fails ends the search with the last choice.
        """
        start, end = self._now_ms - days * MS_PER_DAY, self._now_ms
        found = None
        for step in (MS_PER_DAY, MS_PER_HOUR, 5 * 60_000):
            try:
                answer = self._client.by_step(_NODE_INFO, f"count({_NODE_INFO})", (start, end), step)
            except SourceError:
                break
            if not len(answer.ts_ms):
                break
            found = pick(answer.ts_ms.tolist())
            start, end = max(start, found - step), min(found + step, end)
        return found

    def _range(self) -> Iterator[SourceFinding]:
        """The time for which the server has data, for a run without samples.

        The fix is the command that collects this time.
        """
        first, last = self._on_server(min), self._on_server(max)
        if first is not None and last is not None:
            span = period_of(whole_hours([(first, last + 1)], self._now_ms)[0])
            words = f"--source {shlex.quote(self.source)} --from {iso(span.start)} --to {iso(span.end)}"
            message = f"{self.source} has data from {iso(span.start)} to {iso(span.end)}"
            yield SourceFinding("warning", "range", message, f"gpucost collect prometheus {words}")


def collect_prometheus(
    config: Config,
    source: PrometheusSource,
    store: Store,
    period: Period | None,
    progress: Progress | None = None,
    now: datetime | None = None,
    retries: Retries | None = None,
) -> CollectResult:
    """Collect one server's samples into the store; cores and memory only if the cost basis charges them.

    Without a period, the first run collects the last 92 days, as far as the server has data, but at least the
    current month so far. Later runs collect missing time, the time since the last collected moment minus two
    hours, and incomplete hours of the last `late_hours`. With
    a period, everything in it is collected again. Raises SourceError if the server does not answer like
    Prometheus, or this machine's clock is behind the stored data. Failed windows are in the result.
    """
    with open_client(source, period, now, retries) as (client, moment):
        now_ms = to_ms(moment)
        if progress is not None:
            progress(ProgressState(source.source, 0, 0, 0, "checking available metrics"))
        client.value("vector(1)", now_ms)
        collector = PrometheusCollector(config, source, store, client, moment)
        with store.write() as con:
            collector.take_stock(con)
        if period is None:
            collector.find_first()
        with store.write() as con:
            spans = collector.spans(con, period, moment, config.tz, collector.newest_ms)
        late = subtract(whole_hours(collector.late_spans(), now_ms), spans) if period is None else []
        requested = period or period_of((spans[0][0], spans[-1][1]))
        spans = merge([*spans, *late])
        collector.prepare(spans)
        result = collector.run(spans, requested, progress)
        result.moment, result.spans = moment, spans
        result.queried_again = sum(b - a for a, b in late) // MS_PER_HOUR
        collector.find_others(result)
        collector.judge(result)
        return result


def _namespaces(series: Sequence[Mapping[str, str]]) -> set[str]:
    """Namespaces of GPU pods, from requests and the exporter's labels, also renamed ones."""
    keys = ("exported_namespace", "namespace", "pod_namespace")
    names = (next(filter(None, map(labels.get, keys)), None) for labels in series)
    return {name for name in names if name}


def _count(answers: list[ReadAnswer], span: Span) -> tuple[dict[int, int], int | None, int | None]:
    """The number of samples in each epoch hour of a window, and the first and last sample's time."""
    hours = range(span[0] // MS_PER_HOUR, -(-span[1] // MS_PER_HOUR))
    counts = np.zeros(len(hours))
    moments = []
    for answer in answers:
        part = answer.only((answer.ts_ms >= span[0]) & (answer.ts_ms < span[1]))
        if len(part.ts_ms):
            counts += np.bincount(part.ts_ms // MS_PER_HOUR - hours[0], part.weights, len(hours))
            moments += [int(part.ts_ms.min()), int(part.ts_ms.max())]
    samples = dict(zip(hours, counts.astype(int).tolist(), strict=True))
    return samples, min(moments, default=None), max(moments, default=None)


def _instances(answers: Sequence[ReadAnswer], low: float, high: float) -> set[str]:
    """The targets with a value between the two."""
    return {
        answer.series[at].get("instance", "")
        for answer in answers
        for at in np.flatnonzero(
            np.bincount(answer.series_index[(answer.values > low) & (answer.values < high)])
        ).tolist()
    }
