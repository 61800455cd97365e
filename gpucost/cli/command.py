"""What every command shares: a call with the options of all, how its answer is written, and how it fails."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpucost.cli.output import (
    drop_stdout,
    note,
    output_file,
    print_error,
    put,
    to_stdout,
    waiting,
    write_output,
    write_page,
    write_parquet,
)
from gpucost.cli.parameters import typer_parameter
from gpucost.errors import GpucostError, UsageError
from gpucost.options import (
    WRITTEN,
    Everywhere,
    Option,
    Parameter,
    SpanOptions,
    TargetOption,
    arguments,
    parameters,
)
from gpucost.questions.request import Client, Request
from gpucost.render.rows import RowFormat, render_rows, save_parquet
from gpucost.texts import one_line, visible

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.progress import TaskID

    from gpucost.render.view import Answer


# The formats that suffixes of files mean.
SUFFIXES = {
    ".md": "markdown",
    ".html": "html",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".txt": "table",
}
# How an answer is written that has no rows of one kind.
BriefFormat = Literal["table", "json"]
# The versions of FOCUS that files follow.
FocusVersion = Literal["1.2", "1.3"]

INTERRUPTED = 130
BROKEN_PIPE = 141
# About as many characters as the words beside a bar take; a narrower terminal shows the bar and its percentage alone.
_WORDS = 80


class Terminal(Client):
    """Notes go to stderr, and progress to a terminal; `quiet` wants neither, `verbose` lines in place of progress."""

    def note(self, text: str) -> None:
        """Say something beside the data, on stderr; nothing under -q."""
        note(text, quiet=self.quiet)

    @property
    def is_watched(self) -> bool:
        """Whether a terminal is to show what is being done."""
        return not (self.quiet or self.verbose) and sys.stderr.isatty()

    @contextmanager
    def status(self) -> Iterator[Callable[[str], None]]:
        """What to call with what is being done: one line that changes on a terminal, lines on stderr under -v, else nothing."""
        if self.is_watched:
            waiting.start()
            yield waiting.tell
        else:
            yield functools.partial(note, quiet=self.quiet or not self.verbose)


def format_of(target: Path | None, formats: Collection[str]) -> str:
    """The format, of these, that a file's suffix means; otherwise a table."""
    meant = SUFFIXES.get(target.suffix.lower() if target else "", "table")
    return meant if meant in formats else "table"


@dataclass(frozen=True, kw_only=True)
class Call(Request):
    """One call of a command: what it reads, and where its answer goes. Subclasses add options that several commands share."""

    target: Path | None = None
    format: str = "table"

    @property
    def quiet(self) -> bool:
        """Whether only data and errors are wanted."""
        return self.client.quiet

    @property
    def verbose(self) -> bool:
        """Whether more is wanted than usual."""
        return self.client.verbose

    @property
    def row_format(self) -> RowFormat:
        """How rows are written: as --format says, otherwise by the suffix of -o."""
        return RowFormat(self.format or format_of(self.target, [*RowFormat]))

    def say(self, text: str) -> None:
        """Print what a command without an answer did; nothing under -q."""
        if not self.quiet:
            put(visible(text))

    def write(self, text: str) -> None:
        """Write the answer where -o says. Raises GpucostError where it cannot be written."""
        write_output(text, self.target)

    def write_rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write the rows as --format and -o say. Raises UsageError for Parquet without -o."""
        if self.row_format is RowFormat.parquet:
            write_parquet(functools.partial(save_parquet, columns, rows), self.target)
        else:
            self.write(render_rows(columns, rows, self.row_format))

    def answer(self, answer: Answer) -> None:
        """Write the answer as --format and -o say, with a note where it went into a file.

        Raises GpucostError where it cannot be written.
        """
        texts = {"json": answer.json, "html": answer.html, "csv": answer.csv, "markdown": answer.page}
        if self.format == "parquet":
            write_parquet(answer.save_parquet, self.target)
        elif self.format in texts:
            self.write(texts[self.format]())
        else:
            write_page(answer, self.target)
        self.conclude(answer)

    def conclude(self, answer: Answer) -> None:
        """Report what stands beside an answer that is written, and end as it says."""
        if self.target:
            self.note(f"{answer.title}: written to {self.target}")
        for text in answer.notes:
            self.note(text)
        for error in answer.errors:
            print_error(error.message, error.fix)
        if answer.exit_code:
            raise typer.Exit(answer.exit_code)

    @property
    def has_bars(self) -> bool:
        """Whether a terminal is to show bars."""
        return not self.quiet and sys.stderr.isatty()

    @contextmanager
    def progress_bars(self) -> Iterator[Callable[[str, int, int, str], None]]:
        """Yield what to call with a task's name, how much of how much is done, and a remark; bars appear on a terminal only."""
        waiting.stop()
        if not self.has_bars:
            yield lambda *_: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        bar = BarColumn(bar_width=max(10, min(40, console.width - _WORDS)))
        words = (TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False))
        columns = (TextColumn("{task.description}", markup=False), bar, TaskProgressColumn())
        tasks: dict[str, TaskID] = {}
        with Progress(
            *columns, *(words if console.width > _WORDS else ()), console=console, transient=True
        ) as bars:

            def show(name: str, done: int, total: int, remark: str) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(one_line(name), note="")
                # a total of 0 is not known yet: the bar pulses
                bars.update(tasks[name], total=total or None, completed=done, note=one_line(remark)[-60:])

            yield show

    def deliver(self, text: str, what: str) -> None:
        """Write `text` where -o says, with a note that says `what` was written into a file."""
        # programs get names as they are
        self.write(visible(text) if self.target is None and sys.stdout.isatty() else text)
        if self.target:
            self.note(f"{what} written to {self.target}")


