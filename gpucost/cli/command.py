"""The frame of every command: common options, output and errors."""

from __future__ import annotations

import functools
import inspect
import shutil
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpucost.cli.output import (
    drop_stdout,
    note,
    output_file,
    print_error,
    print_text,
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
    Function,
    Option,
    Parameter,
    SpanOptions,
    TargetOption,
    Values,
    arguments,
    parameters,
)
from gpucost.questions.request import Client, Request
from gpucost.records import mixin_dataclass
from gpucost.render.rows import RowFormat, render_rows, save_parquet
from gpucost.texts import one_line, visible

if TYPE_CHECKING:
    from gpucost.render.view import Answer


Command = Callable[..., None]
# Formats by file suffix.
SUFFIXES = {
    ".md": "markdown",
    ".html": "html",
    ".json": "json",
    ".csv": "csv",
    ".parquet": "parquet",
    ".txt": "table",
}
# Formats of an answer that is more than one table.
BriefFormat = Literal["table", "json"]
# FOCUS versions of files.
FocusVersion = Literal["1.2", "1.3"]

# Width of the text next to a bar; a narrower terminal shows only the bar, its percentage and the time left.
_WORDS = 80


class Terminal(Client):
    """Notes on stderr and progress on a terminal: `quiet` hides both, `verbose` prints progress as lines."""

    def note(self, text: str) -> None:
        """Print a note on stderr, unless -q is set."""
        note(text, quiet=self.quiet)

    @property
    def is_watched(self) -> bool:
        """Whether a terminal shows the current step."""
        return not (self.quiet or self.verbose) and sys.stderr.isatty()

    @contextmanager
    def status(self) -> Iterator[Callable[[str], None]]:
        """Yield a function that shows the current step: in place on a terminal, as lines on stderr under -v."""
        if self.is_watched:
            waiting.start()
            yield waiting.show_progress
        else:
            yield functools.partial(note, quiet=self.quiet or not self.verbose)


def format_of(target: Path | None, formats: Collection[str]) -> str:
    """The format of a file's suffix, if it is one of these; otherwise a table."""
    meant = SUFFIXES.get(target.suffix.lower() if target else "", "table")
    return meant if meant in formats else "table"


@mixin_dataclass
class Call(Request):
    """One call of a command: its inputs and its output. Subclasses add options that several commands share."""

    target: Path | None = None
    format: str = "table"

    @property
    def quiet(self) -> bool:
        """Whether -q is set: only data and errors."""
        return self.client.quiet

    @property
    def verbose(self) -> bool:
        """Whether -v is set: more detail."""
        return self.client.verbose

    @property
    def row_format(self) -> RowFormat:
        """The output format: --format, otherwise the suffix of -o."""
        return RowFormat(self.format or format_of(self.target, [*RowFormat]))

    def say(self, text: str) -> None:
        """Print the result of a command without an answer, unless -q is set."""
        if not self.quiet:
            print_text(visible(text))

    def write(self, text: str) -> None:
        """Write the answer to -o or stdout. Raises GpucostError if writing fails."""
        write_output(text, self.target)

    @property
    def width(self) -> int | None:
        """The width of the terminal; None if the answer goes elsewhere."""
        is_shown = self.target is None and sys.stdout.isatty()
        return shutil.get_terminal_size().columns if is_shown else None

    def write_rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Write rows in the format of --format or -o. Raises UsageError for Parquet without -o."""
        if self.row_format is RowFormat.parquet:
            write_parquet(functools.partial(save_parquet, columns, rows), self.target)
        else:
            self.write(render_rows(columns, rows, self.row_format, self.width))

    def answer(self, answer: Answer) -> None:
        """Write the answer in the format of --format or -o, with a note about the file.

        Raises GpucostError if writing fails.
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
        """Print the messages of a written answer, and exit with its code."""
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
        """Whether a terminal shows bars."""
        return not self.quiet and sys.stderr.isatty()

    @contextmanager
    def progress_bars(self) -> Iterator[Callable[[str, int, int, str], None]]:
        """Yield a function for a task's name, done, total and remark; bars appear only on a terminal."""
        waiting.stop()
        if not self.has_bars:
            yield lambda *_: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        bar = BarColumn(bar_width=max(10, min(40, console.width - _WORDS)))
        words = (TextColumn("{task.fields[note]}", markup=False),)
        name = TextColumn("{task.description}", markup=False)
        columns = (name, bar, TaskProgressColumn(), TimeRemainingColumn())
        tasks = {}
        with Progress(
            *columns, *(words if console.width > _WORDS else ()), console=console, transient=True
        ) as bars:

            def show(name: str, done: int, total: int, remark: str) -> None:
                if name not in tasks:
                    tasks[name] = bars.add_task(one_line(name), note="")
                # a total of 0 is unknown: the bar pulses
                bars.update(tasks[name], total=total or None, completed=done, note=one_line(remark)[-60:])

            yield show

    def deliver(self, text: str, what: str) -> None:
        """Write `text` to -o or stdout, with a note that names the content (`what`) of a file."""
        # programs get unchanged names
        self.write(visible(text) if self.target is None and sys.stdout.isatty() else text)
        if self.target:
            self.note(f"{what} written to {self.target}")


