"""What every command shares: its options, made from one line, the call that they describe, and how it fails."""

from __future__ import annotations

import atexit
import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, ParamSpec, TypeVar

import typer

from gpucost import disk
from gpucost.cli.app import EVERYWHERE, WHOSE, WRITTEN
from gpucost.cli.completion import stored
from gpucost.cli.output import (
    drop_stdout,
    is_gathered,
    note,
    output_file,
    plain,
    print_error,
    put,
    to_stdout,
    waiting,
    write_output,
    write_page,
    write_rows,
)
from gpucost.errors import GpucostError, IncompleteError, NoDataError, UsageError
from gpucost.periods import MS_PER_HOUR, parse_period
from gpucost.render.rows import FLAT, RowFormat
from gpucost.texts import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from rich.progress import TaskID

    from gpucost.collect.base import ProgressState
    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.render.view import Document, ReportView
    from gpucost.report import Query
    from gpucost.store.connection import Store


# What an answer is compared with.
Comparison = Literal["previous"]
# What goes when the program ends.
_ended = ExitStack()
atexit.register(_ended.close)
P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
BROKEN_PIPE = 141
# About as many characters as the words beside a bar take; a narrower terminal shows the bar and its percentage alone.
_WORDS = 80


def option(name: str, metavar: str | None, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that takes a value, and has no default that help should show; `panel` is the part of help that it stands in.

    A choice needs no `metavar`: help lists its values.
    """
    return typer.Option(name, metavar=metavar, help=help, show_default=False, rich_help_panel=panel, **more)


def switch(name: str, help: str, panel: str | None = None) -> Any:
    """A flag, or a choice with a default that help shows."""
    return typer.Option(name, help=help, rich_help_panel=panel)


def count_option(name: str, help: str, least: int = 0, most: int | None = None) -> Any:
    """An option that takes a number of things; help shows its default."""
    return typer.Option(name, metavar="COUNT", min=least, max=most, help=help)


def argument(metavar: str, help: str) -> Any:
    """A word without an option before it."""
    return typer.Argument(metavar=metavar, help=help, show_default=False)


def names_in(texts: list[str] | None) -> tuple[str, ...]:
    """The names that an option has, which may be repeated and takes several between commas."""
    return tuple(part.strip() for text in texts or () for part in text.split(",") if part.strip())


# What an option holds that may be repeated.
Texts = list[str] | None
# Each option that commands share: its name as a parameter, its type, how it is typed and what help says of it.
_SHARED: dict[str, tuple[Any, ...]] = {
    **{
        name: (
            Texts,
            option(f"--{name}", "NAME", f"Only this {name}; repeatable.", WHOSE, autocompletion=stored(name)),
        )
        for name in ("team", "namespace", "cluster")
    },
    "workload": (
        Texts,
        option(
            "--workload",
            "NAME",
            "Only this workload, as Kind/name or by its name; repeatable.",
            WHOSE,
            autocompletion=stored("workload"),
        ),
    ),
    "month": (
        str | None,
        option(
            "--month",
            "YYYY-MM",
            "A whole month of the configured time zone.",
            WHOSE,
            autocompletion=stored("month"),
        ),
    ),
    "start": (
        str | None,
        option(
            "--from",
            "TIME",
            "Begin here: 2026-10-01 (local midnight), 2026-10-01T06:00 (local), 2026-10-01T06:00Z.",
            WHOSE,
        ),
    ),
    "end": (str | None, option("--to", "TIME", "End before this instant; without it, now.", WHOSE)),
    "last": (
        str | None,
        option(
            "--last",
            "SPAN",
            "The last complete days or weeks (7d, 2w), up to last midnight; hours (24h), up to the last full hour.",
            WHOSE,
        ),
    ),
    "format": (
        RowFormat | None,
        option(
            "--format",
            None,
            "How to write it. Default: by the suffix of -o (.md, .csv, .json, .parquet), else table.",
            WRITTEN,
        ),
    ),
    "output": (
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write here instead of stdout.",
            show_default=False,
            rich_help_panel=WRITTEN,
        ),
    ),
    "config": (
        Path | None,
        option("--config", "FILE", "Config file; without it ./gpucost.toml, else the user's.", EVERYWHERE),
    ),
    "store": (
        Path | None,
        option("--store", "FILE", "Store file, instead of the one the config names.", EVERYWHERE),
    ),
    "lake": (
        str | None,
        option(
            "--lake",
            "URL",
            "A lake in place of the store: a folder, s3://…, gs://… or abfss://… (docs/lake.md).",
            EVERYWHERE,
        ),
    ),
    "quiet": (
        bool,
        typer.Option(
            "--quiet", "-q", help="Only data and errors: no progress, no notes.", rich_help_panel=EVERYWHERE
        ),
        False,
    ),
    "verbose": (
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Say more; show the traceback of unexpected errors.",
            rich_help_panel=EVERYWHERE,
        ),
        False,
    ),
    "profile": (bool, switch("--profile", "Show on stderr what each stage of SQL took.", EVERYWHERE), False),
}


def parameters(options: Mapping[str, tuple[Any, ...]]) -> dict[str, inspect.Parameter]:
    """Options as parameters of a command, by name, out of their types, how they are typed, and their defaults, where not none."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    return {
        name: inspect.Parameter(
            name, keyword, default=default[0] if default else None, annotation=Annotated[kind, how]
        )
        for name, (kind, how, *default) in options.items()
    }