@dataclass(frozen=True, kw_only=True)
class TargetCall(TargetOption, Call):
    """A command whose answer can go into a file."""


RowFormatOption = Annotated[
    RowFormat | None,
    Option(
        "How to write it. Default: by the suffix of -o (.md, .csv, .json, .parquet), else table.",
        flag="--format",
        panel=WRITTEN,
    ),
]


@dataclass(frozen=True, kw_only=True)
class RowsCall(TargetOption, Call):
    """A command that answers in rows."""

    format: RowFormatOption = None  # type: ignore[assignment]


@dataclass(frozen=True, kw_only=True)
class BriefCall(Call):
    """A command that answers in a table or in JSON."""

    format: Annotated[BriefFormat, Option("How to write it.", is_shown=True, panel=WRITTEN)] = "table"


@dataclass(frozen=True, kw_only=True)
class SpanCall(SpanOptions, Call):
    """A command about the time between two instants."""


def command(*, without: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command. Its parameters are its options: those with an Option, and the fields of dataclasses, such as a Call.

    --config, --store, --quiet, --verbose and --profile follow by themselves, less those in `without`; they may stand before the
    command's name, too.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        def run(values: Mapping[str, Any], **call: Any) -> None:
            function(**arguments(function, values, call=call))

        return registered(run, parameters(function), function, without=without)

    return decorate


def registered(
    run: Callable[..., None], takes: Sequence[Parameter], described: Callable[..., Any], *, without: str = ""
) -> Callable[..., None]:
    """A command for typer, which takes these options and has the help of `described`.

    `run` is called with the values of options by their keys, and the fields of a Call.
    """
    everywhere = [option for option in parameters(Everywhere) if option.name not in without.split()]

    @functools.wraps(described)
    def called(context: typer.Context | None = None, **given: Any) -> None:
        above = context.find_root().params if context else {}
        shared = {option.name: given.get(option.name) or above.get(option.name) for option in everywhere}
        terminal = Terminal(quiet=bool(shared.get("quiet")), verbose=bool(shared.get("verbose")))
        with handle_errors(quiet=terminal.quiet, verbose=terminal.verbose):
            for name in without.split():
                if above.get(name):
                    raise UsageError(f"this command takes no --{name}", f"leave --{name} out")
            values = {option.key: given.get(option.name) for option in takes}
            values["output"] = output_file(values.get("output"))
            with _profile() if shared.get("profile") else nullcontext(), _waiting(terminal):
                run(values, client=terminal, config_file=shared.get("config"), store_file=shared.get("store"))

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    typed = [context, *map(typer_parameter, (*takes, *everywhere))]
    called.__signature__ = inspect.Signature(typed)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in typed}
    return called


@contextmanager
def _waiting(terminal: Terminal) -> Iterator[None]:
    """On a terminal, says what is being done while nothing is written."""
    if not terminal.is_watched:
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

    with engine.profiled() as costs:
        try:
            yield
        finally:
            rows = [
                (name, cost.runs, f"{cost.seconds:.3f}", f"{cost.cpu_seconds:.3f}", cost.rows)
                for name, cost in sorted(costs.items(), key=lambda item: -item[1].seconds)
            ]
            columns = ("stage", "runs", "seconds", "cpu_seconds", "rows")
            note(render_rows(columns, rows, RowFormat.table))


@contextmanager
def handle_errors(*, verbose: bool = False, quiet: bool = False) -> Iterator[None]:
    """Let the block fail in words: one message and one fix on stderr, and the exit code that belongs to it.

    `verbose` shows the traceback of unexpected errors.
    """
    _set_up_logging(verbose=verbose, quiet=quiet)
    try:
        yield
        with to_stdout():
            sys.stdout.flush()
    except BrokenPipeError:
        # `gpucost … | head`: end quietly
        drop_stdout()
        raise typer.Exit(BROKEN_PIPE) from None
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if _is_interrupt(error):
            print_error("interrupted; what was saved before is kept", None)
            raise typer.Exit(INTERRUPTED) from None
        if verbose and not isinstance(error, GpucostError):
            import traceback

            note(traceback.format_exc().removesuffix("\n"))
        failure = _failure(error)
        print_error(failure.message, failure.fix)
        raise typer.Exit(failure.exit_code) from None


def _failure(error: BaseException) -> GpucostError:
    """The error in words."""
    if isinstance(error, GpucostError):
        return error
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # pathlib's, for ~
        return GpucostError(
            "a path begins with ~, and this user has no home directory", "set HOME, or name the whole path"
        )
    if isinstance(error, OSError) and error.filename:
        return GpucostError(
            f"{error.filename}: {error.strerror}",
            "look after that file, its folder and disk; then run it again",
        )
    return GpucostError(
        f"unexpected {type(error).__name__}: {error or 'no message'}",
        "this is a defect in gpucost; please report it with the traceback, which the option -v shows",
    )


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