@mixin_dataclass
class TargetCall(TargetOption, Call):
    """A command whose answer can go into a file."""


RowFormatOption = Annotated[
    RowFormat | None,
    Option(
        "Output format (default: by the suffix of -o: .md, .csv, .json, .parquet; otherwise table).",
        flag="--format",
        panel=WRITTEN,
    ),
]


@mixin_dataclass
class RowsCall(TargetCall):
    """A command that answers in rows."""

    format: RowFormatOption = None  # type: ignore[assignment]


@mixin_dataclass
class BriefCall(Call):
    """A command that answers in a table or in JSON."""

    format: Annotated[BriefFormat, Option("Output format.", is_shown=True, panel=WRITTEN)] = "table"


@mixin_dataclass
class SpanCall(SpanOptions, Call):
    """A command about the time between two instants."""


def command(*, without: str = "") -> Callable[[Command], Command]:
    """Make a command of a function: its options are the parameters with an Option and the fields of dataclasses such as Call.

    --config, --store, --quiet, --verbose and --profile are added, except those in `without`; they can also precede the
    command's name.
    """

    def decorate(function: Command) -> Command:
        def run(values: Values, **call: Any) -> None:
            function(**arguments(function, values, call=call))

        return registered(run, parameters(function), function, without=without)

    return decorate


def registered(run: Command, takes: Sequence[Parameter], described: Function, *, without: str) -> Command:
    """A command for typer with these options and the help text of `described`.

    It calls `run` with the values of the options by their keys, and the fields of a Call.
    """
    everywhere = [option for option in parameters(Everywhere) if option.name not in without.split()]

    @functools.wraps(described)
    def wrapper(context: typer.Context | None = None, **explicit: Any) -> None:
        above = context.find_root().params if context else {}
        shared = {option.name: explicit.get(option.name) or above.get(option.name) for option in everywhere}
        terminal = Terminal(quiet=bool(shared.get("quiet")), verbose=bool(shared.get("verbose")))
        with handle_errors(quiet=terminal.quiet, verbose=terminal.verbose):
            for name in without.split():
                if above.get(name):
                    raise UsageError(f"invalid option --{name}", f"leave --{name} out")
            values = {option.key: explicit.get(option.name) for option in takes}
            values["output"] = output_file(values.get("output"))
            with _profile() if shared.get("profile") else nullcontext(), _waiting(terminal):
                run(values, client=terminal, config_file=shared.get("config"), store_file=shared.get("store"))

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    typed = [context, *map(typer_parameter, (*takes, *everywhere))]
    wrapper.__signature__ = inspect.Signature(typed)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in typed}
    return wrapper


@contextmanager
def _waiting(terminal: Terminal) -> Iterator[None]:
    """On a terminal, show the current step until output begins."""
    if not terminal.is_watched:
        yield
        return
    from gpucost import engine

    waiting.start()
    try:
        with engine.watched(waiting.show_progress):
            yield
    finally:
        waiting.stop()


@contextmanager
def _profile() -> Iterator[None]:
    """Print the times of the SQL stages that ran in the block, longest first; also after an error."""
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
def handle_errors(*, verbose: bool, quiet: bool) -> Iterator[None]:
    """Turn an error in the block into one message and one fix on stderr, and its exit code.

    `verbose` prints the traceback of unexpected errors.
    """
    _set_up_logging(verbose=verbose, quiet=quiet)
    try:
        yield
        with to_stdout():
            sys.stdout.flush()
    except BrokenPipeError:
        # `gpucost … | head`: end quietly
        drop_stdout()
        raise typer.Exit(141) from None  # as shells report SIGPIPE
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if _is_interrupt(error):
            print_error("interrupted; data saved earlier is kept", None)
            raise typer.Exit(130) from None  # as shells report Ctrl-C
        if verbose and not isinstance(error, GpucostError):
            import traceback

            note(traceback.format_exc().removesuffix("\n"))
        failure = _failure(error)
        print_error(failure.message, failure.fix)
        raise typer.Exit(failure.exit_code) from None


def _failure(error: BaseException) -> GpucostError:
    """The error with a message and a fix."""
    if isinstance(error, GpucostError):
        return error
    if isinstance(error, RuntimeError) and "home directory" in str(error):  # pathlib's, for ~
        return GpucostError(
            "a path begins with ~, but this user has no home directory", "set HOME, or use a full path"
        )
    if isinstance(error, OSError) and error.filename:
        return GpucostError(
            f"{error.filename}: {error.strerror}",
            "check this file, its folder and the disk; then run the command again",
        )
    return GpucostError(
        f"unexpected {type(error).__name__}: {error or 'no message'}",
        "this is a bug in gpucost; please report it with the traceback, which -v prints",
    )


def _is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C caused the error; during a query DuckDB raises its own errors for it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt) or type(cause).__name__ == "InterruptException":
            return True
        if isinstance(cause, RuntimeError) and str(cause) == "Query interrupted":
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _set_up_logging(*, verbose: bool, quiet: bool) -> None:
    """Show messages of the store, such as an upgrade; messages of libraries, such as retries, only under -v."""
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
