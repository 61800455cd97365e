"""What every command shares: options, opening config and store, and how errors are told."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, ParamSpec, TypeVar

import typer

from gpucost.errors import GpucostError, IncompleteError, NoDataError, UsageError
from gpucost.periods import MS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence
    from zoneinfo import ZoneInfo

    from rich.progress import TaskID

    from gpucost.collect.base import ProgressState
    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.report import Query
    from gpucost.store.connection import Store

P = ParamSpec("P")
R = TypeVar("R")

INTERRUPTED = 130
BROKEN_PIPE = 141

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Config file; without it ./gpucost.toml, else the user's.", show_default=False),
]
StoreOption = Annotated[
    Path | None,
    typer.Option("--store", metavar="FILE", help="Store file, instead of the one the config names.", show_default=False),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors: no progress, no notes.")]
VerboseOption = Annotated[bool, typer.Option("--verbose", "-v", help="Say more; show the traceback of unexpected errors.")]


def load(config_path: Path | None, store_path: Path | None) -> tuple[Config, Store]:
    """The configuration and the store it names; nothing is opened yet. Raises ConfigError."""
    from gpucost.config.load import load_config
    from gpucost.store.connection import Store

    config = load_config(config_path, store=store_path)
    return config, Store(config.store)


def put(text: str = "", *, nl: bool = True) -> None:
    """Write data to stdout, what it cannot spell replaced. Raises GpucostError where stdout takes no more."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        typer.echo(text.encode(encoding, "replace").decode(encoding), nl=nl)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_failed(error) from None


def stdout_failed(error: OSError) -> GpucostError:
    """What a write to stdout failed with, in words; the interpreter is kept from failing with it once more at its end."""
    _drop_stdout()
    return GpucostError(f"cannot write to standard output: {error.strerror or error}")


def output_file(output: Path | None) -> Path | None:
    """The file that -o names; None is stdout, which `-` names too. Raises UsageError for what can be no file."""
    from gpucost.errors import UsageError

    if output is None or str(output) == "-":
        return None
    if output.is_dir():
        raise UsageError(f"-o names a directory: {output}", "-o takes a file, or - for standard output")
    return output


def note(text: str = "", *, quiet: bool = False) -> None:
    """Say something beside the data: to stderr, and not at all under -q."""
    if not quiet:
        typer.echo(text, err=True)


def write_text(text: str, output: Path) -> None:
    """Write `text` to the file `output`, as `made` does. Raises GpucostError where it cannot be written."""
    with made(output) as part:
        part.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def made(target: Path | None) -> Iterator[Path]:
    """A file to write, that takes the place of `target` whole where the block ends; of none where that is None, or it raises.

    What is there and is no regular file (a device, a pipe) is written into; a link's target is replaced, not the link.
    Raises GpucostError where it cannot be written.
    """
    import shutil
    from tempfile import TemporaryDirectory

    try:
        special = target if target and target.exists() and not target.is_file() else None
        # not of a pipe: /dev/stdout leads to a name that nothing can be opened by
        place = target.resolve() if target and not special else None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, up to Python 3.12
        raise _unwritable(target, error) from None
    try:
        with TemporaryDirectory(prefix=".gpucost-", dir=place.parent if place else None) as folder:
            part = Path(folder) / "file"
            yield part
            if special:
                with part.open("rb") as content, special.open("wb") as into:
                    shutil.copyfileobj(content, into)
            elif place:
                if place.exists():
                    part.chmod(place.stat().st_mode & 0o7777)
                part.replace(place)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(target: Path | None, error: Exception) -> GpucostError:
    return GpucostError(
        f"cannot write {target or 'a file'}: {getattr(error, 'strerror', None) or error}", "-o names another file"
    )


def put_or_write(text: str, output: Path | None) -> None:
    """Write `text` to the file `output`, or to stdout where it is None. Raises GpucostError where it cannot be written."""
    if output is None:
        put(text, nl=False)
    else:
        write_text(text, output)


