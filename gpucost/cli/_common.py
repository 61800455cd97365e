"""What every command shares: options, opening config and store, and how errors are told."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, ParamSpec, TypeVar

import typer

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    from gpucost.config import Config
    from gpucost.store import Store

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
    from gpucost.config import load_config
    from gpucost.store import Store

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
