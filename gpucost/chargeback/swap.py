"""Puts a directory in the place of another: whole or not at all, and the old one stays where anything fails."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp

from gpucost.errors import GpucostError

_MARK = ".gpucost-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h


@contextmanager
def replacing(target: Path, keeps: Callable[[Path], list[Path]]) -> Iterator[Path]:
    """A new directory beside `target`, that takes its place where the block ends and is gone where it raises.

    `keeps` names what of the old directory goes over to the new one. One run at a time works in the directory above; what a
    killed run left there is removed, and so are directories that were made for nothing. Raises GpucostError where another run is
    at work or the directory cannot be written.
    """
    above = target.parent
    try:
        with _made(above), _alone(above), _ended_in_order():
            for left in above.glob(f".????-??{_MARK}*"):
                shutil.rmtree(left, ignore_errors=True)
            part = Path(mkdtemp(dir=above, prefix=f".{target.name}{_MARK}"))
            try:
                yield part
                part.chmod(0o777 & ~_umask())
                if target.exists():
                    _carry_over(target, part, keeps(target))
                _swap(part, target)
            finally:
                shutil.rmtree(part, ignore_errors=True)
    except OSError as error:
        raise GpucostError(
            f"cannot write {target}: {error.strerror or error}; what was there before is kept", "--out names another directory"
        ) from error


@contextmanager
def _made(folder: Path) -> Iterator[None]:
    """`folder` and those above it, made where they are not there, and gone again where the block raises and leaves them empty."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):  # not empty, or not made
            for one in new:
                one.rmdir()
        raise


@contextmanager
def _alone(above: Path) -> Iterator[None]:
    import fcntl

    descriptor = os.open(above, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GpucostError(f"another run is writing to {above}", "wait until it is done") from None
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """While the block lasts, SIGTERM, which schedulers end a run with, lets it clean up after itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _carry_over(old: Path, new: Path, files: list[Path]) -> None:
    for file in files:
        copy = new / file.relative_to(old)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy, follow_symlinks=False)


def _swap(new: Path, target: Path) -> None:
    """After it `target` is the new directory; the old one, if any, stands where the new one was, or is gone."""
    if not target.exists():
        new.rename(target)
        return
    if _exchange(new, target):
        return
    aside = new.with_name(f"{new.name}-old")
    target.rename(aside)
    try:
        new.rename(target)
    except OSError:
        aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Linux exchanges two directories in one step, on most file systems."""
    if sys.platform != "linux":
        return False
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # another C library
        return False
    return bool(rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