SHARED = parameters(_SHARED)
_WORDS_FOR = {"period": ("month", "start", "end", "last"), "written": ("format", "output")}
_LAST = ("config", "store", "quiet", "verbose", "profile")
# What options are called in a Call, where that is another name.
_FIELDS = {"config": "config_file", "store": "store_file", "output": "target"}
_SUFFIXES = {
    ".md": RowFormat.markdown,
    ".csv": RowFormat.csv,
    ".json": RowFormat.json,
    ".parquet": RowFormat.parquet,
}


# How an answer is written that has no rows of one kind.
BriefFormat = Literal["table", "json"]
brief_format = switch("--format", "How to write it.", WRITTEN)


@dataclass(frozen=True)
class Call:
    """One call of a command: what the shared options say, and what is read where it is first asked for.

    `more` is what was given of options that only some commands share. Properties raise ConfigError, and UsageError for a period
    that cannot be read.
    """

    config_file: Path | None = None
    store_file: Path | None = None
    quiet: bool = False
    verbose: bool = False
    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    month: str | None = None
    start: str | None = None
    end: str | None = None
    last: str | None = None
    format: RowFormat = RowFormat.table
    target: Path | None = None
    lake: str | None = None
    with_samples: bool = True
    more: Mapping[str, Any] = field(default_factory=dict)

    @functools.cached_property
    def configured(self) -> Config:
        """The configuration as files, variables and options say it."""
        from gpucost.config.load import load_config

        return load_config(self.config_file, store=self.store_file)

    @functools.cached_property
    def settings(self) -> Config:
        """The configuration in force: with --lake, a store of the lake's figures is in place of the configured one."""
        return self._of_lake(self.lake) if self.lake else self.configured

    @functools.cached_property
    def store(self) -> Store:
        """The store that the configuration names; nothing is opened yet."""
        from gpucost.store.connection import Store

        return Store.of(self.settings)

    def _of_lake(self, url: str) -> Config:
        from gpucost.lake.reading import open_store

        folder = _ended.enter_context(disk.temporary())
        period = self.named_period[0] if self.named_period else None
        with self.status() as tell:
            store, notes = open_store(
                self.configured, url, folder, period, samples=self.with_samples, tell=tell
            )
        for text in notes:
            note(f"note: {text}")
        return self.configured.in_store(store.path)

    @functools.cached_property
    def now(self) -> datetime:
        """The moment of the call."""
        return datetime.now(UTC)

    @property
    def tz(self) -> ZoneInfo:
        """The configured time zone."""
        return self.configured.tz

    @functools.cached_property
    def named_period(self) -> tuple[Period, str] | None:
        """The period that the options name, and its name for people; None where they name none."""
        return parse_period(
            self.tz, self.now, month=self.month, start=self.start, end=self.end, last=self.last
        )

    @functools.cached_property
    def chosen(self) -> tuple[Period, str, str | None]:
        """The period that the options name, else the current month so far, or the newest with data; its name, and why that one.

        Raises GpucostError where the store holds nothing.
        """
        from gpucost.report import default_period

        if self.named_period:
            return *self.named_period, None
        with self.store.read() as con:
            return default_period(con, self.tz, self.now)

    @property
    def period(self) -> Period:
        """The period that is chosen."""
        return self.chosen[0]

    @property
    def period_name(self) -> str:
        """Its name for people."""
        return self.chosen[1]

    @property
    def scope_name(self) -> str:
        """Whose usage is asked for, by name; empty where everybody's is."""
        return ", ".join((*self.teams, *self.namespaces, *self.clusters))

    def query(self, **more: Any) -> Query:
        """The report's query that the options make, with `more` of its fields."""
        from gpucost.report import Query

        fields = {
            "teams": self.teams,
            "namespaces": self.namespaces,
            "clusters": self.clusters,
            "now": self.now,
        }
        if "period" not in more:
            fields |= dict(zip(("period", "period_name", "period_note"), self.chosen, strict=True))
        return Query(**{**fields, **more})

    def report(self, **more: Any) -> ReportView:
        """The report of that query. Raises GpucostError where there is none."""
        from gpucost import pipeline

        return pipeline.report(self.settings, self.store, self.query(**more))

    def attributed(self) -> Store:
        """The store, attributed for this configuration. If it cannot be, a note says what its costs are instead."""
        from gpucost import pipeline

        try:
            pipeline.attribute(self.settings, self.store)
        except GpucostError as error:
            if self.store.exists:
                self.note(
                    f"note: costs are those of the configuration that the store was attributed for last: {error}"
                )
        return self.store

    def note(self, text: str) -> None:
        """Say something beside the data, on stderr; nothing under -q."""
        note(text, quiet=self.quiet)

    def say(self, text: str) -> None:
        """Print what a command without an answer did; nothing under -q."""
        if not self.quiet:
            put(visible(text))

    def write(self, text: str) -> None:
        """Write the answer where -o says. Raises GpucostError where it cannot be written."""
        write_output(text, self.target)

    def write_rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write the rows as --format and -o say. Raises GpucostError where they cannot be written."""
        write_rows(columns, rows, self.format, self.target)

    def answer(self, document: Document) -> None:
        """Write the document as --format and -o say, with a note where it went into a file.

        Raises GpucostError where it cannot be written.
        """
        if self.format in FLAT:
            self.write_rows(*document.flat)
        elif self.format is RowFormat.json:
            from gpucost.render.schema import to_json

            self.write(to_json(document.answer, document.name))
        else:
            write_page(document, self.target, markdown=self.format is RowFormat.markdown)
        self.note_written(document.title)

    @property
    def is_watched(self) -> bool:
        """Whether a terminal is to show what is being done: -q wants nothing, -v lines, and Python the answer alone."""
        return not (self.quiet or self.verbose or is_gathered()) and sys.stderr.isatty()

    @contextmanager
    def status(self) -> Iterator[Callable[[str], None]]:
        """What to call with what is being done: one line that changes on a terminal, lines on stderr under -v, else nothing.

        Nothing may be written to stdout meanwhile.
        """
        waiting.stop()
        if not self.is_watched:
            yield functools.partial(note, quiet=self.quiet or not self.verbose)
            return
        from rich.console import Console

        with Console(stderr=True).status("") as line:
            yield lambda doing: line.update(plain(doing))

    @contextmanager
    def progress_bar(self) -> Iterator[Callable[[ProgressState], None] | None]:
        """What to call with each state of a run, one bar for each source; None where stderr is no terminal."""
        waiting.stop()
        if self.quiet or not sys.stderr.isatty():
            yield None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        wide = (
            TextColumn("{task.completed:.0f} h"),
            TextColumn("{task.fields[samples]:,} samples"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", markup=False),
        )
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=max(10, min(40, console.width - _WORDS))),
            TaskProgressColumn(),
            *(wide if console.width > _WORDS else ()),
        )
        tasks: dict[str, TaskID] = {}
        with Progress(*columns, console=console, transient=True) as bars:

            def show(state: ProgressState) -> None:
                # a total of 0 is not known yet: the bar pulses
                total, done = state.total_ms / MS_PER_HOUR or None, state.done_ms / MS_PER_HOUR
                if state.source not in tasks:
                    tasks[state.source] = bars.add_task(
                        one_line(state.source), total=total, samples=0, note=""
                    )
                note = one_line(state.note)
                bars.update(
                    tasks[state.source], total=total, completed=done, samples=state.samples, note=note
                )

            yield show

    def deliver(self, text: str, what: str) -> None:
        """Write `text` where -o says, with a note that says `what` was written into a file."""
        # programs get names as they are
        self.write(visible(text) if self.target is None and sys.stdout.isatty() else text)
        if self.target:
            self.note(f"{what} written to {self.target}")

    def note_written(self, title: str) -> None:
        """Say that what is called `title` was written into a file, where it was."""
        if self.target:
            self.note(f"{title}: written to {self.target}")


def command(
    layout: str = "*", *, without: str = "", more: Mapping[str, inspect.Parameter] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command: its first parameter, a Call, stands for the shared options that `layout` names.

    `layout` has the options in the order of help: shared ones and those of `more`, `period` for --month to --last, `written` for
    --format and -o, and of the command's own those that it names; `*` are its other ones, which else come last. --config,
    --store, --quiet, --verbose and --profile follow by themselves, less those in `without`; they may stand before the command's
    name, too.
    """
    extra = more or {}
    shared = {**SHARED, **extra}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        own = {
            one.name: one for one in list(inspect.signature(function, eval_str=True).parameters.values())[1:]
        }
        named = [name for word in layout.split() for name in _WORDS_FOR.get(word, (word,))]
        at = named.index("*") if "*" in named else len(named)
        named[at : at + 1] = [name for name in own if name not in named]
        named += [name for name in _LAST if name not in without.split() and name not in named]
        used = [name for name in named if name not in own]

        @handle_errors
        def run(above: Mapping[str, Any], **given: Any) -> None:
            for name in ("config", "store"):
                if above.get(name) and name not in used:
                    raise UsageError(f"this command takes no --{name}", f"leave --{name} out")
            common = {name: given.pop(name, shared[name].default) for name in used}
            others = {name: common.pop(name) for name in extra if name in common}
            profile, call = common.pop("profile", False), _call(common, others)
            with _profile() if profile else nullcontext(), _waiting(call):
                function(call, **given)

        @functools.wraps(function)
        def called(context: typer.Context | None = None, **given: Any) -> None:
            above = context.find_root().params if context else {}
            run(above, **given | {name: given.get(name) or above.get(name) for name in _LAST if name in used})

        parameters = [
            inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
            *(
                (own[name] if name in own else shared[name]).replace(kind=inspect.Parameter.KEYWORD_ONLY)
                for name in named
            ),
        ]
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        called.__annotations__ = {one.name: one.annotation for one in parameters}
        return called

    return decorate


