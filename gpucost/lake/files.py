"""Where a lake lies: a folder, or a bucket of S3, Google Cloud Storage or Azure Blob; files are there whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from gpucost import disk
from gpucost.errors import StoreError, UsageError
from gpucost.objects import ADDRESSES, Entry, open_address
from gpucost.records import record

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from gpucost.config.model import Config
    from gpucost.lake.manifest import LakeFile
    from gpucost.objects import Bucket

    Item = TypeVar("Item")
    Made = TypeVar("Made")

# As long as this a file that nothing names may belong to a run that is still going on.
YOUNG_SECONDS = 86_400.0
# Requests at the same time.
_AT_ONCE = 8
# Where files of a folder grow until they are whole; what a run that was ended left there is removed by a later one.
PARTS = "_gpucost/parts"


@record
class LakeFiles:
    """The files below a lake's address, by their paths relative to it. Every error is a GpucostError that names the file."""

    url: str
    _bucket: Bucket | _Folder
    _root: str
    is_local: bool

    def folders(self) -> list[Path]:
        """Where the files lie that are read in their place: none of a lake that lies elsewhere."""
        return [Path(self._root)] if self.is_local else []

    def found(self, below: str = "") -> dict[str, Entry]:
        """The files below a folder by their names, sorted; none where it is not there."""
        cut = len(self._root) + 1 if self._root else 0
        return {entry.key[cut:]: entry for entry in self._bucket.found(self._key(below))}

    def names(self, below: str = "") -> list[str]:
        """The files below a folder, sorted; none where it is not there."""
        return list(self.found(below))

    def remove_abandoned(self, below: str, kept: Container[str], *, begins: str = "") -> None:
        """Remove files below a folder that are not `kept`, of those whose names begin so.

        Young ones stay: another run may be writing them, and will name them when it is done.
        """
        left = {
            name: file.written
            for name, file in self.found(below).items()
            if name not in kept and name.rpartition("/")[2].startswith(begins)
        }
        self.delete(name for name, written in left.items() if written < time.time() - YOUNG_SECONDS)

    def read(self, name: str) -> bytes | None:
        """What a small file holds; None where it is not there."""
        with suppress(FileNotFoundError):
            return self._bucket.read(self._key(name))
        return None

    def write(self, name: str, source: bytes | Path) -> None:
        """Write a file, by its content or a file of this machine: others see what it held before, or all of this."""
        try:
            self._bucket.put(self._key(name), source)
        except FileNotFoundError:
            raise StoreError(
                f"{self.shown(name)}: its folder is gone", "run it again once that is back"
            ) from None

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, those that are there."""

        def delete(name: str) -> None:
            with suppress(FileNotFoundError):
                self._bucket.delete(self._key(name))

        self.each(delete, names)

    def local(self, file: LakeFile, folder: Path) -> Path:
        """A file of the lake on this machine, fetched into `folder` where it lies elsewhere.

        Raises StoreError where it is missing, or is not what the manifest says.
        """
        key = self._key(file.name)
        path = Path(key) if self.is_local else folder / hashlib.sha256(key.encode()).hexdigest()[:32]
        if not self.is_local and not path.exists():
            part = path.with_name(f"{path.name}.{os.getpid()}.part")
            with suppress(FileNotFoundError):
                self._bucket.fetch(key, part)
                part.replace(path)
        what = "is missing"
        with suppress(FileNotFoundError):
            state = path.stat()
            if state.st_size == file.size and _checksum(path, file.size, state.st_mtime_ns) == file.sha256:
                return path
            what = "is not what its manifest says"
            if not self.is_local:
                path.unlink()
        step = "export --all" if file.name.startswith("raw/") else "attribute"
        raise StoreError(
            f"{self.shown(file.name)} {what}",
            f"run it again; if it stays so, gpucost lake {step} writes it anew",
        )

    def is_whole(self, file: LakeFile) -> bool:
        """Whether a file is there as its manifest says; it is read for that."""
        with NamedTemporaryFile() as out, suppress(FileNotFoundError):
            self._bucket.fetch(self._key(file.name), Path(out.name))
            return checksum(Path(out.name)) == file.sha256
        return False

    def each(self, work: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """What `work` makes of each; several at a time where each is a request to a server."""
        listed = list(items)
        if self.is_local or len(listed) < 2:
            return [work(item) for item in listed]
        # the first one alone: it logs in
        first = work(listed[0])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [first, *pool.map(work, listed[1:])]

    def shown(self, name: str = "") -> str:
        """A file's address, for people."""
        return f"{self.url.rstrip('/')}/{name}".rstrip("/")

    def _key(self, name: str) -> str:
        if ".." in name.split("/"):
            raise StoreError(
                f"{self.shown()} names a file that lies outside of it",
                "look at its manifests: gpucost wrote no such name",
            )
        return "/".join(part for part in (self._root, name) if part)


@lru_cache(4096)
def _checksum(path: Path, size: int, written: int) -> str:
    """A file's checksum, once as long as it is the same."""
    del size, written
    return checksum(path)


def checksum(path: Path) -> str:
    """The SHA-256 of a file of this machine, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Folder:
    """A folder of this machine, as a bucket whose keys are paths."""

    def __init__(self, root: Path) -> None:
        self._root, self._parts = root, root / PARTS

    def found(self, folder: str) -> list[Entry]:
        files = []
        with _in_words(folder):
            for below, _, names in os.walk(folder, onerror=_raise_but_missing):
                for name in names:
                    path = Path(below, name)
                    with suppress(FileNotFoundError):  # removed by now
                        state = path.stat()
                        files.append(Entry(str(path), state.st_size, written=state.st_mtime))
        return sorted(files, key=attrgetter("key"))

    def read(self, key: str) -> bytes:
        with _in_words(key):
            return Path(key).read_bytes()

    def fetch(self, key: str, target: Path) -> None:
        with _in_words(key):
            shutil.copyfile(key, target)

    def put(self, key: str, source: bytes | Path) -> None:
        place, part = Path(key), self._parts / uuid4().hex
        with _in_words(key):
            disk.make_folder(place.parent)
            disk.make_folder(part.parent)
            try:
                if isinstance(source, bytes):
                    part.write_bytes(source)
                else:
                    shutil.copyfile(source, part)
                disk.put(part, place)
            finally:
                part.unlink(missing_ok=True)

    def delete(self, key: str) -> None:
        path = Path(key)
        with _in_words(key):
            if not path.parent.resolve().is_relative_to(self._root):
                raise StoreError(f"{key} lies outside of the lake: a link leads there", "remove the link")
            path.unlink()


@contextmanager
def _in_words(what: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = (
            "make room there, then run it again"
            if is_full
            else "make the folder readable and writable, or name another lake"
        )
        raise StoreError(f"{what}: {error.strerror or error}", fix) from error


def _raise_but_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def open_files(url: str, config: Config) -> LakeFiles:
    """The files of the lake at `url`; nothing is read yet. Raises UsageError if that is not an address of one."""
    scheme, is_address, _ = url.partition("://")
    if not is_address or scheme == "file":
        path = Path(unquote(urlsplit(url).path) if is_address else url).expanduser().resolve()
        if path.exists() and not path.is_dir():
            raise UsageError(
                f"the lake {path} is a file, not a folder", f"a lake's address is /path/to/lake, {ADDRESSES}"
            )
        return LakeFiles(str(path), _Folder(path), str(path), is_local=True)
    bucket, root = open_address(url, config)
    return LakeFiles(bucket.shown(root).rstrip("/"), bucket, root, is_local=False)
