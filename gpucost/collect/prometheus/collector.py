"""Collects kube-state-metrics and dcgm-exporter series from a server that speaks Prometheus' HTTP API.

Samples are read raw, with their own timestamps, by range selectors at a moment. A step would invent samples, and hide
pods that live shorter than it. Of constant series only those are read that their sums in each hour do not prove (hours.py).
"""

from __future__ import annotations

import logging
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar
from zoneinfo import ZoneInfo

import numpy as np

from gpucost.catalog import activity_metrics
from gpucost.collect.base import (
    Batch,
    Collector,
    CollectResult,
    MissingSpan,
    Progress,
    ProgressState,
    SourceFinding,
    default_spans,
    halves,
    late_spans,
    month_start_ms,
    period_of,
    until,
    whole_hours,
)
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.hours import Hours, Life, Scrapes, is_by_hour, scrapes, speakers
from gpucost.collect.prometheus.parse import TooMuch
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
    except_for,
    one_of,
    selectors,
    stored_needs,
)
from gpucost.errors import SourceError, UsageError
from gpucost.periods import MS_PER_HOUR, Period, from_ms, intersect, iso, merge, subtract, to_ms
from gpucost.store import runs
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray

    from gpucost.config.model import Activity, Idle, PrometheusSource
    from gpucost.periods import Span
    from gpucost.store.connection import Store
    from gpucost.store.runs import LaggingTargets

_log = logging.getLogger(__name__)

# Where there is kube-state-metrics, there is one of these, whatever runs.
_ALWAYS_THERE = ("kube_node_info", "kube_pod_info")


# By the label that names an object, the metric that is there as long as it is.
LIVES = {"node": "kube_node_info", "uid": "kube_pod_info"}

_PROBE_MINUTES = 10
# How finely and how far around a silence of a family, and how much of it at once, the server is asked for other objects.
_PRESENCE_STEP_MS, _PRESENCE_MARGIN_MS, _PRESENCE_PART_MS = 2 * 60_000, 15 * 60_000, 24 * MS_PER_HOUR
# Of a constant series about one in so many samples is read: hours of sixty are two, but for a life's ends.
_CONSTANT_SHARE = 15
# A newest sample older than this is worth a word.
_LATE_MS = MS_PER_HOUR

# MiB that a GPU can use, and watts; neither is ever idle
_MOST = {"memory_used": 4_194_304.0, "power": 10_000.0}


