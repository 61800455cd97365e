"""Detect a file's content by its first bytes: CSV, Parquet or JSON lines, packed or not, and column names."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import os
import time
import zipfile
import zlib
from abc import ABC, abstractmethod
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeGuard

from gpucost import inputs
from gpucost.collect.bill.formats import NotThis
from gpucost.collect.bill.manifest import BillManifest
from gpucost.errors import DataError, SourceError, UsageError
from gpucost.objects import Entry, open_address
from gpucost.store import bill_files
from gpucost.store.bill_files import RawFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config


def is_answer(document: object) -> TypeGuard[inputs.JsonObject]:
    """Whether a JSON document is a query API answer, as a page or a saved file."""
    properties = document.get("properties") if isinstance(document, dict) else None
    return (
        isinstance(properties, dict)
        and isinstance(properties.get("columns"), list)
        and isinstance(properties.get("rows"), list)
    )


def records(answer: inputs.JsonObject) -> list[inputs.JsonObject]:
    """The rows of an answer, with column names. Raises DataError if a row has another length."""
    names = [str(column.get("name")) for column in answer["properties"]["columns"]]
    rows = answer["properties"]["rows"]
    if any(len(row) != len(names) for row in rows):
        raise DataError(
            f"a row of the answer does not have {len(names)} fields, one per column",
            "query again; no data was loaded",
        )
    return [dict(zip(names, row, strict=True)) for row in rows]


def is_page(document: object) -> TypeGuard[inputs.JsonObject]:
    """Whether a JSON document is a page of costs by time, as in the APIs of OpenAI and Anthropic."""
    if not isinstance(document, dict) or not isinstance(buckets := document.get("data"), list):
        return False
    has_results = (isinstance(bucket, dict) and isinstance(bucket.get("results"), list) for bucket in buckets)
    return all(has_results) if buckets else "has_more" in document


def results(page: inputs.JsonObject) -> Iterator[inputs.JsonObject]:
    """The results of a page, each with its bucket's times, the page's has_more, and `amount.value` as
    amount_value.

    A bucket without results becomes a row with its times and has_more, because it may be the last one. Raises
    DataError if a result is not an object.
    """
    for bucket in page["data"]:
        around = {"has_more": page.get("has_more")} | {
            name: value for name, value in bucket.items() if name != "results"
        }
        for result in bucket["results"] or [{}]:
            if not isinstance(result, dict):
                raise DataError("a result of the answer is not an object", "query again; no data was loaded")
            flat = dict(around)
            for name, value in result.items():
                flat |= (
                    {f"{name}_{inner}": inner_value for inner, inner_value in value.items()}
                    if isinstance(value, dict)
                    else {name: value}
                )
            yield flat


# The columns of rows for days without costs: OpenAI's and Anthropic's required columns.
_WITHOUT_COSTS: dict[str, inputs.JsonObject] = {
    "start_time": {"amount_value": None, "amount_currency": None},
    "starting_at": {"amount": None, "currency": None},
}
_DELIMITERS = (",", ";", "\t", "|")
_HEADER_LIMIT = 4 << 20
_JSON_LINES = 1000
_JSON_DOCUMENT_LIMIT = 64 << 20
# Limits of a packed file's output: a gibibyte, or more if the packed file is at least a hundredth of it.
_UNPACKED, _RATIO = 1 << 30, 100
_MARK = b"\xef\xbb\xbf"
_MARK_PARTS = b"\xef\xbb", b"\xef"
_AGAIN = "get the file again; none of it was loaded"


def open_files(con: DuckDBPyConnection, path: Path, name: str, directory: Path) -> list[RawFile]:
    """The file, or the members of a zip archive, which are unpacked into `directory`.

    Raises DataError if a file is empty, truncated or not text.
    """
    magic = _beginning(path, name, 2)
    if not magic:
        raise DataError(f"{name} is empty", _AGAIN)
    if magic != b"PK":
        return [_open(con, path, name, directory)]
    with _in_words(name):
        return [
            _open(con, part, f"{name}:{member}", directory)
            for member, part in _unpacked(path, name, directory)
        ]


def _open(con: DuckDBPyConnection, path: Path, name: str, directory: Path) -> RawFile:
    if _beginning(path, name, 2) == b"\x1f\x8b":
        limit, target = _most(path), directory / f"{path.stem}.unpacked"
        with _in_words(name), gzip.open(path, "rb") as source:
            path = _copied(source, target, name, limit)
    head = _beginning(path, name, _HEADER_LIMIT)
    if head[:4] == b"PAR1":
        return RawFile(path, name, "parquet", bill_files.parquet_header(con, path, name))
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head[:1024]:
        raise DataError(f"{name} is not UTF-8 text", "save it as UTF-8; none of it was loaded")
    cleaned = _unmarked(path, directory)
    text = head.replace(_MARK, b"").decode(errors="replace")
    is_json = text.lstrip()[:1] in ("{", "[")
    opened = _open_json(cleaned, name, text, directory) if is_json else _open_csv(cleaned, name, text)
    return replace(opened, has_marks=cleaned != path)


def _beginning(path: Path, name: str, limit: int) -> bytes:
    with _in_words(name), path.open("rb") as stream:
        return stream.read(limit)


def _unmarked(path: Path, directory: Path) -> Path:
    """The text; a copy without byte order marks, if there are any after the start (joined texts have them)."""
    with path.open("rb") as source:
        source.seek(len(_MARK))
        if not any(_MARK in chunk for chunk in inputs.chunks(source, *_MARK_PARTS)):
            return path
        source.seek(0)
        target = directory / f"{path.stem}.unmarked"
        with target.open("wb") as out:
            out.writelines(chunk.replace(_MARK, b"") for chunk in inputs.chunks(source, *_MARK_PARTS))
    return target


def _open_csv(path: Path, name: str, text: str) -> RawFile:
    best: list[str] = []
    delimiter = ","
    for candidate in _DELIMITERS:
        with suppress(csv.Error):
            header = next(csv.reader(io.StringIO(text, newline=""), delimiter=candidate, strict=True), [])
            if len(header) > len(best):
                best, delimiter = header, candidate
    if best and best[0].startswith("#"):
        # The header of the spot data feed follows a comment.
        fields = next((line for line in text.splitlines() if line.startswith("#Fields:")), "")
        best = fields.removeprefix("#Fields:").split()
    if "�" in "".join(best):
        raise DataError(f"{name}: the file is not UTF-8", "save it as UTF-8; none of it was loaded")
    return RawFile(path, name, "csv", [column.strip() for column in best], delimiter)


def _open_json(path: Path, name: str, text: str, directory: Path) -> RawFile:
    keys: dict[str, None] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[:_JSON_LINES], 1):
        if not line.strip():
            continue
        try:
            row = inputs.parse_json(line)
        except ValueError:
            if number == 1:
                return _document(path, name, directory)
            break  # cut off by the limit, or invalid: reading the whole file decides
        if not isinstance(row, dict) or is_answer(row) or is_page(row):
            return _document(path, name, directory)
        keys |= dict.fromkeys(row)
    return RawFile(path, name, "jsonl", list(keys))


def _document(path: Path, name: str, directory: Path) -> RawFile:
    """A JSON document over many lines: its keys, or its first element's keys. API answers and pages become
    rows.
    """
    text = _beginning(path, name, _JSON_DOCUMENT_LIMIT)
    try:
        document = inputs.parse_json(text, parse_float=str)
    except ValueError as error:
        try:
            document = [
                inputs.parse_json(line, parse_float=str) for line in text.splitlines() if line.strip()
            ]
        except ValueError:
            raise DataError(f"{name} is not JSON: {error}", _AGAIN) from None
    if is_answer(document):
        return _rows(records(document), path, name, directory)
    pages = document if isinstance(document, list) else [document]
    if pages and all(is_page(page) for page in pages):
        rows = [row for page in pages for row in results(page)]
        if not any(bucket["results"] for page in pages for bucket in page["data"]):
            rows = [row | columns for row in rows for time, columns in _WITHOUT_COSTS.items() if time in row]
        return _rows(rows, path, name, directory)
    if isinstance(document, list):
        document = document[0] if document else {}
    return RawFile(path, name, "json", list(document) if isinstance(document, dict) else [])


def _rows(rows: list[inputs.JsonObject], path: Path, name: str, directory: Path) -> RawFile:
    """The rows of a saved cost API answer, one per line. Raises NotThis without rows."""
    if not rows:
        raise NotThis(f"{name} is a cost API's answer without rows", "query a period with costs")
    target = directory / f"{path.name}.jsonl"
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return RawFile(target, name, "jsonl", list(dict.fromkeys(column for row in rows for column in row)))


def _unpacked(path: Path, name: str, directory: Path) -> Iterator[tuple[str, Path]]:
    left = _most(path)
    with zipfile.ZipFile(path) as archive:
        members = sorted(info.filename for info in archive.infolist() if not info.is_dir())
        for number, member in enumerate(members):
            if not member.startswith("__MACOSX/"):
                target = directory / f"{path.stem}-{number}{Path(member).suffix}"
                with archive.open(member) as source:
                    yield member, _copied(source, target, name, left)
                left -= target.stat().st_size


def _most(path: Path) -> int:
    """Maximum output of a packed file in bytes: more than any bill has, far less than a zip bomb."""
    return max(_UNPACKED, _RATIO * path.stat().st_size)


def _copied(source: IO[bytes] | gzip.GzipFile, target: Path, name: str, limit: int) -> Path:
    """The unpacked file. Raises DataError above `limit` bytes."""
    with target.open("wb") as out:
        for chunk in inputs.chunks(source):
            if (limit := limit - len(chunk)) < 0:
                raise DataError(
                    f"{name} unpacks to over a gibibyte, {_RATIO} times its size",
                    "if it is a bill, unpack it and load its files",
                )
            out.write(chunk)
    return target


@contextmanager
def _in_words(name: str) -> Iterator[None]:
    """Translate the errors of a damaged or unreadable file."""
    try:
        yield
    except (EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise DataError(f"{name} is truncated or damaged: the download is incomplete", _AGAIN) from error
    except OSError as error:
        raise DataError(f"cannot read {name}: {error.strerror or error}") from error


ENDINGS = (".csv", ".parquet", ".json", ".jsonl", ".ndjson", ".gz", ".zip")


# Coarser than the clock steps of file systems; samples of 64 KiB, including both ends of the file.
_AT_REST_NS = 2_000_000_000
_SAMPLES, _SAMPLE = 16, 1 << 16


class Tree(ABC):
    """Files under one name from the user. `is_file`: the name is a single file."""

    name: str
    is_file: bool = False

    @abstractmethod
    def entries(self) -> list[Entry]:
        """Every file, by key. Raises SourceError if they cannot be listed."""

    def around(self) -> list[Entry]:
        """If a single file is named: all files next to and below it, because a manifest can name them."""
        return []

    def folders(self) -> set[Path]:
        """The location of files that are read in place."""
        return set()

    def passed_over(self) -> list[str]:
        """Files that are skipped because of the ending of their names. Only files on disk are reported."""
        return []

    def manifests(self) -> list[BillManifest]:
        """Billing periods that are complete in this source, without manifests among its files."""
        return []

    @abstractmethod
    def fetch(self, entry: Entry, directory: Path) -> Path:
        """The file on disk; a remote file is written to `directory`. Raises SourceError."""

    @abstractmethod
    def label(self, entry: Entry) -> str:
        """The name for the user, and in `charges.source_file`."""

    def digest(self, entry: Entry) -> str:
        """Changes with the file's content."""
        return entry.tag or f"{entry.key}:{entry.size}"

    def state(self, entry: Entry) -> object:  # noqa: ARG002 (a fetched file is read as fetched)
        """Changes if the file is written or replaced, as far as detectable without reading it."""
        return None

    def stamp(self, entry: Entry) -> str | None:  # noqa: ARG002 (its digest costs nothing)
        """Identifies an unchanged file without reading all of it; None if only `digest` can."""
        return None


