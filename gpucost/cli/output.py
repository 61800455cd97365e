"""Output: data to stdout or to a file in one step, messages to stderr."""

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
    """A status line on a terminal's stderr, from one second after the start until output begins.

    Code that writes to the terminal or shows its own progress calls `stop` first.
    """

    _AFTER_SECONDS = 1.0

    def __init__(self) -> None:
        self._lock = Lock()
        self._doing = "working"
        self._timer: Timer | None = None
        self._status: Status | None = None

    def start(self) -> None:
        """Show the line one second from now."""
        self.stop()
        with self._lock:
            self._doing, self._timer = "working", Timer(self._AFTER_SECONDS, self._show)
            self._timer.daemon = True
            self._timer.start()

    def show_progress(self, doing: str) -> None:
        """Set the current step."""
        with self._lock:
            self._doing = doing
            if self._status:
                self._status.update(plain(doing))

    def stop(self) -> None:
        """Remove the line until `start`."""
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
    """The current step for rich: one line without markup."""
    from rich.text import Text

    return Text(one_line(doing))


@contextmanager
def to_stdout() -> Iterator[None]:
    """Raise GpucostError if writing to stdout fails in the block, BrokenPipeError if its reader has closed it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise stdout_failed(error) from None


def print_text(text: str = "", *, nl: bool = True) -> None:
    """Write data to stdout, with characters outside its encoding replaced. Raises GpucostError if writing fails."""
    waiting.stop()
    encoding = sys.stdout.encoding or "utf-8"
    with to_stdout():
        typer.echo(text.encode(encoding, "replace").decode(encoding), nl=nl)


def stdout_failed(error: OSError) -> GpucostError:
    """The error of a failed write to stdout; drops the rest, so that the interpreter's final flush does not fail too."""
    drop_stdout()
    return GpucostError(f"cannot write to standard output: {error.strerror or error}")


def output_file(output: Path | None) -> Path | None:
    """The file of -o; None for stdout, which `-` means too. Raises UsageError for a directory."""
    if output is None or str(output) == "-":
        return None
    if output.is_dir():
        raise UsageError(f"-o {output} is a directory", "use a file, or - for standard output")
    return output


def made_folder(folder: Path, fix: str, mode: int = 0o777) -> Path:
    """Create the folder if it is missing, and return it. Raises GpucostError with `fix` if that fails."""
    try:
        make_folder(folder, mode)
    except OSError as error:
        raise GpucostError(f"cannot create {folder}: {error.strerror or error}", fix) from None
    return folder


def note(text: str, *, quiet: bool = False) -> None:
    """Print a note without secrets on stderr, unless `quiet`."""
    if quiet:
        return
    text = concealed(text)
    waiting.stop()
    typer.echo(visible(text), err=True)


def write_output(text: str, output: Path | None) -> None:
    """Write `text` to the file `output`, or to stdout if it is None. Raises GpucostError if writing fails."""
    if output is None:
        print_text(text, nl=False)
    else:
        write_text(text, output)


def print_error(message: str, fix: str | None) -> None:
    """Print an error and its fix on stderr, in the format of every command."""
    message = concealed(message)
    waiting.stop()
    # a name that contains a line end cannot add a fix line
    indented = re.sub(r"\n(?=error:|fix:)", r"\n  ", visible(message))
    typer.echo(("\033[1;31merror:\033[0m " if has_colors(sys.stderr) else "error: ") + indented, err=True)
    if fix:
        typer.echo(f"fix: {visible(fix)}", err=True)


def drop_stdout() -> None:
    """Discard unwritten output, so that the interpreter's final flush does not fail."""
    with suppress(OSError, ValueError):  # stdout may lack a descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_parquet(save: Callable[[Path], None], output: Path | None) -> None:
    """Write a file with `save`. Raises GpucostError if writing fails, UsageError without a file."""
    if output is None:
        raise UsageError("--format parquet needs a file", "add -o report.parquet")
    with atomic_write(output) as part:
        save(part)


_NARROWEST = 60


def write_page(page: Page, output: Path | None) -> None:
    """Write the page as text to `output`, or to stdout if it is None, in the width of the terminal.

    In files and pipes, tables have their full width and all columns. Raises GpucostError if writing fails.
    """
    from gpucost.render.terminal import render

    width = line_width(output)
    color = output is None and has_colors(sys.stdout)
    write_output(render(page, width and max(_NARROWEST, width), color=color), output)


def has_colors(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colors."""
    return stream.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def line_width(output: Path | None = None) -> int | None:
    """Characters per line: COLUMNS if set, otherwise the terminal's width; None for a file or pipe."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    with suppress(OSError, ValueError):  # stdout may be an object without a descriptor
        if output is None and sys.stdout.isatty():
            return os.get_terminal_size(sys.stdout.fileno()).columns
    return None
