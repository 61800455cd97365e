"""What a file holds, by its first bytes: CSV, Parquet or JSON lines, packed or not, and the names of its columns."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

from gpucost.collect.bill import azure_answers
from gpucost.collect.bill.formats import NotThis
from gpucost.errors import DataError
from gpucost.store import bill_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import duckdb

_DELIMITERS = (",", ";", "\t", "|")
_HEADER_LIMIT = 4 << 20
_JSON_LINES = 1000
_JSON_DOCUMENT_LIMIT = 64 << 20
_AGAIN = "get the file again; nothing of it was loaded"


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that can be read: `kind` 'json' is one JSON document, whose keys stand for columns."""

    path: Path
    name: str
    kind: Literal["csv", "parquet", "jsonl", "json"]
    header: Sequence[str]
    gzipped: bool = False
    delimiter: str = ","


def open_files(con: duckdb.DuckDBPyConnection, path: Path, name: str, directory: Path) -> list[Opened]:
    """The file, or the members of a zip archive, which are unpacked into `directory`.

    Raises DataError for a file that is empty, breaks off, or is no text.
    """
    with _Said(name), path.open("rb") as file:
        magic = file.read(4)
        if not magic:
            raise DataError(f"{name} is empty", _AGAIN)
        if magic[:2] == b"PK":
            return [_open(con, part, f"{name}:{member}", directory) for member, part in _unpacked(path, directory)]
    return [_open(con, path, name, directory)]


def _open(con: duckdb.DuckDBPyConnection, path: Path, name: str, directory: Path) -> Opened:
    with _Said(name), path.open("rb") as file:
        gzipped = file.read(2) == b"\x1f\x8b"
    with _Said(name), cast("BinaryIO", gzip.open(path, "rb")) if gzipped else path.open("rb") as stream:
        head = stream.read(_HEADER_LIMIT)
    if head[:4] == b"PAR1":
        if gzipped:
            path = _ungzipped(path, directory, name)
        return Opened(path, name, "parquet", bill_files.parquet_header(con, path, name))
    if head[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in head[:1024]:
        raise DataError(f"{name} is no UTF-8 text", "save it as UTF-8; nothing of it was loaded")
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return _open_json(path, name, head, gzipped, directory)
    return _open_csv(path, name, head, gzipped)


def _open_csv(path: Path, name: str, head: bytes, gzipped: bool) -> Opened:
    text = head.decode("utf-8-sig", errors="replace")
    best: list[str] = []
    delimiter = ","
    for candidate in _DELIMITERS:
        try:
            header = next(csv.reader(io.StringIO(text, newline=""), delimiter=candidate, strict=True), [])
        except csv.Error:
            continue
        if len(header) > len(best):
            best, delimiter = header, candidate
    if best and best[0].startswith("#"):
        # The spot data feed's header stands behind a comment.
        fields = next((line for line in text.splitlines() if line.startswith("#Fields:")), "")
        best = fields.removeprefix("#Fields:").split()
    if "�" in "".join(best):
        raise DataError(f"{name}: the file is not UTF-8", "save it as UTF-8; nothing of it was loaded")
    return Opened(path, name, "csv", [column.strip() for column in best], gzipped, delimiter)


def _open_json(path: Path, name: str, head: bytes, gzipped: bool, directory: Path) -> Opened:
    text = head.decode("utf-8-sig", errors="replace")
    keys: dict[str, None] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines[:_JSON_LINES], 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError:
            if number == 1:
                return _document(path, name, gzipped, directory)
            break  # cut off by the limit of what was looked at, or wrong: reading it all will tell
        if not isinstance(record, dict):
            return _document(path, name, gzipped, directory)
        if azure_answers.is_answer(record):
            return _document(path, name, gzipped, directory)
        keys |= dict.fromkeys(record)
    return Opened(path, name, "jsonl", list(keys), gzipped)


def _document(path: Path, name: str, gzipped: bool, directory: Path) -> Opened:
    """One JSON document over many lines: its keys, or those of its first element; an Azure query answer as its rows."""
    with _Said(name), cast("BinaryIO", gzip.open(path, "rb")) if gzipped else path.open("rb") as stream:
        text = stream.read(_JSON_DOCUMENT_LIMIT)
    try:
        document = json.loads(text, parse_float=str)
    except ValueError as error:
        raise DataError(f"{name} is no JSON: {error}", _AGAIN) from None
    if azure_answers.is_answer(document):
        return _answer(document, path, name, directory)
    if isinstance(document, list):
        document = document[0] if document else {}
    return Opened(path, name, "json", list(document) if isinstance(document, dict) else [], gzipped)


def _answer(document: dict[str, Any], path: Path, name: str, directory: Path) -> Opened:
    """A saved answer of Azure's cost query API, one row per line. Raises NotThis where it has none."""
    rows = azure_answers.records(document)
    if not rows:
        raise NotThis(f"{name} is an Azure cost query answer without rows", "ask for a period that has costs")
    target = directory / f"{path.name}.jsonl"
    target.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return Opened(target, name, "jsonl", list(rows[0]))


def _unpacked(path: Path, directory: Path) -> Iterator[tuple[str, Path]]:
    import shutil

    with zipfile.ZipFile(path) as archive:
        for number, member in enumerate(sorted(info.filename for info in archive.infolist() if not info.is_dir())):
            if member.startswith("__MACOSX/"):
                continue
            target = directory / f"{path.stem}-{number}{Path(member).suffix}"
            with archive.open(member) as source, target.open("wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
            yield member, target


def _ungzipped(path: Path, directory: Path, name: str) -> Path:
    import shutil

    target = directory / f"{path.name}.parquet"
    with _Said(name), gzip.open(path, "rb") as source, target.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
    return target


class _Said:
    """Turns what a damaged or unreadable file fails with into words."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (EOFError, zlib.error, zipfile.BadZipFile)):
            raise DataError(f"{self.name} breaks off or is damaged: it was not downloaded in full", _AGAIN) from error
        if isinstance(error, OSError):
            raise DataError(f"cannot read {self.name}: {error.strerror or error}") from error
