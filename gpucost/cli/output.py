"""How anything is written: data to stdout or whole into a file, words to stderr."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock, Timer
from typing import TYPE_CHECKING, TextIO

import typer

from gpucost.disk import atomic_write, make_folder, write_text
from gpucost.errors import GpucostError, UsageError
from gpucost.texts import concealed, one_line, visible

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text

    from gpucost.render.view import Page


class Waiting:
    """One line on a terminal's stderr that says what is being done, from a second on until anything is written.

    Whatever writes to the terminal, or shows progress of its own, calls `stop` first.
    """

    _AFTER_SECONDS = 1.0

    def __init__(self) -> None:
        self._lock = Lock()
        self._doing = "working"
        self._timer: Timer | None = None
        self._status: Status | None = None

    def start(self) -> None:
        """Show it a second from now."""
        self.stop()
        with self._lock:
            self._doing, self._timer = "working", Timer(self._AFTER_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()

    def tell(self, doing: str) -> None:
        """Say what is being done now."""
        with self._lock:
            self._doing = doing
            if self._status:
                self._status.update(plain(doing))

    def stop(self) -> None:
        """Take the line away until `start`."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            if self._status:
                self._status.stop()
            self._timer = self._status = None

    def _show(self) -> None:
        from rich.console import Console

        with self._lock:
            if self._timer:
                self._status = Console(stderr=True).status(plain(self._doing))
                self._status.start()


waiting = Waiting()


def plain(doing: str) -> Text:
    """What is being done as rich shows it: on one line, none of it markup."""
    from rich.text import Text

    return Text(one_line(doing))


@contextmanager
def to_stdout() -> Iterator[None]:
    """Raises GpucostError where stdout takes no more of what the block writes, BrokenPipeError where its reader went away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_failed(error) from None


def put(text: str = "", *, nl: bool = True) -> None:
    """Write data to stdout, what it cannot spell replaced. Raises GpucostError where stdout takes no more."""
    waiting.stop()
    encoding = sys.stdout.encoding or "utf-8"
    with to_stdout():
        typer.echo(text.encode(encoding, "replace").decode(encoding), nl=nl)


def stdout_failed(error: OSError) -> GpucostError:
    """What a write to stdout failed with, in words; the interpreter is kept from failing with it once more at its end."""
    drop_stdout()
    return GpucostError(f"cannot write to standard output: {error.strerror or error}")


def output_file(output: Path | None) -> Path | None:
    """The file that -o names; None is stdout, which `-` names too. Raises UsageError for what can be no file."""
    if output is None or str(output) == "-":
        return None
    if output.is_dir():
        raise UsageError(f"-o names a directory: {output}", "-o takes a file, or - for standard output")
    return output


def made_folder(folder: Path, fix: str, mode: int = 0o777) -> Path:
    """The folder, which is made if it is not there. Raises GpucostError with `fix` if it cannot be."""
    try:
        make_folder(folder, mode)
    except OSError as error:
        raise GpucostError(f"cannot make {folder}: {error.strerror or error}", fix) from None
    return folder


def note(text: str = "", *, quiet: bool = False) -> None:
    """Say something beside the data, without secrets: to stderr, and not at all under -q."""
    if quiet:
        return
    text = concealed(text)
    waiting.stop()
    typer.echo(visible(text), err=True)


def write_output(text: str, output: Path | None) -> None:
    """Write `text` to the file `output`, or to stdout where it is None. Raises GpucostError where it cannot be written."""
    if output is None:
        put(text, nl=False)
    else:
        write_text(text, output)


def print_error(message: str, fix: str | None) -> None:
    """What failed and what mends it, on stderr, in the words that every command uses."""
    message = concealed(message)
    waiting.stop()
    # a name with a line end in it adds no fix of its own
    shown = re.sub(r"\n(?=error:|fix:)", r"\n  ", visible(message))
    typer.echo(("\033[1;31merror:\033[0m " if has_colors(sys.stderr) else "error: ") + shown, err=True)
    if fix:
        typer.echo(f"fix: {visible(fix)}", err=True)


def drop_stdout() -> None:
    """Keep the interpreter from complaining when it flushes, at its end, what stdout did not take."""
    with suppress(OSError, ValueError):  # stdout may have no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_parquet(save: Callable[[Path], None], output: Path | None) -> None:
    """Write the file that `save` makes. Raises GpucostError if it cannot be written, UsageError without a file."""
    if output is None:
        raise UsageError("parquet is no text: it needs a file", "-o report.parquet")
    with atomic_write(output) as part:
        save(part)


_NARROWEST = 60


def write_page(page: Page, output: Path | None) -> None:
    """Write the page to `output`, or to stdout if it is None: as text as wide as the terminal.

    Into files and pipes tables are as wide as they are, with all their columns.
    Raises GpucostError where it cannot be written.
    """
    from gpucost.render.terminal import render

    width = line_width(output)
    color = output is None and has_colors(sys.stdout)
    write_output(render(page, width and max(_NARROWEST, width), color=color), output)


def has_colors(stream: TextIO) -> bool:
    """Whether a stream goes to a terminal that shows colors."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def line_width(output: Path | None = None) -> int | None:
    """How many characters a line may have: COLUMNS where it is set, else the terminal's; None into a file or a pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    with suppress(OSError, ValueError):  # a stdout that is no file has no descriptor
        if output is None and sys.stdout.isatty():
            return os.get_terminal_size(sys.stdout.fileno()).columns
    return None
