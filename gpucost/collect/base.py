"""What every collector shares: windows fetched side by side, committed in order of time, one transaction each."""

from __future__ import annotations

import shlex
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar

from gpucost.collect.result import CollectResult, Dropped, FailedWindow, ProgressState
from gpucost.collect.windows import subtract, whole_hours
from gpucost.errors import SourceError
from gpucost.model import MS_PER_HOUR, Period, from_ms, iso
from gpucost.store import runs

if TYPE_CHECKING:
    import duckdb

    from gpucost.store import Store
    from gpucost.store.runs import Span
    from gpucost.store.samples import LoadResult, MetricSamples

GROUP = "gpucost.collectors"
LONGEST_WINDOW_HOURS = 24 * 7

Batch = TypeVar("Batch")
Progress = Callable[[ProgressState], None]


class SourceGone(SourceError):
    """A source that will not answer the next window either: the rest of the run fails without being tried."""


def collectors() -> dict[str, type[Collector[object]]]:
    """All registered collectors by kind, as their packages declare them under `gpucost.collectors`."""
    return {entry.name: entry.load() for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name)}


@dataclass(slots=True)
class _Seen:
    """What the windows of a run add up to."""

    dropped: dict[tuple[str, str], int]

    def add(self, loaded: LoadResult, result: CollectResult) -> None:
        from gpucost.store.samples import MetricSamples

        for key, count in loaded.dropped.items():
            self.dropped[key] = self.dropped.get(key, 0) + count
        result.windows += 1
        result.samples += loaded.rows
        result.new_series += loaded.new_series
        for metric, seen in loaded.metrics.items():
            had: MetricSamples = result.metrics.get(metric, seen)
            samples = seen.samples + (had.samples if metric in result.metrics else 0)
            result.metrics[metric] = MetricSamples(samples, min(had.first_ms, seen.first_ms), max(had.last_ms, seen.last_ms))


class Collector(ABC, Generic[Batch]):
    """A source of data. A subclass says how to fetch one window, and how to write what it fetched."""

    kind: ClassVar[str]

    def __init__(self, source: str, store: Store, concurrency: int = 1) -> None:
        self.source = source
        self.store = store
        self.concurrency = concurrency
        self._slots = threading.Semaphore(concurrency)
        self.window_hours = 24

    @abstractmethod
    def fetch(self, span: Span) -> Batch:
        """Reads one window from the source. Called from several threads; raises SourceError."""

    @abstractmethod
    def write(self, con: duckdb.DuckDBPyConnection, run_id: int, span: Span, batch: Batch) -> LoadResult | None:
        """Writes one window inside an open transaction; None where nothing can be said of it yet."""

    def learned(self, span: Span, loaded: LoadResult) -> None:
        """Told of each window that was committed, to size the next ones by."""

    def run(self, spans: list[Span], asked: Period, progress: Progress | None = None) -> CollectResult:
        """Collects all spans; a window that fails is reported and the others go on."""
        ask = (asked.start_ms, asked.end_ms)
        with self.store.write() as con:
            run_id = runs.unfinished(con, self.kind, self.source, ask)
            done = runs.committed(con, run_id) if run_id is not None else []
            if run_id is None:
                run_id = runs.begin(con, self.kind, self.source, ask)
        result = CollectResult(self.source, asked, resumed=len(done))
        seen = _Seen({})
        # A window that ended in a running hour was committed as far as it went: that hour is collected again, whole.
        todo = whole_hours(subtract(spans, done), max((end for _, end in spans), default=0))
        self._all_windows(todo, run_id, result, seen, progress)
        with self.store.write() as con:
            runs.finish(con, run_id)
        result.dropped = [Dropped(metric, reason, n) for (metric, reason), n in sorted(seen.dropped.items())]
        return result

    def _all_windows(self, todo: list[Span], run_id: int, result: CollectResult, seen: _Seen, progress: Progress | None) -> None:
        total = sum(b - a for a, b in todo)
        done = 0
        windows = self._windows(todo)
        flight: deque[tuple[Span, Future[Batch]]] = deque()
        gone: SourceError | None = None
        while True:
            # One window more than there are threads: while it waits to be committed, they are busy with the others.
            while len(flight) <= self.concurrency and gone is None and (span := next(windows, None)):
                flight.append((span, self._fetching(span)))
            if not flight:
                break
            span, future = flight.popleft()
            try:
                batch = future.result()
                with self.store.write() as con:
                    loaded = self.write(con, run_id, span, batch)
                if loaded is not None:
                    seen.add(loaded, result)
                    self.learned(span, loaded)
            except SourceGone as error:
                gone = error
                self._fail(result, span, error)
            except SourceError as error:
                self._fail(result, span, error)
            done += span[1] - span[0]
            if progress is not None:
                progress(ProgressState(self.source, done, total, result.samples))
        if gone is not None:
            for span in windows:
                self._fail(result, span, gone)

    def _fetching(self, span: Span) -> Future[Batch]:
        """Fetches in a thread that keeps nobody from ending the program: a server may take minutes to say nothing."""
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
        period = Period(from_ms(span[0]), from_ms(span[1]))
        last = result.failed_windows[-1] if result.failed_windows else None
        if last is not None and last.period.end == period.start and last.error == error.message:
            result.failed_windows.pop()
            period = Period(last.period.start, period.end)
        command = ["gpucost", "collect", self.kind, "--source", self.source, "--from", iso(period.start), "--to", iso(period.end)]
        result.failed_windows.append(FailedWindow(period, error.message, shlex.join(command)))

    def _windows(self, todo: list[Span]) -> Iterator[Span]:
        """Whole hours, sized by what is known of the source when their turn comes."""
        for start, end in todo:
            while start < end:
                cut = min(start + min(max(1, self.window_hours), LONGEST_WINDOW_HOURS) * MS_PER_HOUR, end)
                yield start, cut
                start = cut