class BucketTree(Tree):
    """The files below an object store address that may be exports."""

    def __init__(self, address: str, config: Config) -> None:
        self.bucket, self.prefix = open_address(address, config)
        # Never show the SAS token of an address.
        self.name = self.bucket.label(self.prefix).rstrip("/")

    def entries(self) -> list[Entry]:
        found = self.bucket.found(self.prefix)
        if not found and self.prefix:
            with suppress(FileNotFoundError):
                found, self.is_file = [self.bucket.head(self.prefix)], True
        if not found:
            raise SourceError(f"no files at {self.name}", "correct the address: name a folder or one file")
        return [entry for entry in found if entry.key.lower().endswith(ENDINGS)]

    def around(self) -> list[Entry]:
        # AWS Data Exports writes manifests to metadata/, next to the folder of the files.
        above, metadata, _ = self.prefix.partition("/metadata/")
        return self.bucket.found(above if metadata else self.prefix.rpartition("/")[0])

    def fetch(self, entry: Entry, directory: Path) -> Path:
        target = directory / entry.key.rpartition("/")[2]
        try:
            found = self.bucket.fetch(entry.key, target)
        except FileNotFoundError:
            fix = "run the command again; keys that begin with a slash cannot be read"
            raise SourceError(f"{self.label(entry)} does not exist any more", fix) from None
        if found != entry:
            raise SourceError(
                f"{self.label(entry)} is being replaced by a new delivery", "run the command again"
            )
        return target

    def label(self, entry: Entry) -> str:
        return self.bucket.label(entry.key)


