"""What every command shares: its options, made from one line, the call that they describe, and how it fails."""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, ParamSpec, TypeVar

import typer

from gpucost.cli.completion import stored
from gpucost.cli.output import (
    drop_stdout,
    note,
    output_file,
    plain,
    print_error,
    put,
    to_stdout,
    waiting,
    write_flat,
    write_output,
    write_page,
    write_rows,
)
from gpucost.errors import GpucostError, UsageError
from gpucost.options import EVERYWHERE, WHOSE, WRITTEN
from gpucost.periods import MS_PER_HOUR
from gpucost.questions.request import Client, WorkloadRequest
from gpucost.render.rows import RowFormat
from gpucost.texts import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import TaskID

    from gpucost.collect.base import ProgressState
    from gpucost.render.view import Answer


# The versions of FOCUS that files follow.
FocusVersion = Literal["1.2", "1.3"]
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


class Terminal(Client):
    """Notes go to stderr, and progress to a terminal; `quiet` wants neither, `verbose` lines in place of progress."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        super().__init__()
        self.quiet, self.verbose = quiet, verbose

    def note(self, text: str) -> None:
        """Say something beside the data, on stderr; nothing under -q."""
        note(text, quiet=self.quiet)

    @property
    def is_watched(self) -> bool:
        """Whether a terminal is to show what is being done."""
        return not (self.quiet or self.verbose) and sys.stderr.isatty()

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


@dataclass(frozen=True, kw_only=True)
class Call(WorkloadRequest):
    """One call of a command: what the shared options say, where the answer goes, and `more` of what only some commands share."""

    quiet: bool = False
    verbose: bool = False
    target: Path | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def say(self, text: str) -> None:
        """Print what a command without an answer did; nothing under -q."""
        if not self.quiet:
            put(visible(text))

    def write(self, text: str) -> None:
        """Write the answer where -o says. Raises GpucostError where it cannot be written."""
        write_output(text, self.target)

    def write_rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write the rows as --format and -o say. Raises GpucostError where they cannot be written."""
        write_rows(columns, rows, RowFormat(self.format), self.target)

    def answer(self, answer: Answer) -> None:
        """Write the answer as --format and -o say, with a note where it went into a file.

        Raises GpucostError where it cannot be written.
        """
        if self.is_flat:
            write_flat(answer, self.format, self.target)
        elif self.format == "json":
            self.write(answer.json())
        elif self.format == "html":
            self.write(answer.html())
        else:
            write_page(answer, self.target, markdown=self.format == "markdown")
        self.conclude(answer)

    def conclude(self, answer: Answer) -> None:
        """Report what stands beside an answer that is written, and end as it says."""
        self.note_written(answer.title)
        for text in answer.notes:
            self.note(text)
        for error in answer.errors:
            print_error(error.message, error.fix)
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

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
    if not isinstance(call.client, Terminal) or not call.client.is_watched:
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
        "client": Terminal(quiet=fields.get("quiet", False), verbose=fields.get("verbose", False)),
    }
    return Call(**fields)


def handle_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let `command` fail in words: one message and one fix on stderr, and the exit code that belongs to it.

    The command's own `verbose` argument, where it has one, shows the traceback
    of unexpected errors.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
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