@contextmanager
def _waiting(call: Call) -> Iterator[None]:
    """On a terminal, says what is being done while nothing is written."""
    if not call.is_watched:
        yield
        return
    from gpucost import engine

    waiting.start()
    try:
        with engine.watched(waiting.tell):
            yield
    finally:
        waiting.stop()


@contextmanager
def _profile() -> Iterator[None]:
    """Shows what each stage of SQL took that runs while the block lasts, the longest first; also where it fails."""
    from gpucost import engine
    from gpucost.render.rows import render_rows

    began = time.perf_counter()
    with engine.profiled() as costs:
        try:
            yield
        finally:
            whole = time.perf_counter() - began
            rows: list[tuple[Any, ...]] = [
                (
                    name,
                    cost.runs,
                    f"{cost.seconds:.3f}",
                    f"{cost.seconds / whole:.1%}",
                    f"{cost.cpu_seconds:.3f}",
                    cost.rows,
                )
                for name, cost in sorted(costs.items(), key=lambda item: -item[1].seconds)
            ]
            inside = sum(cost.seconds for cost in costs.values())
            rows.append(
                ("everything else", None, f"{whole - inside:.3f}", f"{1 - inside / whole:.1%}", None, None)
            )
            note(
                render_rows(
                    ("stage", "runs", "seconds", "share", "cpu_seconds", "rows"), rows, RowFormat.table
                )
            )


