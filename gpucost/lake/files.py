"""Storage of a lake: a folder, or a bucket of S3, Google Cloud Storage or Azure Blob.

Files are complete or absent.
"""

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
from gpucost.objects import ADDRESSES, Bucket, Entry, open_address
from gpucost.records import frozen_dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from gpucost.config.model import Config
    from gpucost.lake.manifest import LakeFile

    Item = TypeVar("Item")
    Made = TypeVar("Made")

# Unreferenced files younger than this may belong to a run in progress.
YOUNG_SECONDS = 86_400.0
# Concurrent requests.
_AT_ONCE = 8
# Incomplete files of a folder; later runs remove files that an interrupted run left here.
PARTS = "_gpucost/parts"


@frozen_dataclass
class LakeFiles:
    """The files below a lake's address, by relative path.

    Every error is a GpucostError that names the file.
    """

    url: str
    _bucket: Bucket | _Folder
    _root: str
    is_local: bool

    def folders(self) -> list[Path]:
        """Folders of files that are read in place: empty for a remote lake."""
        return [Path(self._root)] if self.is_local else []

    def found(self, below: str = "") -> dict[str, Entry]:
        """The files below a folder by name, sorted; empty for a missing folder."""
        cut = len(self._root) + 1 if self._root else 0
        return {entry.key[cut:]: entry for entry in self._bucket.found(self._key(below))}

    def names(self, below: str = "") -> list[str]:
        """Names of the files below a folder, sorted; empty for a missing folder."""
        return list(self.found(below))

    def remove_abandoned(self, below: str, valid: Container[str], *, begins: str = "") -> None:
        """Remove files below a folder that are not `valid` and whose names start with `begins`.

        Young files stay: another run may be writing them, and will list them when it is done.
        """
        left = {
            name: file.written
            for name, file in self.found(below).items()
            if name not in valid and name.rpartition("/")[2].startswith(begins)
        }
        self.delete(name for name, written in left.items() if written < time.time() - YOUNG_SECONDS)

    def read(self, name: str) -> bytes | None:
        """The content of a small file; None if it is missing."""
        with suppress(FileNotFoundError):
            return self._bucket.read(self._key(name))
        return None

    def write(self, name: str, source: bytes | Path) -> None:
        """Write a file from bytes or a local file; readers see the old content or all of the new one."""
        try:
            self._bucket.put(self._key(name), source)
        except FileNotFoundError:
            raise StoreError(
                f"{self.label(name)}: its folder is missing", "run it again when the folder is back"
            ) from None

    def delete(self, names: Iterable[str]) -> None:
        """Remove files, ignoring missing ones."""

        def delete(name: str) -> None:
            with suppress(FileNotFoundError):
                self._bucket.delete(self._key(name))

        self.each(delete, names)

    def local(self, file: LakeFile, folder: Path) -> Path:
        """The local path of a lake's file, fetched into `folder` if the lake is remote.

        Raises StoreError if it is missing or differs from the manifest.
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
            what = "differs from its manifest"
            if not self.is_local:
                path.unlink()
        step = "export --all" if file.name.startswith("raw/") else "attribute"
        raise StoreError(
            f"{self.label(file.name)} {what}",
            f"run it again; if that fails, gpucost lake {step} writes it again",
        )

    def is_whole(self, file: LakeFile) -> bool:
        """Whether a file matches its manifest; reads the whole file."""
        with NamedTemporaryFile() as out, suppress(FileNotFoundError):
            self._bucket.fetch(self._key(file.name), Path(out.name))
            return checksum(Path(out.name)) == file.sha256
        return False

    def each(self, work: Callable[[Item], Made], items: Iterable[Item]) -> list[Made]:
        """The results of `work` for each item; several at a time if the lake is remote."""
        items_list = list(items)
        if self.is_local or len(items_list) < 2:
            return [work(item) for item in items_list]
        # run the first alone: it logs in
        first = work(items_list[0])
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return [first, *pool.map(work, items_list[1:])]

    def label(self, name: str = "") -> str:
        """A file's address, for people."""
        return f"{self.url.rstrip('/')}/{name}".rstrip("/")

    def _key(self, name: str) -> str:
        if ".." in name.split("/"):
            raise StoreError(
                f"{self.label()} refers to a file outside of the lake",
                "check its manifests: gpucost did not write this name",
            )
        return "/".join(part for part in (self._root, name) if part)


@lru_cache(4096)
def _checksum(path: Path, size: int, written: int) -> str:
    """A file's checksum, cached while the file is unchanged."""
    del size, written
    return checksum(path)


def checksum(path: Path) -> str:
    """The SHA-256 of a local file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Folder:
    """A local folder, as a bucket whose keys are paths."""

    def __init__(self, root: Path) -> None:
        self._root, self._parts = root, root / PARTS

    def found(self, folder: str) -> list[Entry]:
        files = []
        with _in_words(folder):
            for below, _, names in os.walk(folder, onerror=_raise_but_missing):
                for name in names:
                    path = Path(below, name)
                    with suppress(FileNotFoundError):  # removed meanwhile
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
                disk.move_into_place(part, place)
            finally:
                part.unlink(missing_ok=True)

    def delete(self, key: str) -> None:
        path = Path(key)
        with _in_words(key):
            if not path.parent.resolve().is_relative_to(self._root):
                raise StoreError(f"{key} is outside of the lake, through a link", "remove the link")
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
            "free space there, then run it again"
            if is_full
            else "make the folder readable and writable, or name another lake"
        )
        raise StoreError(f"{what}: {error.strerror or error}", fix) from error


def _raise_but_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def open_files(url: str, config: Config) -> LakeFiles:
    """The files of the lake at `url`, without reading any. Raises UsageError for an invalid address."""
    scheme, is_address, _ = url.partition("://")
    if not is_address or scheme == "file":
        path = Path(unquote(urlsplit(url).path) if is_address else url).expanduser().resolve()
        if path.exists() and not path.is_dir():
            raise UsageError(
                f"the lake {path} is a file, not a folder", f"a lake's address is /path/to/lake, {ADDRESSES}"
            )
        return LakeFiles(str(path), _Folder(path), str(path), is_local=True)
    bucket, root = open_address(url, config)
    return LakeFiles(bucket.label(root).rstrip("/"), bucket, root, is_local=False)