def handle_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Let `command` fail in words: one message and one fix on stderr, and the exit code that belongs to it.

    The command's own `verbose` argument, where it has one, shows the traceback of unexpected errors.
    """

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _set_up_logging(verbose=bool(kwargs.get("verbose")))
        try:
            result = command(*args, **kwargs)
            _flush()
            return result
        except GpucostError as error:
            if _is_interrupt(error):
                _interrupted()
            fail(error.message, error.fix, error.exit_code)
        except KeyboardInterrupt:
            _interrupted()
        except BrokenPipeError:
            _reader_is_gone()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except Exception as error:
            if _is_interrupt(error):
                _interrupted()
            if kwargs.get("verbose"):
                import traceback

                traceback.print_exc()
            fail(
                f"unexpected {type(error).__name__}: {error or 'no message'}",
                "this is a defect in gpucost; please report it with the traceback, which the option -v shows",
                1,
            )

    return run


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_failed(error) from None


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


def _interrupted() -> NoReturn:
    fail("interrupted; what was saved before is kept", None, INTERRUPTED)


def fail(message: str, fix: str | None, exit_code: int) -> NoReturn:
    """End the command with one message."""
    tell_error(message, fix)
    raise typer.Exit(exit_code)


def tell_error(message: str, fix: str | None) -> None:
    """What failed and what mends it, on stderr, in the words that every command uses."""
    typer.echo(f"{_red('error:')} {message}", err=True)
    if fix:
        typer.echo(f"fix: {fix}", err=True)


def _set_up_logging(*, verbose: bool) -> None:
    """What libraries log (retries, say) is shown under -v only; without a handler Python would print warnings."""
    import logging

    if verbose:
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
    else:
        logging.getLogger().addHandler(logging.NullHandler())


def _red(text: str) -> str:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else f"\033[1;31m{text}\033[0m"


def _reader_is_gone() -> NoReturn:
    """`gpucost … | head`: end quietly."""
    _drop_stdout()
    raise typer.Exit(BROKEN_PIPE)


def _drop_stdout() -> None:
    """Keep the interpreter from complaining when it flushes, at its end, what stdout did not take."""
    with contextlib.suppress(OSError, ValueError):  # stdout may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


MonthOption = Annotated[
    str | None,
    typer.Option("--month", metavar="YYYY-MM", help="A whole month of the configured time zone.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Begin here: 2026-10-01 (local midnight), 2026-10-01T06:00 (local), 2026-10-01T06:00Z.",
        show_default=False,
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="End before this instant; without it, now.", show_default=False),
]
LastOption = Annotated[
    str | None,
    typer.Option(
        "--last",
        metavar="SPAN",
        help="The last complete days or weeks (7d, 2w), up to last midnight; hours (24h), up to the last full hour.",
        show_default=False,
    ),
]

_HOUR = timedelta(hours=1)
_YEARS = range(1971, 9999)  # local time of all of them can be told in UTC


def parse_period(
    tz: ZoneInfo,
    now: datetime,
    *,
    month: str | None = None,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
) -> tuple[Period, str] | None:
    """The period that the options mean, and its name for people; None where no option is given.

    `start` alone runs to the end of the hour that `now` lies in. Raises UsageError for options that cannot be read, that
    contradict each other, or that mean an empty period.
    """
    from gpucost.periods import Period, month_period, name_of

    given = [name for name, value in (("--month", month), ("--last", last), ("--from/--to", start or end)) if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", "give one of them")
    if month is not None:
        period = month_period(_month(month), tz)
        is_running = period.start <= now < period.end
        return period, name_of(period, tz) + (" so far" if is_running else "")
    if last is not None:
        period = _last(last, tz, now)
        return period, name_of(period, tz)
    if end is not None and start is None:
        raise UsageError("--to needs --from", "add --from, for example --from 2026-10-01")
    if start is None:
        return None
    until = parse_instant("--to", end, tz) if end is not None else _end_of_hour(now)
    period = Period(parse_instant("--from", start, tz), until)
    if period.is_empty:
        raise UsageError(f"the period from {start} to {end or 'now'} is empty", "--to is exclusive and must lie after --from")
    return period, name_of(period, tz)


def chosen_period(
    store: Store,
    tz: ZoneInfo,
    now: datetime,
    *,
    month: str | None = None,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
) -> tuple[Period, str, str | None]:
    """The period that the options mean, and its name; where none is given the current month so far, or the newest with data.

    And why that one, where none is given. Raises UsageError as parse_period, GpucostError where the store holds nothing.
    """
    from gpucost.report import default_period

    if named := parse_period(tz, now, month=month, start=start, end=end, last=last):
        return *named, None
    with store.read() as con:
        return default_period(con, tz, now)


def parse_instant(option: str, text: str, tz: ZoneInfo) -> datetime:
    """The instant that `text` means: a date is local midnight, a time without offset is local. Raises UsageError."""
    from gpucost.periods import local_midnight

    try:
        instant = datetime.fromisoformat(text)
        if instant.year not in _YEARS:
            raise ValueError
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return local_midnight(instant.date(), tz)
        return instant if instant.tzinfo else instant.replace(tzinfo=tz)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no date or time", f"for example {option} 2026-10-01, or {option} 2026-10-01T06:00Z"
        ) from None


def _month(text: str) -> date:
    try:
        if not re.fullmatch(r"\d{4}-\d{2}", text):
            raise ValueError
        first = date.fromisoformat(f"{text}-01")
        if first.year not in _YEARS:
            raise ValueError
        return first
    except ValueError:
        raise UsageError(f"--month {text!r} is no month", "for example --month 2026-10") from None


def _last(text: str, tz: ZoneInfo, now: datetime) -> Period:
    from gpucost.periods import Period, local_midnight

    match = re.fullmatch(r"(\d{1,4})([hdw])", text.strip())
    if match is None or not int(match[1]):
        raise UsageError(f"--last {text!r} is no span of time", "for example --last 7d, --last 24h or --last 2w")
    count, unit = int(match[1]), match[2]
    if unit == "h":
        end = _end_of_hour(now) - _HOUR if now != _end_of_hour(now) else now
        return Period(end - count * _HOUR, end)
    today = now.astimezone(tz).date()
    first = today - timedelta(days=count * (7 if unit == "w" else 1))
    if first.year not in _YEARS:
        raise UsageError(f"--last {text} goes back to {first.year}", "give a shorter span, for example --last 30d")
    return Period(local_midnight(first, tz), local_midnight(today, tz))


def _end_of_hour(now: datetime) -> datetime:
    past = timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
    return now - past + (_HOUR if past else timedelta())


_NOTED = 5


def note_gaps(config: Config, store: Store, period: Period, clusters: Sequence[str] = (), *, quiet: bool = False) -> None:
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


@contextlib.contextmanager
def completeness(config: Config, store: Store, query: Query, *, strict: bool) -> Iterator[None]:
    """Ends what is answered within the block, under --strict, as the query's period demands.

    Raises IncompleteError where a part of it was not collected and not signed, even if that leaves nothing to answer with, or is
    still to come.
    """
    try:
        yield
    except NoDataError:
        if strict and query.period.end <= (query.now or datetime.now(UTC)):
            _check(config, store, query)
        raise
    if strict:
        _check(config, store, query)


def _check(config: Config, store: Store, query: Query) -> None:
    from gpucost.render.formatting import missing_text
    from gpucost.report.coverage import missed

    with store.read() as con:
        gaps, notices, is_running = missed(con, query.period, query.now or datetime.now(UTC), config.tz, query.clusters)
    missing = missing_text(gaps)
    if missing is not None:
        fix = next((notice.fix for notice in notices), "gpucost collect prometheus")
        raise IncompleteError(f"{query.period_name} is incomplete: {missing}", fix)
    if is_running:
        raise IncompleteError(
            f"{query.period_name} is not over yet, so its figures are not final", "leave out --strict for a report so far"
        )


@contextmanager
def status(*, quiet: bool, verbose: bool) -> Iterator[Callable[[str], None]]:
    """What to call with what is being done: one line that changes on a terminal, lines on stderr under -v, else nothing.

    Nothing may be written to stdout meanwhile.
    """
    if quiet or verbose or not sys.stderr.isatty():

        def line(words: str) -> None:
            note(words, quiet=quiet or not verbose)

        yield line
        return
    from rich.console import Console

    with Console(stderr=True).status("") as shown:

        def show(words: str) -> None:
            shown.update(words)

        yield show


# About as many characters as the words beside a bar take; a narrower terminal shows the bar and its percentage alone.
_WORDS = 80


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Callable[[ProgressState], None] | None]:
    """What to call with each state of a run, one bar for each source; None where stderr is no terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    wide = (
        TextColumn("{task.completed:.0f} h"),
        TextColumn("{task.fields[samples]:,} samples"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    columns = (
        TextColumn("{task.description}"),
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
                tasks[state.source] = bars.add_task(state.source, total=total, samples=0, note="")
            bars.update(tasks[state.source], total=total, completed=done, samples=state.samples, note=state.note)

        yield show
