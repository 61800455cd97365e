"""Common parts of collectors: windows are fetched concurrently and committed in time order, one per
transaction.
"""

from __future__ import annotations

import shlex
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, TypeVar
from zoneinfo import ZoneInfo

from gpucost.errors import SourceError
from gpucost.periods import (
    MS_PER_HOUR,
    Period,
    Span,
    from_ms,
    intersect,
    iso,
    local_midnight,
    merge,
    subtract,
    to_ms,
)
from gpucost.records import frozen_dataclass
from gpucost.store import runs

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.collect.prometheus.client import PrometheusClient
    from gpucost.config.model import Config, PrometheusSource
    from gpucost.store.connection import Store
    from gpucost.store.metrics import LoadResult, MetricSamples, ReadAnswer


@frozen_dataclass
class SourceFinding:
    """A fact about the data for the reader. `fix` is one setting or command, or None."""

    level: Literal["warning", "note"]
    code: str
    message: str
    fix: str | None = None


@frozen_dataclass
class FailedWindow:
    """A part of the period that could not be collected; `command` retries it."""

    period: Period
    error: str
    command: str


@frozen_dataclass
class MissingSpan:
    """Incomplete time of a cluster, and the reason."""

    cluster: str
    period: Period
    reason: str
    families: tuple[str, ...] = ()

    def __str__(self) -> str:
        hours = (self.period.end - self.period.start) / timedelta(hours=1)
        families = f" ({', '.join(self.families)})" if self.families else ""
        span = f"from {iso(self.period.start)} to {iso(self.period.end)} ({hours:,.1f} h)"
        return f"cluster {self.cluster} {span}: {self.reason}{families}"


