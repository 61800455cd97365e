"""Collect counters and gauges of work from a server with Prometheus' HTTP API."""

from functools import partial

import numpy as np

from gpucost.collect.base import Collector, CollectResult, Progress, SourceFinding, TooMuch, period_of
from gpucost.collect.progress.mappings import mappings, ready_made, selector, series_of
from gpucost.collect.prometheus.client import PrometheusClient
from gpucost.collect.prometheus.collector import open_client, server_warnings
from gpucost.config.model import Config, PrometheusSource, UnitSettings
from gpucost.errors import SourceError
from gpucost.periods import Period, Span, to_ms
from gpucost.records import DuckDBPyConnection
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.metrics import LoadResult, ReadAnswer
from gpucost.store.progress import ProgressBatch, load_values
from gpucost.suggest import did_you_mean


class ProgressCollector(Collector[list[tuple["UnitSettings", ReadAnswer]]]):
    """One server's work metrics, by the mappings whose metrics it has."""

    kind = "progress"

    def __init__(
        self, source: PrometheusSource, store: Store, client: PrometheusClient, units: list[UnitSettings]
    ) -> None:
        super().__init__(source, store, client)
        self._units = units

    def keep_known(self, spans: list[Span]) -> set[str] | None:
        """Drop mappings without metrics on the server; return its metric names, or None if unknown."""
        names = self._client.label_values("__name__", spans[0][0], spans[-1][1])
        if names is not None:
            self._units = [unit for unit in self._units if unit.query is not None or unit.metric in names]
        return names

    def fetch(self, span: Span) -> list[tuple[UnitSettings, ReadAnswer]]:
        """All mappings' samples in one window."""
        return [(unit, answer) for unit in self._units for answer in self._fetch(unit, span)]

    def write(
        self, con: DuckDBPyConnection, run_id: int, span: Span, batch: list[tuple[UnitSettings, ReadAnswer]]
    ) -> LoadResult | None:
        """Replace this server's work in the window."""
        work = ProgressBatch()
        metrics = {}
        for unit, answer in batch:
            cuts = np.flatnonzero(np.diff(answer.series_index)) + 1
            for part in np.split(np.arange(len(answer.ts_ms)), cuts):
                if not len(part):
                    continue
                labels = dict(answer.series[int(answer.series_index[part[0]])])
                cluster = labels.get(self._server.cluster_label) or self._server.cluster or "default"
                work.add(series_of(unit, labels, cluster), answer.ts_ms[part], answer.values[part])
            if len(answer.ts_ms):
                metrics[unit.name] = answer.samples
        loaded = load_values(con, self.source, span, work)
        runs.log_load(con, run_id, self.kind, self.source, span, rows=loaded.values, dropped=loaded.dropped)
        dropped = {("progress", "nan"): loaded.dropped} if loaded.dropped else {}
        return LoadResult(loaded.values, loaded.new_series, dropped, metrics)

    def _fetch(self, unit: UnitSettings, span: Span) -> list[ReadAnswer]:
        name = unit.metric or unit.name

        def query(length: int) -> str:
            if unit.query is not None:
                return f"({unit.query})[{length}ms:60s]"
            return f"{selector(unit)}[{length}ms]"

        def too_much(_: Span, error: TooMuch) -> list[ReadAnswer]:
            raise SourceError(
                f"an answer for one hour of {name} is too large for the server: {error.message}", error.fix
            ) from None

        return self._in_parts(span, partial(self._matrix, name, query), too_much)


def collect_progress(
    config: Config, source: PrometheusSource, store: Store, period: Period | None, progress: Progress | None
) -> CollectResult:
    """Collect one server's work metrics into the store.

    Without a period, the first run collects the current month so far. Later runs collect missing time and the
    time since the last collected moment minus two hours. With a period, everything in it is collected again.
    Raises SourceError if the server does not answer.
    """
    with open_client(source, period) as (client, moment):
        now_ms = to_ms(moment)
        client.value("vector(1)", now_ms)
        units = mappings(config)
        collector = ProgressCollector(source, store, client, units)
        with store.write() as con:
            # If an earlier query ran with a clock that was ahead, exclude future time: it was not loaded yet.
            spans = collector.spans(con, period, moment, config.tz, now_ms - 1)
        names = collector.keep_known(spans)
        result = collector.run(spans, period or period_of((spans[0][0], spans[-1][1])), progress)
        result.findings += _without_series(source, units, result, names) + server_warnings(source, client)
        return result


def _without_series(
    source: PrometheusSource, units: list[UnitSettings], result: CollectResult, names: set[str] | None
) -> list[SourceFinding]:
    """Findings about configured mappings without matches. Built-in ones stay silent until a server has their
    metrics.
    """
    if result.resumed or not result.ok:  # the result of the rest is unknown
        return []
    brought = ready_made()
    findings = []
    for unit in (
        queried for queried in units if queried.name not in result.metrics and queried not in brought
    ):
        message = f"{source.url}: [[units]] {unit.name!r} matched no series in this period"
        if unit.metric is not None and names is not None and unit.metric not in names:
            message += f"; the server has no metric {unit.metric}"
            fix = did_you_mean(unit.metric, names, "check its metric")
        else:
            wrong = "query" if unit.query is not None else "match" if unit.match else "metric"
            fix = f"check its {wrong}"
        findings.append(SourceFinding("note", "unit_without_series", message, fix))
    if not findings and names is not None and not any(unit.query or unit.metric in names for unit in units):
        message = f"{source.url} has no known metrics of work"
        fix = "configure your metrics in [[units]] of gpucost.toml"
        findings.append(SourceFinding("note", "no_units", message, fix))
    return findings