class MonthTree(Tree):
    """A service's answer for a month ('2026-10'): a file of JSON lines with the complete billing period."""

    month: str
    ending: str = ".jsonl"

    @property
    def key(self) -> str:
        """The file's name."""
        return self.month + self.ending

    def entries(self) -> list[Entry]:
        return [Entry(self.key, 0)]

    def manifests(self) -> list[BillManifest]:
        return [BillManifest(f"{self.month}.json", self.name, self.month, (self.key,))]

    def label(self, entry: Entry) -> str:  # noqa: ARG002
        return f"{self.name}#{self.month}"


class LocalTree(Tree):
    """A file, or all files below a directory that may be exports, except hidden ones."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise UsageError(
                f"{path} does not exist", "name a file or directory of the export, or an s3:// address"
            )
        self.is_file, self.name = path.is_file(), str(path)
        self.root = path.parent if self.is_file else path

    def entries(self) -> list[Entry]:
        if not self.is_file:
            return self.around()
        path = Path(self.name)
        return [Entry(path.name, path.stat().st_size)]

    def around(self) -> list[Entry]:
        return [Entry(key, size) for key, size in self._found() if key.lower().endswith(ENDINGS)]

    def folders(self) -> set[Path]:
        # Links may lead out of the root.
        paths = (self.root / entry.key for entry in self.entries())
        return {self.root, *(path.resolve().parent for path in paths if path.is_symlink())}

    def passed_over(self) -> list[str]:
        return [] if self.is_file else [key for key, _ in self._found() if not key.lower().endswith(ENDINGS)]

    def _found(self) -> list[tuple[str, int]]:
        with _in_words(str(self.root)):
            found = [
                (path.relative_to(self.root), path.stat().st_size)
                for path in self.root.rglob("*")
                if path.is_file()
            ]
        return sorted(
            (path.as_posix(), size)
            for path, size in found
            if not any(part.startswith(".") for part in path.parts)
        )

    def fetch(self, entry: Entry, directory: Path) -> Path:  # noqa: ARG002 (the file is on disk)
        return self.root / entry.key

    def label(self, entry: Entry) -> str:
        return str(self.root / entry.key)

    def digest(self, entry: Entry) -> str:
        with _in_words(self.label(entry)), (self.root / entry.key).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def state(self, entry: Entry) -> object:
        with _in_words(self.label(entry)):
            status = (self.root / entry.key).stat()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

    def stamp(self, entry: Entry) -> str | None:
        """The file's identity, size, times, and a digest of samples of its content.

        A write changes a file's change time, which cannot be set back, unlike the modification time. So equal
        stamps mean equal content. Two cases escape the time and are covered: a write within the clock's step
        after the file was read, because younger files get no stamp; and a disk without change times, by the
        samples.
        """
        with _in_words(self.label(entry)), (self.root / entry.key).open("rb") as file:
            status = os.fstat(file.fileno())
            if time.time_ns() - max(status.st_ctime_ns, status.st_mtime_ns) < _AT_REST_NS:
                return None
            samples = hashlib.sha256()
            for place in range(_SAMPLES):
                file.seek(max(0, status.st_size - _SAMPLE) * place // (_SAMPLES - 1))
                samples.update(file.read(_SAMPLE))
        numbers = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        return ":".join([*map(str, numbers), samples.hexdigest()])