@dataclass(slots=True)
class CollectResult:
    """The result of one run for one source.

    `moment`: start of the run. `spans`: the requested time in milliseconds. `dropped`: rejected samples by
    metric and reason ('nan', 'sentinel' or 'out_of_range'). `gaps`: silences of over ten minutes in the
    spans. `incomplete`: incomplete time of closed days that will not be queried again. `queried_again`: number
    of incomplete hours of earlier runs. `not_collected`: time before the server's oldest data. `resumed`:
    number of windows that an earlier, killed run committed.
    """

    source: str
    requested: Period
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))
    spans: list[tuple[int, int]] = field(default_factory=list)
    windows: int = 0
    resumed: int = 0
    samples: int = 0
    new_series: int = 0
    metrics: dict[str, MetricSamples] = field(default_factory=dict)
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    gaps: list[MissingSpan] = field(default_factory=list)
    incomplete: list[MissingSpan] = field(default_factory=list)
    queried_again: int = 0
    not_collected: Period | None = None
    failed_windows: list[FailedWindow] = field(default_factory=list)
    findings: list[SourceFinding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """False if a window failed; decides the command's exit code."""
        return not self.failed_windows

    def add(self, loaded: LoadResult) -> None:
        """Add a loaded window."""
        self.windows += 1
        self.samples += loaded.rows
        self.new_series += loaded.new_series
        self.dropped.update(loaded.dropped)
        for metric, seen in loaded.metrics.items():
            self.metrics[metric] = self.metrics[metric] + seen if metric in self.metrics else seen


@frozen_dataclass
class ProgressState:
    """Progress of a run: milliseconds done and in total, samples so far, and the current step."""

    source: str
    done_ms: int
    total_ms: int
    samples: int
    note: str = ""


OVERLAP_MS = 2 * MS_PER_HOUR


def period_of(span: Span) -> Period:
    """A span as a period."""
    return Period(from_ms(span[0]), from_ms(span[1]))


def month_start_ms(moment: datetime, tz: ZoneInfo) -> int:
    """The start of the month of `moment`, in `tz`."""
    return to_ms(moment.astimezone(tz).replace(day=1, hour=0, minute=0, second=0, microsecond=0))


def whole_hours(spans: Iterable[Span], now_ms: int) -> list[Span]:
    """Spans widened to full hours, but not past now: the current hour is collected as far as it has data."""
    widened = [
        (a // MS_PER_HOUR * MS_PER_HOUR, min(-(-b // MS_PER_HOUR) * MS_PER_HOUR, now_ms)) for a, b in spans
    ]
    return merge(widened)


def until(spans: Iterable[Span], newest_ms: int | None) -> list[Span]:
    """The parts of `spans` up to the newest sample; all of them without one."""
    return [(a, b if newest_ms is None else min(b, newest_ms + 1)) for a, b in spans]


def default_spans(
    month_start_ms: int, now_ms: int, requested: Iterable[Span], loaded: Iterable[Span]
) -> list[Span]:
    """The spans of a run without a period.

    The first run collects the time since `month_start_ms`. Later runs collect requested time that was never loaded
    (failed windows, killed runs), and continue from the last collected moment minus an overlap for late data.
    Raises SourceError if the last collected hour is in the future.
    """
    collected = merge(loaded)
    if not collected:
        return whole_hours([*requested, (min(month_start_ms, now_ms - 1), now_ms)], now_ms)
    last = collected[-1][1]
    if last // MS_PER_HOUR * MS_PER_HOUR > now_ms:
        raise SourceError(
            f"this machine's clock is at {iso(from_ms(now_ms))}, but the store has data up to {iso(from_ms(last - 1))}",
            "set this machine's clock, or give a period with --from and --to",
        )
    wanted = [*requested, (min(month_start_ms, last), now_ms)]
    # The last sample can be one scrape interval older than the end of the data.
    again = last + runs.SHORT_SILENCE_MS - OVERLAP_MS
    return whole_hours([*subtract(wanted, collected), (min(again, last), now_ms)], now_ms)


def late_spans(
    con: DuckDBPyConnection, source: str, now_ms: int, late_hours: int, newest_ms: int | None
) -> list[Span]:
    """Hours of the last `late_hours` that are incomplete and may be complete by now.

    `newest_ms` is the source's newest sample, None without one. Later time was never loaded.
    """
    if newest_ms is None or not late_hours:
        return []
    end = min(now_ms, newest_ms + 1)
    hours = runs.incomplete_hours(con, source, now_ms - late_hours * MS_PER_HOUR, end)
    return merge(
        (hour.hour * MS_PER_HOUR, (hour.hour + 1) * MS_PER_HOUR) for hour in hours if not hour.is_settled
    )


def halves(span: Span) -> list[Span]:
    """Both parts of a span, cut at the full hour next to its middle; at most one hour stays whole."""
    start, end = span
    middle = start + max(1, round((end - start) / 2 / MS_PER_HOUR)) * MS_PER_HOUR
    return [(start, middle), (middle, end)] if middle < end else [span]


def uncollected(config: Config, store: Store, period: Period, now: datetime) -> dict[str, list[Period]]:
    """The missing parts of `period`, by the name of each configured Prometheus.

    Never-collected time with an overlap for late data, and incomplete hours that are due again.
    """
    now_ms = to_ms(now)
    wanted = [(period.start_ms, min(period.end_ms, now_ms))]
    periods = {}
    for source in config.prometheus:
        missing = wanted
        if store.exists:
            with store.read() as con:
                newest_ms = runs.newest_sample(con, source.source)
                missing = subtract(wanted, until(runs.loaded(con, "prometheus", source.source), newest_ms))
                late = late_spans(con, source.source, now_ms, source.late_hours, newest_ms)
            missing = [(max(period.start_ms, start - OVERLAP_MS), end) for start, end in missing]
            missing += intersect(wanted, late)
        periods[source.source] = [period_of(span) for span in merge(missing)]
    return periods


LONGEST_WINDOW_HOURS = 24 * 7

Batch = TypeVar("Batch")
Progress = Callable[[ProgressState], None]
# Answers for an hour that the server refuses as a whole.
TooMuchFor = Callable[[Span, "TooMuch"], "list[ReadAnswer]"]


class SourceUnavailable(SourceError):
    """The source will not answer the next window either: the rest of the run fails at once."""


class TooMuch(SourceError):
    """The answer is too large for the server; query a shorter span."""


class Collector(ABC, Generic[Batch]):
    """A server with Prometheus' HTTP API. Subclasses fetch and write one window."""

    kind: ClassVar[str]

    def __init__(self, source: PrometheusSource, store: Store, client: PrometheusClient) -> None:
        self.source = source.source
        self.store = store
        self._server = source
        self._client = client
        self._slots = threading.Semaphore(source.concurrency)
        self.window_hours = 24
        # the start of a first run, if it is before this month
        self.first_ms: int | None = None

    def spans(
        self,
        con: DuckDBPyConnection,
        period: Period | None,
        moment: datetime,
        tz: ZoneInfo,
        newest_ms: int | None,
    ) -> list[Span]:
        """The spans of a run: `period`, otherwise the month so far (in `tz`) or missing time, up to
        `newest_ms`.
        """
        if period is not None:
            return whole_hours([(period.start_ms, period.end_ms)], to_ms(moment))
        so_far = until(runs.loaded(con, self.kind, self.source), newest_ms)
        month_ms = month_start_ms(moment, tz)
        return default_spans(
            min(month_ms, self.first_ms or month_ms),
            to_ms(moment),
            runs.requested(con, self.kind, self.source),
            so_far,
        )

    def _in_parts(
        self, span: Span, ask: Callable[[Span], ReadAnswer], too_much: TooMuchFor
    ) -> list[ReadAnswer]:
        """The answers to `ask`, in parts if the whole is too much; `too_much` answers for a single hour."""
        try:
            return [ask(span)]
        except TooMuch as error:
            parts = halves(span)
            if len(parts) == 1:
                return too_much(span, error)
            self.window_hours = max(1, min(self.window_hours, (span[1] - span[0]) // MS_PER_HOUR // 2))
            return [answer for part in parts for answer in self._in_parts(part, ask, too_much)]

    def _matrix(self, metric: str, query: Callable[[int], str], span: Span) -> ReadAnswer:
        """The samples of `span` as JSON, by a `query` for a length in milliseconds."""
        # Prometheus 3 excludes a sample at the left end of a range, Prometheus 2 includes it. A range of the
        # window's length that ends one millisecond before the window makes both include its first moment; the
        # store drops earlier samples.
        return self._client.matrix(metric, query(span[1] - span[0]), span[1] - 1)

    @abstractmethod
    def fetch(self, span: Span) -> Batch:
        """Read one window from the source. Called from several threads; raises SourceError."""

    @abstractmethod
    def write(self, con: DuckDBPyConnection, run_id: int, span: Span, batch: Batch) -> LoadResult | None:
        """Write one window in the open transaction; None if the window has to wait for a later one."""

    def learned(self, span: Span, loaded: LoadResult) -> None:
        """Hook for each committed window, to size the next ones."""

    def run(self, spans: list[Span], requested: Period, progress: Progress | None = None) -> CollectResult:
        """Collect all spans; failed windows are reported, and the others continue."""
        span = (requested.start_ms, requested.end_ms)
        with self.store.write() as con:
            run_id = runs.unfinished(con, self.kind, self.source, span)
            done = runs.committed(con, run_id) if run_id is not None else []
            if run_id is None:
                run_id = runs.begin(con, self.kind, self.source, span)
        result = CollectResult(self.source, requested, resumed=len(done))
        # A window that ended in a running hour was committed up to then; collect that hour again as a whole.
        todo = whole_hours(subtract(spans, done), max((end for _, end in spans), default=0))
        self._all_windows(todo, run_id, result, progress)
        with self.store.write() as con:
            runs.finish(con, run_id)
        return result

    def _all_windows(
        self, todo: list[Span], run_id: int, result: CollectResult, progress: Progress | None
    ) -> None:
        """Fetch and commit all windows."""
        total, done = sum(end - start for start, end in todo), 0
        windows = self._windows(todo)
        flight: deque[tuple[Span, Future[Batch]]] = deque()
        gone = None
        while True:
            while len(flight) < self._server.concurrency and gone is None and (span := next(windows, None)):
                flight.append((span, self._fetching(span)))
            if not flight:
                break
            span, future = flight.popleft()
            try:
                batch = future.result()
                with self.store.write() as con:
                    loaded = self.write(con, run_id, span, batch)
                if loaded is not None:
                    result.add(loaded)
                    self.learned(span, loaded)
            except SourceError as error:
                gone = error if isinstance(error, SourceUnavailable) else gone
                self._fail(result, span, error)
            done += span[1] - span[0]
            if progress is not None:
                progress(ProgressState(self.source, done, total, result.samples))
        if gone is not None:
            for span in windows:
                self._fail(result, span, gone)

    def _fetching(self, span: Span) -> Future[Batch]:
        """Fetch in a daemon thread, so that a slow server does not block the program's exit."""
        future: Future[Batch] = Future()

        def work() -> None:
            with self._slots:
                try:
                    future.set_result(self.fetch(span))
                except BaseException as error:
                    future.set_exception(error)

        threading.Thread(target=work, name="collect", daemon=True).start()
        return future

    def _fail(self, result: CollectResult, span: Span, error: SourceError) -> None:
        period = period_of(span)
        last = result.failed_windows[-1] if result.failed_windows else None
        if last is not None and last.period.end == period.start and last.error == error.message:
            result.failed_windows.pop()
            period = Period(last.period.start, period.end)
        again = f"gpucost collect {self.kind} --source {shlex.quote(self.source)}"
        time = f"--from {iso(period.start)} --to {iso(period.end)}"
        result.failed_windows.append(FailedWindow(period, error.message, f"{again} {time}"))

    def _windows(self, todo: list[Span]) -> Iterator[Span]:
        """Whole hours, sized when their turn comes."""
        for start, end in todo:
            while start < end:
                length = min(max(1, self.window_hours), LONGEST_WINDOW_HOURS) * MS_PER_HOUR
                yield start, min(start + length, end)
                start += length


def note_gaps(
    con: DuckDBPyConnection,
    source: PrometheusSource,
    result: CollectResult,
    period: Period | None,
    tz: ZoneInfo,
) -> None:
    """Add the gaps and final losses of the source's clusters in `coverage_gaps` to `result`."""
    rows = con.execute(
        "SELECT cluster, from_ms, to_ms, kind, families, reason FROM coverage_gaps"
        " WHERE kind IN ('not_collected', 'bridged', 'partial') AND accepted_by IS NULL"
        " AND reason NOT IN ('before its first sample', 'before the first collection')"
        " AND cluster IN (SELECT cluster FROM series WHERE source = $source) ORDER BY from_ms, cluster",
        {"source": source.source},
    ).fetchall()
    # Time after the newest sample is late, not missing; time before the first was reported already.
    newest = (runs.newest_sample(con, source.source) or 0) + 1
    closed = _closed_days(source, period, result.moment, tz)
    # Hours that will not be queried again: two answers an hour apart agree, or they are too old.
    last = to_ms(result.moment) // MS_PER_HOUR - source.late_hours
    final = con.execute(
        "SELECT hour::BIGINT * 3600000, (hour + 1)::BIGINT * 3600000 FROM asked_hours"
        " WHERE source = $source AND (last_at - first_at >= INTERVAL 1 HOUR OR hour < $last)",
        {"source": source.source, "last": last},
    ).fetchall()
    for cluster, start, end, kind, families, reason in rows:
        is_bridged = kind == "bridged"
        why = f"{reason}; pods present at both ends are counted throughout" if is_bridged else reason
        seen = intersect([(start, min(end, newest))], result.spans)
        if sum(b - a for a, b in seen) > runs.SHORT_SILENCE_MS:
            result.gaps.append(
                MissingSpan(cluster, period_of((seen[0][0], seen[-1][1])), why, tuple(families))
            )
        if not is_bridged and intersect(intersect([(start, end)], [closed]), final):
            result.incomplete.append(
                MissingSpan(cluster, period_of((start, min(end, closed[1]))), why, tuple(families))
            )
    result.findings += [SourceFinding("warning", "gap", f"{source.source}: {gap}") for gap in result.gaps]


def _closed_days(source: PrometheusSource, period: Period | None, now: datetime, tz: ZoneInfo) -> Span:
    """The closed local days that were queried as a whole."""

    def midnight(instant: datetime) -> int:
        return to_ms(local_midnight(instant.astimezone(tz).date(), tz))

    if period is None:
        return to_ms(now) - (source.late_hours + 48) * MS_PER_HOUR, midnight(now)
    first = midnight(period.start + timedelta(days=1) - timedelta(milliseconds=1))
    return first, max(first, min(midnight(now), midnight(period.end)))