def _call(given: dict[str, Any], more: dict[str, Any]) -> Call:
    """The call that shared options describe. Raises UsageError where -o names a directory."""
    names = {
        f"{name}s": tuple(given.pop(name) or ())
        for name in ("team", "namespace", "cluster", "workload")
        if name in given
    }
    fields = {_FIELDS.get(name, name): value for name, value in given.items()} | names
    target = output_file(fields.get("target"))
    suffix = target.suffix.lower() if target else ""
    fields |= {
        "format": fields.get("format") or _SUFFIXES.get(suffix, RowFormat.table),
        "target": target,
        "more": more,
    }
    return Call(**fields)


def handle_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let `command` fail in words: one message and one fix on stderr, and the exit code that belongs to it.

    Called from Python, it raises its errors instead. The command's own `verbose` argument, where it has one, shows the traceback
    of unexpected errors.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        if not is_gathered():  # whoever calls from Python has set up logging as they like
            _set_up_logging(verbose=bool(kwargs.get("verbose")), quiet=bool(kwargs.get("quiet")))
        try:
            result = command(*args, **kwargs)
            with to_stdout():
                sys.stdout.flush()
            return result
        except BrokenPipeError:
            # `gpucost … | head`: end quietly
            drop_stdout()
            raise typer.Exit(BROKEN_PIPE) from None
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as error:
            if is_gathered():
                raise
            if _is_interrupt(error):
                fail("interrupted; what was saved before is kept", None, INTERRUPTED)
            if isinstance(error, GpucostError):
                fail(error.message, error.fix, error.exit_code)
            if kwargs.get("verbose"):
                import traceback

                note(traceback.format_exc().removesuffix("\n"))
            if isinstance(error, RuntimeError) and "home directory" in str(error):  # pathlib's, for ~
                fail(
                    "a path begins with ~, and this user has no home directory",
                    "set HOME, or name the whole path",
                    1,
                )
            if isinstance(error, OSError) and error.filename:
                fail(
                    f"{error.filename}: {error.strerror}",
                    "look after that file, its folder and disk; then run it again",
                    1,
                )
            fail(
                f"unexpected {type(error).__name__}: {error or 'no message'}",
                "this is a defect in gpucost; please report it with the traceback, which the option -v shows",
                1,
            )

    return run