class ServerCollector(Collector[Batch]):
    """What a server that speaks Prometheus' HTTP API holds."""

    def __init__(self, source: PrometheusSource, store: Store, client: PrometheusClient) -> None:
        super().__init__(source.source, store, source.concurrency)
        self._config = source
        self._client = client

    def spans(
        self,
        con: duckdb.DuckDBPyConnection,
        period: Period | None,
        moment: datetime,
        tz: ZoneInfo | None,
        newest_ms: int | None,
    ) -> list[Span]:
        """What a run collects: all of `period`, else the month so far (in `tz`) or what is missing since, up to `newest_ms`."""
        if period is not None:
            return whole_hours([(period.start_ms, period.end_ms)], to_ms(moment))
        so_far = until(runs.loaded(con, self.kind, self.source), newest_ms)
        return default_spans(
            month_start_ms(moment, tz), to_ms(moment), runs.asked(con, self.kind, self.source), so_far
        )

    def _matrices(
        self,
        metric: str,
        query: Callable[[int], str],
        span: Span,
        too_much: Callable[[Span, TooMuch], list[ReadAnswer]],
    ) -> list[ReadAnswer]:
        """What `query` of so many milliseconds answers, in parts where that is too much; `too_much` answers for an hour."""
        start, end = span
        try:
            # Prometheus 3 leaves out a sample at the left end of a range, Prometheus 2 takes it in. Asking for the window's
            # length up to a millisecond before its end has both take in its first moment; the store cuts off what lies before.
            return [self._client.matrix(metric, query(end - start), end - 1)]
        except TooMuch as error:
            parts = halves(span)
            if len(parts) == 1:
                return too_much(span, error)
            self.window_hours = max(1, min(self.window_hours, (end - start) // MS_PER_HOUR // 2))
            return [answer for part in parts for answer in self._matrices(metric, query, part, too_much)]


def thresholds(activity: Activity, idle: Idle) -> dict[str, Threshold]:
    """By metric, what counts as idle and what can be: a percentage, too, where its name is that of a ratio."""
    known: dict[str, Threshold] = {}
    for one in activity_metrics(activity):
        if one.part == "power" or (one.part == "memory" and not activity.memory):
            continue
        if one.measures in _MOST:
            known[one.metric] = Threshold(0.0, 0.0, _MOST[one.measures] / one.scale)
        elif one.part in ("device", "mig") or one.metric not in known:
            highest = 100.0 / one.scale if one.is_set else 100.0
            known[one.metric] = Threshold(idle.threshold_percent / one.scale, 0.0, highest)
    return known


@contextmanager
def open_client(
    source: PrometheusSource, period: Period | None, now: datetime | None, retries: Retries | None
) -> Iterator[tuple[PrometheusClient, datetime]]:
    """A client of a server, and the moment of a run that collects `period`.

    Raises UsageError where that has not begun.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    if period is not None and (period.is_empty or period.start_ms >= to_ms(moment)):
        raise UsageError(f"the period {period} is empty, or has not begun")
    with closing(PrometheusClient(source, retries)) as client:
        yield client, moment


def server_warnings(source: PrometheusSource, client: PrometheusClient) -> list[SourceFinding]:
    """What the server warned of in this run."""
    return [
        SourceFinding("warning", "server_warning", f"{source.url}: {text}")
        for text in sorted(client.warnings)
    ]


class PrometheusCollector(ServerCollector[list[ReadAnswer]]):
    """One server's samples. `names` are the metric names that it has; None where it does not tell."""

    kind: ClassVar[str] = "prometheus"

    def __init__(
        self,
        source: PrometheusSource,
        store: Store,
        client: PrometheusClient,
        activity: Activity,
        idle: Idle,
        now: datetime,
        cost_basis: str = "node",
        has_hosts: bool = False,
    ) -> None:
        super().__init__(source, store, client)
        self._selectors = selectors(activity, cost_basis)
        self._thresholds = thresholds(activity, idle)
        self._activity = activity
        self._ambiguous = {
            one.metric
            for one in activity_metrics(activity)
            if one.part == "device" and one.scale < 100 and not one.is_set
        }
        self._has_hosts = has_hosts
        self._names: set[str] | None = None
        self._namespaces: set[str] = set()
        self._gpu_nodes: set[str] = set()
        self._per_hour = 0.0
        self._tells_hours = True
        self._now, self._now_ms = now, to_ms(now)
        # what waits for a later sample to be logged: empty windows, and the rest of the last window that held any
        self._silent: list[Span] = []
        self._short: tuple[Span, int] | None = None
        self.data_from_ms: int | None = None
        self.newest_ms: int | None = None

    def take_stock(self, con: duckdb.DuckDBPyConnection) -> None:
        """Puts known series into the clusters of the settings, and learns from when to when there is data of this source."""
        runs.settle_clusters(con, self.source, self._config.cluster_label, self._config.cluster or "default")
        self.data_from_ms = runs.first_data(con, self.kind, self.source)
        self.newest_ms = runs.newest_sample(con, self.source)

    def late_spans(self) -> list[Span]:
        """Hours to ask for again: incomplete ones, and those past the newest sample of a target that has sent more since."""
        now_ms, late_hours = self._now_ms, self._config.late_hours
        if self.newest_ms is None or not late_hours:
            return []
        since, silent_at = (
            now_ms - late_hours * MS_PER_HOUR,
            min(now_ms, self.newest_ms) - runs.SHORT_SILENCE_MS,
        )
        with self.store.write() as con:
            late = late_spans(con, self.source, now_ms, late_hours, self.newest_ms)
            lagging = runs.lagging_targets(con, self.source, self._config.cluster_label, since, silent_at)
        return merge([*late, *((one.last_ms, now_ms) for one in lagging if self._has_more(one, now_ms))])

    def _has_more(self, targets: LaggingTargets, now_ms: int) -> bool:
        """Does the server hold samples of these targets past the newest that is stored? Dead ones cost it next to nothing."""
        label = self._config.cluster_label
        scope: Scope = "cluster" if targets.metric.startswith("kube_") else "activity"
        target = among(
            among(Selector(targets.metric, scope=scope), label, [targets.cluster]), "job", [targets.job]
        )
        length = now_ms - targets.last_ms - 1
        for start in range(0, len(targets.instances), MOST_NAMES):
            one = among(target, "instance", targets.instances[start : start + MOST_NAMES])
            sums = [
                f"(count(count_over_time({one.text(name)}[{length}ms])) or vector(0))"
                for name in one.spelled(None)
            ]
            try:
                if self._client.value(" + ".join(sums), now_ms):
                    return True
            except TooMuch:
                return True
            except (
                SourceError
            ):  # a server that cannot be asked so will say what it has of the hours that are asked for
                return False
        return False

    def prepare(self, spans: list[Span]) -> None:
        """Learns which metrics there are and how much of them, to size the first windows."""
        start, end = spans[0][0], spans[-1][1]
        self._names = self._client.label_values("__name__", start, end)
        if any(s.scope == "hosts" for s in self._selectors):
            self._gpu_nodes = (
                self._client.label_values("node", start, end, [GPU_CAPACITY.text(GPU_CAPACITY.metric)])
                or set()
            )
        hosts = [
            among(s, "node", self._gpu_nodes)
            for s in self._selectors
            if s.scope == "hosts" and "pod" in s.metric
        ]
        requests = [
            s.text(s.metric) for s in [*(s for s in self._selectors if s.scope == "requests"), *hosts]
        ]
        self._namespaces = self._client.label_values("namespace", start, end, requests) or set()
        last = end // MS_PER_HOUR * MS_PER_HOUR
        tells_hours = self._scrapes((last - MS_PER_HOUR, last)) is not None
        sums = [
            f"(sum(count_over_time({selector.text(name)}[{_PROBE_MINUTES}m])) or vector(0))"
            + (f" / {_CONSTANT_SHARE}" if selector.constant and tells_hours else "")
            for selector in self._selectors
            for name in selector.spelled(self._names)
        ]
        moments = [end, start + (end - start) // 2, start + min(MS_PER_HOUR, end - start)]
        try:
            counts = [self._client.value(" + ".join(sums), at) or 0.0 for at in moments] if sums else [0.0]
        except TooMuch:
            counts = [self._config.max_samples * _PROBE_MINUTES / 60]
        self._resize(max(counts) * 60 / _PROBE_MINUTES)

    def fetch(self, span: Span) -> list[ReadAnswer]:
        """All selectors' samples in one window: constant ones by what hours tell of them, the others raw."""
        whole = span[0], span[1] // MS_PER_HOUR * MS_PER_HOUR
        scrapes = self._scrapes(whole) if whole[0] < whole[1] else None
        answers: list[ReadAnswer] = []
        constants: list[Hours] = []
        # Namespaces of the whole period, so that what is collected does not hang on where windows are cut; and of this window.
        namespaces, gpu_nodes = set(self._namespaces), set(self._gpu_nodes)
        for selector in self._selectors:
            if selector.scope == "hosts":
                if not gpu_nodes:
                    continue  # no node is priced
                selector = among(selector, "node", gpu_nodes)
            if selector.scope == "pods":
                if not namespaces:
                    continue  # nobody asks for a GPU, so no pod matters
                selector = among(selector, "namespace", namespaces)
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
                    gpu_nodes.update(_nodes(series))
        return answers + self._complete(constants, whole[0])

    def _compared(self, part: list[ReadAnswer], span: Span) -> list[ReadAnswer]:
        """What tells ratios from percentages for targets whose values lie between 0 and 1, whatever their names say."""
        between, above = _instances(part, 0.0, 1.0), _instances(part, 1.01, 100.5)
        if not between - above:
            return []
        for alike in compared(self._activity):
            several = [among(selector, "instance", between - above) for selector in alike]
            answers = [
                answer
                for one in several
                for name in one.spelled(self._names)
                for answer in self._fetch(one, name, span)
            ]
            if any(len(answer.ts_ms) for answer in answers):
                return answers
        return []

    def _scrapes(self, span: Span) -> Scrapes | None:
        """When kube-state-metrics was scraped; None where the server does not tell that."""
        counts = self._by_hour(LIVES["node"], f"count_over_time({LIVES['node']}[1h])", span)
        if counts is None or not len(counts.ts_ms):
            return None
        nodes = speakers(counts, span)
        samples = self._fetch(among(Selector(LIVES["node"]), "node", nodes), LIVES["node"], span)
        return None if any(answer.is_partial for answer in samples) else scrapes(counts, samples, span)

    def _hours(self, selector: Selector, name: str, scrapes: Scrapes) -> Hours | None:
        """A metric's series by hour; None where the server does not tell them so."""
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
            highest = {
                series_key(self.source, most.series[at]): one
                for at, one in zip(most.series_index, most.values, strict=True)
                if one > 0
            }
            by_series = [highest.get(series_key(self.source, labels), np.nan) for labels in sums.series]
            unit = value = np.array(by_series, np.float64)[sums.series_index]
        if selector.constant == "flag":
            counts = self._by_hour(selector.metric, f"count_over_time({text}[1h])", span)
            if counts is None or sums.series != counts.series or not np.array_equal(sums.ts_ms, counts.ts_ms):
                return None
            if not np.array_equal(sums.series_index, counts.series_index):
                return None
            value = np.where(sums.values == 0, 0.0, 1.0)
            unit = np.where((sums.values == 0) | (sums.values == counts.values), 1.0, np.nan)
            sums = replace(sums, values=counts.values)
        return Hours(scrapes, self.source, selector, name, sums, unit, value)

    def _by_hour(self, metric: str, query: str, span: Span) -> ReadAnswer | None:
        """What a query says at the end of each hour; None where the server does not answer such questions."""
        if not self._tells_hours:
            return None
        try:
            answer = self._client.by_hour(metric, query, *span)
            return answer if is_by_hour(answer, span) and not answer.is_partial else None
        except TooMuch:
            return None
        except (
            SourceError
        ):  # one that is gone will say so to the next question; some answer no others than for samples
            if self._tells_hours:
                self._tells_hours = False
                self._resize(self._per_hour * _CONSTANT_SHARE)
            return None

    def _complete(self, constants: list[Hours], from_ms: int) -> list[ReadAnswer]:
        """The samples of constant series, raw where their hours do not prove them; lives of objects come first."""
        lives: dict[Life, NDArray[np.int64]] = {}
        rest: dict[tuple[int, str], list[tuple[Hours, set[str]]]] = {}
        for hours in sorted(constants, key=lambda one: one.name not in LIVES.values()):
            if hours.name in LIVES.values():
                for hour, names in hours.unproven().items():
                    self._read_hour([(hours, names)], from_ms, hour)
                lives |= hours.lives()
                continue
            hours.borrow(lives)
            for hour, names in hours.unproven().items():
                rest.setdefault((hour, hours.selector.shard_label), []).append((hours, names))
        for (hour, _), several in rest.items():
            self._read_hour(several, from_ms, hour)
        return [hours.answer() for hours in constants]

    def _read_hour(self, several: list[tuple[Hours, set[str]]], from_ms: int, hour: int) -> None:
        """Reads an hour's unproven rows of metrics that tell of one kind of object: by one question, where few are concerned."""
        span = from_ms + hour * MS_PER_HOUR, from_ms + (hour + 1) * MS_PER_HOUR
        label = several[0][0].selector.shard_label
        every = set().union(*(names for _, names in several))
        if "" not in every and 0 < len(every) <= MOST_NAMES and len(several) > 1:
            metrics = Selector(
                "", (one_of("__name__", sorted(hours.name for hours, _ in several)),), shard_label=label
            )
            answers = self._fetch(among(metrics, label, every), "", span)
            for hours, _ in several:
                hours.read(answers, hour)
            return
        for hours, names in several:
            selector = hours.selector if "" in names else among(hours.selector, label, names)
            hours.read(self._fetch(selector, hours.name, span), hour)

    def write(
        self, con: duckdb.DuckDBPyConnection, run_id: int, span: Span, batch: list[ReadAnswer]
    ) -> LoadResult | None:
        """Loads one window up to the source's newest sample: what lies past it is not there yet, and is asked for again.

        An empty window waits for a later one that holds something, and is logged with it: it may lie past the newest
        sample, and a server that has none at all may be asked with the wrong tenant.
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
            runs.extend_load(con, run_id, *self._short)
            self._short = None
        if self.newest_ms is None or newest >= self.newest_ms:
            self.newest_ms = newest
            self._short = (start, newest + 1), end
            end = newest + 1
        return load_window(con, self._window(run_id, (start, end), batch))

    def _window(self, run_id: int, span: Span, answers: list[ReadAnswer]) -> SampleWindow:
        return SampleWindow(
            source=self.source,
            run_id=run_id,
            from_ms=span[0],
            to_ms=span[1],
            cluster_label=self._config.cluster_label,
            default_cluster=self._config.cluster or "default",
            activity=self._thresholds,
            answers=answers,
        )

    def learned(self, span: Span, loaded: LoadResult) -> None:
        """Sizes the next windows by what this one held, going no faster than twice as far."""
        seen = loaded.size * MS_PER_HOUR / (span[1] - span[0])
        self._resize(max(seen * 1.25, self._per_hour / 2))

    def _resize(self, per_hour: float) -> None:
        self._per_hour = per_hour
        self.window_hours = int(self._config.max_samples / per_hour) if per_hour else 24

    def _fetch(self, selector: Selector, name: str, span: Span, *, sharded: bool = False) -> list[ReadAnswer]:
        def too_much(hour: Span, error: TooMuch) -> list[ReadAnswer]:
            if not sharded:
                return [
                    answer
                    for shard in selector.shards()
                    for answer in self._fetch(shard, name, hour, sharded=True)
                ]
            raise SourceError(
                f"one hour of {name} is more than the server will answer, even in sixteenths: {error.message}",
                fix="raise the server's limit (Prometheus: --query.max-samples)",
            ) from None

        return self._matrices(
            selector.metric, lambda length: f"{selector.text(name)}[{length}ms]", span, too_much
        )

    def find_others(self, result: CollectResult) -> None:
        """Load when the server has samples of families that are silent in what this run loaded: of CPU pods, of DaemonSets.

        Only GPU pods are collected, so the store alone cannot distinguish a cluster without GPU pods from a lost metric.
        """
        failed = [(window.period.start_ms, window.period.end_ms) for window in result.failed_windows]
        known = [(self.data_from_ms or 0, (self.newest_ms or 0) + 1)]
        for span in intersect(subtract(result.spans, failed), known):
            with self.store.read() as con:
                silences = runs.silent_families(con, self.source, self._config.cluster_label, *span)
                self._namespaces |= runs.pod_namespaces(con, self.source)
            try:
                answers = [answer for silence in silences for answer in self._others(*silence, span)]
            except SourceError as error:  # what is stored decides alone
                _log.warning("%s: other objects are unknown: %s", self.source, error.message)
                return
            if answers:
                with self.store.write() as con:
                    load_presence(con, self._window(0, span, answers))

    def _others(
        self, family: str, cluster: str, from_ms: int, to_ms: int, span: Span
    ) -> Iterator[ReadAnswer]:
        """The moments at which objects that are not collected have samples of a family, per target, in and around a silence."""
        label = self._config.cluster_label
        selector = among(OTHERS[family], label, [cluster])
        if selector.scope == "pods":
            selector = except_for(selector, "namespace", self._namespaces)
        query = f"max by ({label}, job, instance) (timestamp({selector.text(selector.metric)}))"
        end = min(to_ms + _PRESENCE_MARGIN_MS, span[1])
        for start in range(max(from_ms - _PRESENCE_MARGIN_MS, span[0]), end, _PRESENCE_PART_MS):
            yield from self._moments(family, query, (start, min(start + _PRESENCE_PART_MS, end)))

    def _moments(self, family: str, query: str, span: Span) -> list[ReadAnswer]:
        """What `query` answers as values, as samples at these moments."""
        last = span[1] - 1  # the steps end there, so that the newest sample is among the answers
        steps = span[0] + (last - span[0]) % _PRESENCE_STEP_MS, last
        try:
            answer = self._client.by_step(FAMILY_SAMPLES, query, steps, _PRESENCE_STEP_MS)
        except TooMuch:
            parts = halves(span)
            return (
                [one for part in parts for one in self._moments(family, query, part)]
                if len(parts) > 1
                else []
            )
        # A value is the moment of a sample; the same one answers for several steps.
        rows = np.unique(np.stack((answer.series_index, np.rint(answer.values * 1000))), axis=1).astype(
            np.int64
        )
        series = [{**labels, "family": family} for labels in answer.series]
        return [ReadAnswer(series, rows[0].astype(np.int32), rows[1], np.ones(rows.shape[1]))]

    def judge(self, result: CollectResult) -> None:
        """Enters what this run did not meet though a report needs it: time, and metrics and labels. Reads the stored series."""
        start, end = result.spans[0][0], result.spans[-1][1]
        first = end if self.data_from_ms is None else min(self.data_from_ms, end)
        result.not_collected = period_of((start, first)) if start < first else None
        heard_until = min(end, self._now_ms, (self.newest_ms or 0) + 1)
        with self.store.read() as con:
            silences = runs.find_silences(con, self.source, start, heard_until) if start < heard_until else []
            result.gaps = [
                MissingSpan(silence.cluster, period_of(silence[1:]), "no GPU was measured")
                for silence in silences
                if intersect([silence[1:]], result.spans)
                and silence.to_ms - silence.from_ms > runs.SHORT_SILENCE_MS
            ]
            if result.windows or not result.failed_windows:
                # where [[hosts]] describes machines, the report says which of them it leaves out
                found = self._findings(con, result)
                result.findings = [one for one in found if not (self._has_hosts and one.fix == KSM_FIX)]
        if end == self._now_ms:
            result.findings += self._newest()
        result.findings += server_warnings(self._config, self._client)

    def _findings(self, con: duckdb.DuckDBPyConnection, result: CollectResult) -> Iterator[SourceFinding]:
        began = self.data_from_ms
        if not (result.metrics or result.dropped) and began is not None and result.asked.end_ms <= began:
            yield self._before_retention(began)
            return
        silences = list(self._silence(con, result))
        yield from silences
        runs.look(con, stored_needs(self._activity))
        codes = {finding.code for finding in silences}
        lacks = (SourceFinding(*row) for row in runs.of_source(con, self.source, result.asked))
        yield from (lack for lack in lacks if lack.code not in codes)
        if result.not_collected is not None and result.metrics and not result.failed_windows:
            yield self._before_retention(result.not_collected.end_ms)

    def _before_retention(self, data_from_ms: int) -> SourceFinding:
        lost = f"{self.source} has nothing before {iso(from_ms(data_from_ms))}; that time is lost"
        fix = "collect every day, before the server forgets: the README says how"
        return SourceFinding("warning", "before_retention", lost, fix)

    def _silence(self, con: duckdb.DuckDBPyConnection, result: CollectResult) -> Iterator[SourceFinding]:
        """Exporters that were silent in this run, and whether they are to be installed or this time alone is lost."""
        source, seen = self.source, set(result.metrics)

        def ever(metric: str) -> bool:
            known = "SELECT 1 FROM series WHERE source = $1 AND metric = $2 LIMIT 1"
            return bool(con.execute(known, [source, metric]).fetchall())

        def now(metric: str) -> bool:
            try:
                return bool(self._client.value(f"count({metric})", self._now_ms))
            except SourceError:  # a server that does not say has it not
                return False

        def silent(
            code: str, message: str, at_other_times: str, lost: str, fix: str, *metrics: str
        ) -> SourceFinding:
            is_there = any(map(ever, metrics)) or any(map(now, metrics))
            return SourceFinding(
                "warning", code, message + at_other_times * is_there + lost, None if is_there else fix
            )

        if not any(metric.startswith("kube_") for metric in seen):
            message = f"{source} holds no sample of {KSM} in this period"
            times = ", though at other times; that time is lost"
            yield silent("no_kube_state_metrics", message, times, "", KSM_FIX, *_ALWAYS_THERE)
        elif REQUESTS not in seen and ever(REQUESTS):
            yield SourceFinding("note", "no_gpu_requests", f"{source}: no pod asked for a GPU in this period")
        names = activity_names(self._activity, "device", "mig")
        if not seen.isdisjoint(names):
            return
        if spoiled := sorted({*names} & {dropped.metric for dropped in result.dropped}):
            yield SourceFinding(
                "warning", "activity_invalid", f"{source}: {' and '.join(spoiled)} held no valid sample"
            )
            return
        device, mig = self._activity.device_metric, self._activity.mig_metric
        message, times = f"{source} has neither {device} nor {mig}", " in this period, though at other times"
        is_running = any(name.startswith("DCGM_") for name in self._names or ())
        fix = activity_fix(device) if is_running else DCGM_FIX
        yield silent("no_activity", message, times, f": {ACTIVITY_LOST}", fix, *names)

    def _newest(self) -> list[SourceFinding]:
        """A warning where the server's newest sample is old: it serves late, or this machine's clock is ahead."""
        newest_ms = self.newest_ms or self._newest_on_server()
        if newest_ms is None or self._now_ms - newest_ms <= _LATE_MS:
            return []
        age = (self._now_ms - newest_ms) / MS_PER_HOUR
        old = f"{age / 24:,.0f} days" if age >= 48 else f"{age:,.1f} h"
        newest = f"its newest sample is {old} old ({iso(from_ms(newest_ms))}); what lies after it is asked for again"
        fix = f"is {iso(self._now.replace(microsecond=0))} the right time? else see why it lags"
        return [SourceFinding("warning", "newest_sample", f"{self.source}: {newest}", fix)]

    def _newest_on_server(self) -> int | None:
        """About when a server that has nothing of late heard of nodes last; None where it does not in two years."""
        start, end = self._now_ms - 730 * 24 * MS_PER_HOUR, self._now_ms
        last: int | None = None
        for step in (24 * MS_PER_HOUR, MS_PER_HOUR, 5 * 60_000):
            times = {"start": f"{start / 1000:.3f}", "end": f"{end / 1000:.3f}", "step": f"{step // 1000}"}
            try:
                answer = self._client.get("query_range", {"query": "count(kube_node_info)", **times})
                last = max(
                    (round(float(row["values"][-1][0]) * 1000) for row in answer["result"]), default=last
                )
            except (SourceError, KeyError, TypeError, ValueError, IndexError):
                return last
            if last is None:
                return None
            start, end = last, min(last + step, self._now_ms)
        return last


def collect_prometheus(
    source: PrometheusSource,
    store: Store,
    period: Period | None,
    activity: Activity,
    idle: Idle,
    progress: Progress | None = None,
    now: datetime | None = None,
    timezone: ZoneInfo | None = None,
    retries: Retries | None = None,
    cost_basis: str = "node",
    has_hosts: bool = False,
) -> CollectResult:
    """Collects one server's samples into the store, those of cores and memory only where `cost_basis` charges them.

    With `has_hosts`, machines without Kubernetes are configured: kube-state-metrics need not be there.

    Without a period: the current month so far (in `timezone`) at first, later whatever is missing since then, the time
    since the last collected moment less two hours, and incomplete hours of the last `late_hours`. With one: all of it anew.
    Raises SourceError where the server does not answer as a Prometheus, or the clock is behind what is stored; a window that
    fails is in the result instead.
    """
    with open_client(source, period, now, retries) as (client, moment):
        now_ms = to_ms(moment)
        if progress is not None:
            progress(ProgressState(source.source, 0, 0, 0, "asking what there is"))
        client.value("vector(1)", now_ms)
        collector = PrometheusCollector(source, store, client, activity, idle, moment, cost_basis, has_hosts)
        with store.write() as con:
            collector.take_stock(con)
            spans = collector.spans(con, period, moment, timezone, collector.newest_ms)
        late = subtract(whole_hours(collector.late_spans(), now_ms), spans) if period is None else []
        asked = period or period_of((spans[0][0], spans[-1][1]))
        spans = merge([*spans, *late])
        collector.prepare(spans)
        result = collector.run(spans, asked, progress)
        result.moment, result.spans = moment, spans
        result.asked_again = sum(b - a for a, b in late) // MS_PER_HOUR
        collector.find_others(result)
        collector.judge(result)
        return result


def _namespaces(series: Sequence[Mapping[str, str]]) -> set[str]:
    """Namespaces of pods that hold GPUs, as requests and the exporter's own labels (also those it had to rename) name them."""
    keys = ("exported_namespace", "namespace", "pod_namespace")
    return {name for one in series if (name := next((one[key] for key in keys if one.get(key)), None))}


def _count(answers: list[ReadAnswer], span: Span) -> tuple[dict[int, int], int | None, int | None]:
    """How many samples of a window lie in each of its epoch hours, and the first and last moment of one."""
    start, end = span
    hours = range(start // MS_PER_HOUR, -(-end // MS_PER_HOUR))
    counts = np.zeros(len(hours))
    moments: list[int] = []
    for answer in answers:
        part = answer.only((answer.ts_ms >= start) & (answer.ts_ms < end))
        if len(part.ts_ms):
            counts += np.bincount(part.ts_ms // MS_PER_HOUR - hours[0], part.weights, len(hours))
            moments += [int(part.ts_ms.min()), int(part.ts_ms.max())]
    return (
        dict(zip(hours, counts.astype(int).tolist(), strict=True)),
        min(moments, default=None),
        max(moments, default=None),
    )


def _instances(answers: Sequence[ReadAnswer], low: float, high: float) -> set[str]:
    """The targets that answered with a value between the two."""
    return {
        answer.series[at].get("instance", "")
        for answer in answers
        for at in np.unique(answer.series_index[(answer.values > low) & (answer.values < high)])
    }


def _nodes(series: Sequence[Mapping[str, str]]) -> set[str]:
    """Names of the nodes that a metric of kube-state-metrics speaks of, as matchers find them."""
    return {labels["node"] for labels in series if labels.get("node")}
