"""Files that gpucost makes: whole or not at all, on the disk before it says so, and nobody else's to read."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from gpucost.errors import GpucostError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Who may read and write a store, a bundle or a config file: their owner.
PRIVATE = 0o600
_MARK = ".gpucost-run-"


def sync(path: Path) -> None:
    """Wait until the disk has a file, or what a folder says of the names in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        # some file systems cannot do it for folders
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """The same of a folder and all that lies in it."""
    for path in (*sorted(folder.rglob("*")), folder):
        sync(path)


def put(part: Path, place: Path) -> None:
    """Give a new file its place, over what was there; after it, a loss of power leaves it whole."""
    sync(part)
    part.replace(place)
    sync(place.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Make a folder, and those above it that are not there."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for one in new:
        sync(one.parent)


@contextmanager
def workplace(beside: Path) -> Iterator[Path]:
    """A folder of this run's own in the folder `beside`, gone where the block ends.

    Folders of runs that were killed are removed: nobody holds the lock that a run has on its own.
    """
    from tempfile import mkdtemp

    for left in beside.glob(f"{_MARK}*"):
        with suppress(OSError):  # in use, somebody else's, or no folder
            handle = _locked(left)
            try:
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)
    while (own := _own(folder := Path(mkdtemp(prefix=_MARK, dir=beside)))) is None:
        pass
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if own >= 0:
            os.close(own)


@contextmanager
def temporary() -> Iterator[Path]:
    """The same where this system has its temporary files."""
    from tempfile import gettempdir

    with workplace(Path(gettempdir())) as folder:
        yield folder


def _own(folder: Path) -> int | None:
    """A new folder, open and locked, or -1 where the file system has no locks. None where another run took it for a leftover."""
    try:
        handle = _locked(folder)
    except (BlockingIOError, FileNotFoundError):
        return None
    except OSError:
        return -1
    with suppress(FileNotFoundError):
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle
    os.close(handle)
    return None


def _locked(folder: Path) -> int:
    """An open folder that nobody else has locked. Raises OSError where somebody has, or it is no folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def atomic_write(target: Path | None, mode: int = 0o666) -> Iterator[Path]:
    """A file to write, that takes the place of `target` whole where the block ends; of none where that is None, or it raises.

    A new file has this mode, less what the umask takes away; one that was there keeps its own. What is there and is no regular
    file (a device, a pipe) is written into; a link's target is replaced, not the link. Raises GpucostError where it cannot be
    written.
    """
    try:
        special = target if target and target.exists() and not target.is_file() else None
        # not of a pipe: /dev/stdout leads to a name that nothing can be opened by
        place = target.resolve() if target and not special else None
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, up to Python 3.12
        raise _unwritable(target, error) from None
    try:
        with workplace(place.parent) if place else temporary() as folder:
            part = folder / "file"
            yield part
            if special:
                with part.open("rb") as content, special.open("wb") as into:
                    shutil.copyfileobj(content, into)
            elif place:
                part.chmod(place.stat().st_mode & 0o7777 if place.exists() else mode & ~_umask())
                put(part, place)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(target: Path | None, error: Exception) -> GpucostError:
    return GpucostError(
        f"cannot write {target or 'a file'}: {getattr(error, 'strerror', None) or error}",
        "-o names another file",
    )


# The umask is the process' own, not a thread's: the first who narrows it and the last who is done set it.
_lock, _blocks, _before = Lock(), 0, 0


@contextmanager
def private(mode: int) -> Iterator[None]:
    """While the block lasts, new files and folders are for those alone that `mode` names, less what the umask takes away."""
    global _blocks, _before
    with _lock:
        _blocks += 1
        mask = os.umask(0o077)
        if _blocks == 1:
            _before = mask
        # a folder that may be read may be entered
        os.umask(mask | (0o777 & ~(mode | (mode & 0o444) >> 2)))
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1
            if not _blocks:
                os.umask(_before)


def _umask() -> int:
    with _lock:
        if _blocks:
            return _before
        mask = os.umask(0o077)
        os.umask(mask)
        return mask


def write_text(text: str, output: Path) -> None:
    """Write `text` to the file `output`, as `atomic_write` does. Raises GpucostError where it cannot be written."""
    with atomic_write(output) as part:
        part.write_text(text, encoding="utf-8")
