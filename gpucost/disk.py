"""Files that gpucost writes: complete or absent, durable, and private."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from gpucost.errors import GpucostError

# Only the owner may read and write stores, bundles and config files.
PRIVATE = 0o600
_MARK = ".gpucost-run-"


def sync(path: Path) -> None:
    """Flush a file, or a folder's entries, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        # some file systems cannot sync folders
        if not path.is_dir():
            raise
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Flush a folder and everything in it to disk."""
    for path in (*sorted(folder.rglob("*")), folder):
        sync(path)


def move_into_place(part: Path, place: Path) -> None:
    """Move a new file into place, replacing any old one.

    After that, a power failure leaves it complete.
    """
    sync(part)
    part.replace(place)
    sync(place.parent)


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and its missing parents."""
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    for path in new:
        sync(path.parent)


@contextmanager
def workplace(parent: Path) -> Iterator[Path]:
    """A temporary folder in the given one, removed when the block ends.

    Each run holds a lock on its folder. Folders without a lock are left from killed runs and removed.
    """
    from tempfile import mkdtemp

    for left in parent.glob(f"{_MARK}*"):
        with suppress(OSError):  # in use, another user's, or not a folder
            handle = _locked(left)
            try:
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(handle)
    while (lock := _lock_new(folder := Path(mkdtemp(prefix=_MARK, dir=parent)))) is None:
        pass
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


@contextmanager
def temporary() -> Iterator[Path]:
    """A temporary folder in the system's place for temporary files."""
    from tempfile import gettempdir

    with workplace(Path(gettempdir())) as folder:
        yield folder


def _lock_new(folder: Path) -> int | None:
    """Open and lock a new folder.

    Returns -1 if the file system has no locks, None if another run took the folder for a leftover.
    """
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
    """Open and lock a folder. Raises OSError if it is locked already or not a folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(handle)
        raise
    return handle


@contextmanager
def atomic_write(target: Path | None, mode: int = 0o666) -> Iterator[Path]:
    """A file to write; it replaces `target` as a whole when the block ends.

    If `target` is None or the block raises, no file is replaced. A new file gets `mode` minus the umask; an
    existing file keeps its mode. A device or pipe is written to directly. For a link, its target is replaced,
    not the link. Raises GpucostError if it cannot be written.
    """
    try:
        special = target if target and target.exists() and not target.is_file() else None
        # don't resolve a pipe: /dev/stdout resolves to a name that cannot be opened
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
                move_into_place(part, place)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(target: Path | None, error: Exception) -> GpucostError:
    return GpucostError(
        f"cannot write {target or 'a file'}: {getattr(error, 'strerror', None) or error}",
        "name another file with -o",
    )


# The umask belongs to the process, not to a thread: the first block to start narrows it, the last to end
# restores it.
_lock, _blocks, _before = Lock(), 0, 0


@contextmanager
def private(mode: int) -> Iterator[None]:
    """Create files and folders with only the permissions in `mode`, minus the umask, in this block."""
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
    """Write `text` to `output`, as `atomic_write` does. Raises GpucostError if it cannot."""
    with atomic_write(output) as part:
        part.write_text(text, "utf-8")