def _is_interrupt(error: BaseException) -> bool:
    """Whether `error` comes of Ctrl-C: while a query runs, DuckDB raises errors of its own for it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt) or type(cause).__name__ == "InterruptException":
            return True
        if isinstance(cause, RuntimeError) and str(cause) == "Query interrupted":
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def fail(message: str, fix: str | None, exit_code: int) -> NoReturn:
    """End the command with one message."""
    print_error(message, fix)
    raise typer.Exit(exit_code)


def _set_up_logging(*, verbose: bool, quiet: bool) -> None:
    """Show messages of the store, such as an upgrade, and those of libraries (retries, say) only under -v."""
    import logging

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(self.format(record))

    if verbose:
        logging.basicConfig(level=logging.WARNING, handlers=[Shown()])
        return
    logging.getLogger().addHandler(logging.NullHandler())  # without a handler Python would print warnings
    store = logging.getLogger("gpucost.store")
    store.handlers = [] if quiet else [Shown()]


_NOTED = 5


def note_gaps(
    config: Config, store: Store, period: Period, clusters: Sequence[str] = (), *, quiet: bool = False
) -> None:
    """Say what of an answer's period was not collected and nobody signed, a line each, of an attributed store."""
    from gpucost.report.coverage import missed

    if quiet:
        return
    with store.read() as con:
        _, notices, _ = missed(con, period, datetime.now(UTC), config.tz, clusters)
    for notice in notices[:_NOTED]:
        note(f"note: {notice.message}")
    if len(notices) > _NOTED:
        note(f"note: and {len(notices) - _NOTED:,} more such times")


@contextmanager
def completeness(call: Call, query: Query, *, strict: bool) -> Iterator[None]:
    """Ends what is answered within the block, under --strict, as the query's period demands.

    Raises IncompleteError where a part of it was not collected and not signed, even if that leaves nothing to answer with, or is
    still to come.
    """
    from gpucost.render.formatting import missing_text
    from gpucost.report.coverage import missed

    nothing = None
    try:
        yield
    except NoDataError as error:
        if not strict or query.period.end > call.now:
            raise
        nothing = error
    if not strict:
        return
    with call.store.read() as con:
        gaps, notices, is_running = missed(con, query.period, call.now, call.tz, query.clusters)
    missing = missing_text(gaps)
    if missing is not None:
        fix = next((notice.fix for notice in notices), "gpucost collect prometheus")
        raise IncompleteError(f"{query.period_name} is incomplete: {missing}", fix)
    if is_running:
        raise IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final",
            "leave out --strict for a report so far",
        )
    if nothing:
        raise nothing
