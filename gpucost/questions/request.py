"""The input of every question: configuration, store, period and selection of the fleet."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost import disk
from gpucost.errors import GpucostError
from gpucost.options import (
    ClusterOption,
    LabelOption,
    LabelSelection,
    MonthOption,
    Names,
    PeriodOptions,
    Selection,
    SpanOptions,
    WorkloadSelection,
)
from gpucost.periods import Period, parse_period
from gpucost.records import mixin_dataclass
from gpucost.texts import concealed

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.questions.report.query import Query
    from gpucost.render.view import Document, ReportView
    from gpucost.store.connection import Store

# Cleaned up when the program ends.
_ended = ExitStack()
atexit.register(_ended.close)
_MOST_GAPS = 5
# The fields that select a part of the fleet.
_SELECTED = ("teams", "namespaces", "clusters", "workloads", "users", "labels")
DIMENSION_NAMES = (
    "cluster, namespace, team, top_team, workload, workload_type, pod, uid, node, gpu_model, capacity_type, region, "
    "zone, month, day, hour, user, priority_class, label:NAME, and for Slurm account, partition, qos, reservation"
)


class Client:
    """Receives the notes and progress of a question.

    This one keeps the notes and shows no progress.
    """

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self.notes: list[str] = []
        self.quiet, self.verbose = quiet, verbose

    def note(self, text: str) -> None:
        """Report a note, without secrets."""
        self.notes.append(concealed(text))

    @contextmanager
    def status(self) -> Iterator[Callable[[str], None]]:
        """Yield a function that takes the name of the current step."""
        yield lambda _: None


@mixin_dataclass
class Request:
    """The input of a question. Files are read when first needed.

    `format` is the output format; a question can leave out data that the format does not show. Properties raise
    ConfigError.
    """

    config_file: Path | None = None
    store_file: Path | None = None
    lake: str | None = None
    format: str = "json"
    with_samples: bool = True
    client: Client = field(default_factory=Client)

    def __post_init__(self) -> None:
        if names := getattr(self, "teams", ()):
            # the fields are frozen; a filter of a team includes the teams below it
            below = self.configured.children(*names)
            every = dict.fromkeys((*names, *below))
            object.__setattr__(self, "teams", tuple(every))

    @functools.cached_property
    def configured(self) -> Config:
        """The configuration from files, variables and options."""
        from gpucost.config.load import load_config

        return load_config(self.config_file, store=self.store_file)

    @functools.cached_property
    def settings(self) -> Config:
        """The configuration in force. For a lake, its store replaces the configured one."""
        if not self.lake:
            return self.configured
        from gpucost.lake.reading import open_store

        folder = _ended.enter_context(disk.temporary())
        period = self.explicit_period
        with self.status() as show_progress:
            store, notes = open_store(
                self.configured,
                self.lake,
                folder,
                period,
                samples=self.with_samples,
                show_progress=show_progress,
            )
        for text in notes:
            self.note(f"note: {text}")
        return self.configured.in_store(store.path)

    @functools.cached_property
    def store(self) -> Store:
        """The configured store, not opened yet."""
        from gpucost.store.connection import Store

        return Store.of(self.settings)

    @functools.cached_property
    def now(self) -> datetime:
        """The moment of the request."""
        return datetime.now(UTC)

    @property
    def tz(self) -> ZoneInfo:
        """The configured time zone."""
        return self.configured.tz

    @property
    def is_flat(self) -> bool:
        """Whether the answer is only the rows of one table."""
        return self.format in ("csv", "parquet")

    def attributed(self) -> Store:
        """The store, attributed for this configuration. If that fails, a note names the costs it has instead."""
        from gpucost import pipeline

        try:
            pipeline.attribute(self.settings, self.store)
        except GpucostError as error:
            if self.store.exists:
                self.note(
                    f"note: costs are from the last configuration that the store was attributed for: {error}"
                )
        return self.store

    def note(self, text: str) -> None:
        """Report a note."""
        self.client.note(text)

    def status(self) -> AbstractContextManager[Callable[[str], None]]:
        """Yield a function that takes the name of the current step."""
        return self.client.status()

    @functools.cached_property
    def named_period(self) -> tuple[Period, str] | None:
        """The period given by the options and its display name; None if they give none."""
        names = {name: getattr(self, name, None) for name in ("month", "start", "end", "last")}
        return parse_period(self.tz, self.now, **names)

    @property
    def explicit_period(self) -> Period | None:
        """The period given by the options; None if they give none."""
        return self.named_period[0] if self.named_period else None

    @functools.cached_property
    def chosen(self) -> tuple[Period, str, str | None]:
        """The period, its display name, and why it was chosen.

        It is the period of the options, otherwise the current month so far, otherwise the newest month with data.
        Raises GpucostError if the store has no data, UsageError for an invalid period.
        """
        from gpucost.questions.report.query import default_period

        if self.named_period:
            return *self.named_period, None
        with self.store.read() as con:
            return default_period(con, self.tz, self.now)

    @property
    def period(self) -> Period:
        """The chosen period."""
        return self.chosen[0]

    @property
    def period_name(self) -> str:
        """The display name of the period."""
        return self.chosen[1]

    @property
    def scope_name(self) -> str:
        """The selected part of the fleet, by name; empty for all of it."""
        return ", ".join(text for name in _SELECTED for text in getattr(self, name, ()))

    def query(self, **more: Any) -> Query:
        """The report query for the options, with `more` of its fields."""
        from gpucost.questions.report.query import Query

        fields: dict[str, Any] = {name: getattr(self, name, ()) for name in _SELECTED}
        fields["top_teams"] = tuple(self.configured.top_teams.items())
        if "period" not in more:
            fields |= dict(zip(("period", "period_name", "period_note"), self.chosen, strict=True))
        return Query(**{"now": self.now, **fields, **more})

    def check_names(self, query: Query) -> None:
        """Raise GpucostError for a filter that names something without GPUs in the query's period.

        The error lists similar names. Patterns, and teams of a tree, are not checked.
        """
        from gpucost.store.usage import unknown_name

        if not any(query.filters.values()):
            return
        with self.attributed().read() as con:
            if error := unknown_name(
                con, *query.period.span, query.period_name, query.filters, query.relatives
            ):
                raise error

    def report(self, **more: Any) -> ReportView:
        """The report for that query. Raises GpucostError if there is none."""
        from gpucost.questions.report.reading import report

        return report(self.settings, self.store, self.query(**more))

    def gap_notes(self, clusters: Names, period: Period | None = None) -> tuple[str, ...]:
        """Notes on gaps of the period that are not accepted, one line each."""
        from gpucost.questions.report.coverage import missed

        with self.store.read() as con:
            _, notices, _ = missed(con, period or self.period, self.now, self.settings.tz, clusters)
        notes = [f"note: {notice.message}" for notice in notices[:_MOST_GAPS]]
        if len(notices) > _MOST_GAPS:
            notes.append(f"note: and {len(notices) - _MOST_GAPS:,} more such gaps")
        return tuple(notes)

    def note_gaps(self, clusters: Names = (), period: Period | None = None) -> None:
        """Report those notes."""
        for text in self.gap_notes(clusters, period):
            self.note(text)


@mixin_dataclass
class MonthRequest(MonthOption, Request):
    """A question about a calendar month."""


@mixin_dataclass
class SpanRequest(SpanOptions, Request):
    """A question about the time between two instants."""


@mixin_dataclass
class PeriodRequest(PeriodOptions, Request):
    """A question about a period."""


@mixin_dataclass
class ClusterRequest(ClusterOption, PeriodOptions, Request):
    """A question about a period and some clusters."""


@mixin_dataclass
class SelectionRequest(WorkloadSelection, Request):
    """A question about a part of the fleet, down to workloads."""


@mixin_dataclass
class FleetRequest(Selection, PeriodOptions, Request):
    """A question about a period and a part of the fleet."""


@mixin_dataclass
class LabeledFleetRequest(LabelOption, FleetRequest):
    """A question about a period and a part of the fleet, also by label."""


@mixin_dataclass
class WorkloadRequest(WorkloadSelection, PeriodOptions, Request):
    """A question about a period and a part of the fleet, down to workloads."""


@mixin_dataclass
class LabeledRequest(LabelSelection, WorkloadRequest):
    """A question about a period and a part of the fleet, down to workloads and labels."""


def with_notes(request: Request, document: Document, notes: Sequence[str]) -> Document:
    """The document with notes as its last section, unless the client is quiet.

    For flat formats, the notes are reported instead.
    """
    from gpucost.render.view import Texts

    below = (Texts("Notes", tuple(notes)),) if notes and not request.client.quiet else ()
    return replace(
        document,
        sections=(*document.sections, *below),
        notes=(*document.notes, *(notes if request.is_flat else ())),
    )


@contextmanager
def store_or_empty(settings: Config) -> Iterator[DuckDBPyConnection]:
    """The store if it exists, otherwise an empty one in memory: the catalog can be read from either."""
    from gpucost.store.connection import Store, scratch_store

    store = Store.of(settings)
    with store.read() if store.exists else scratch_store() as con:
        yield con
