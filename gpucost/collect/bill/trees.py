"""Where an export lies: files on disk. Object stores look the same to what reads them, each in a module of its own."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.errors import SourceError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from gpucost.collect.bill.manifest import Manifest

ENDINGS = (".csv", ".parquet", ".json", ".jsonl", ".ndjson", ".csv.gz", ".csv.zip", ".json.gz", ".jsonl.gz", ".gz", ".zip")


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a tree: `key` is its path in the tree with slashes, `tag` changes with its content where that is known."""

    key: str
    size: int
    tag: str | None = None


class Tree(ABC):
    """Files under one name that the user gave. `is_file`: the name is one file's, asked for by itself."""

    name: str
    is_file: bool = False

    @abstractmethod
    def entries(self) -> list[Entry]:
        """Every file, by key. Raises SourceError where it cannot be listed."""

    def around(self) -> list[Entry]:
        """Where one file is named: every file beside and below it, which a manifest may name."""
        return []

    def passed_over(self) -> list[str]:
        """Files of which nobody looks inside, since their names end like no export's. Only files on disk are told."""
        return []

    def told(self) -> list[Manifest]:
        """Billing periods that this source vouches for by itself, without manifests among its files."""
        return []

    @abstractmethod
    def fetch(self, entry: Entry, directory: Path) -> Path:
        """The file on disk; one that lies elsewhere is written into `directory`. Raises SourceError."""

    @abstractmethod
    def shown(self, entry: Entry) -> str:
        """What the file is called for the user, and in `charges.source_file`."""

    def digest(self, entry: Entry) -> str:
        """Changes with the file's content."""
        return entry.tag or f"{entry.key}:{entry.size}"


class LocalTree(Tree):
    """A file, or all files below a directory that may be exports; hidden ones are left alone."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise UsageError(f"there is no {path}", "name a file or directory of the export, or an s3:// address")
        self.is_file = path.is_file()
        self.name = str(path)
        self.root = path.parent if self.is_file else path
        self._only = path.name if self.is_file else None

    def entries(self) -> list[Entry]:
        if self._only is not None:
            return [Entry(self._only, (self.root / self._only).stat().st_size)]
        return self.around()

    def around(self) -> list[Entry]:
        return [Entry(key, size) for key, size in self._found() if key.lower().endswith(ENDINGS)]

    def passed_over(self) -> list[str]:
        return [] if self.is_file else [key for key, _ in self._found() if not key.lower().endswith(ENDINGS)]

    def _found(self) -> list[tuple[str, int]]:
        try:
            found = [(path.relative_to(self.root), path.stat().st_size) for path in self.root.rglob("*") if path.is_file()]
        except OSError as error:
            raise SourceError(f"cannot read {self.root}: {error.strerror or error}") from None
        return sorted((path.as_posix(), size) for path, size in found if not any(part.startswith(".") for part in path.parts))

    def fetch(self, entry: Entry, directory: Path) -> Path:  # noqa: ARG002  (it lies on disk already)
        return self.root / entry.key

    def shown(self, entry: Entry) -> str:
        return str(self.root / entry.key)

    def digest(self, entry: Entry) -> str:
        try:
            with (self.root / entry.key).open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise SourceError(f"cannot read {self.shown(entry)}: {error.strerror or error}") from None
