"""What DuckDB's failures mean for the store: in somebody's hands, not to be written, out of space, or damaged."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import duckdb

from gpucost.errors import StoreError

if TYPE_CHECKING:
    from pathlib import Path

_HELD_BY = re.compile(r"lock is held in (?P<program>.+?) \(PID (?P<pid>\d+)\)")
_SAME_PROCESS = "different configuration than existing connections"
_NEWER_FILE = re.compile(r"version number \d+, but we can only read|newer version of DuckDB", re.IGNORECASE)
_NOT_WRITABLE = ("permission denied", "read-only file system", "operation not permitted")
_NO_SPACE = ("no space left", "disk quota exceeded")
_OTHER_FILE = "name another file with --store"
_RESTORE = "restore a copy, or name another file with --store and collect again"

# Besides "DUCK" at byte 8, what a database begins with differs by version.
_MAGIC_AT, _MAGIC = 8, b"DUCK"
_HEADER_BYTES = 3 * 4096

# Of these the file is the cause; what is wrong with a statement raises others.
_OF_THE_FILE = (duckdb.IOException, duckdb.SerializationException, duckdb.FatalException, duckdb.InternalException)


def holder(error: Exception) -> str | None:
    """Who holds the lock that DuckDB's error is about; None where it is about something else."""
    message = str(error)
    if match := _HELD_BY.search(message):
        return f"{match['program']} (PID {match['pid']})"
    if "Could not set lock on file" in message:
        return "another program"
    return f"this process (PID {os.getpid()})" if _SAME_PROCESS in message else None


def of_the_file(path: Path, error: duckdb.Error) -> StoreError | None:
    """What an error in an open store says of its file; None where it is about the statement."""
    text = first_line(error)
    if any(words in text.lower() for words in _NOT_WRITABLE) and not isinstance(error, duckdb.PermissionException):
        fix = f"make the directory {path.parent} and what is in it writable, or {_OTHER_FILE}"
        return StoreError(f"cannot write the store {path}: permission denied", fix=fix)
    if any(words in text.lower() for words in _NO_SPACE):
        return StoreError(f"cannot write the store {path}: no space is left", fix=f"free some space, or {_OTHER_FILE}")
    # a wrong checksum comes as DuckDB's plain Error
    if isinstance(error, _OF_THE_FILE) or text.startswith("Corrupt database file"):
        return damaged(path, text)
    return None


def uncommitted(path: Path, error: duckdb.Error) -> StoreError:
    """What a transaction that could not be committed failed by."""
    return of_the_file(path, error) or StoreError(f"cannot write to the store {path}: {first_line(error)}")


def unopened(path: Path, error: duckdb.Error) -> StoreError:
    """Why a file cannot be opened as a store."""
    text = first_line(error)
    if path.is_dir():
        return StoreError(f"the store {path} is a directory, not a file", fix="name a file with --store")
    if not path.parent.is_dir():
        return StoreError(f"cannot make the store {path}: there is no directory {path.parent}", fix=_OTHER_FILE)
    if _NEWER_FILE.search(text):
        return StoreError(f"the store {path} was written by a newer DuckDB", fix="pip install --upgrade duckdb")
    if path.exists() and not os.access(path, os.R_OK):
        return StoreError(f"cannot read the store {path}: permission denied", fix=f"make it readable, or {_OTHER_FILE}")
    if path.exists() and not _is_database(path):
        return StoreError(f"{path} cannot be opened as a store: it is no DuckDB database", fix=_RESTORE)
    return of_the_file(path, error) or StoreError(f"{path} cannot be opened as a store: {text}", fix=_RESTORE)


def damaged(path: Path, how: str) -> StoreError:
    return StoreError(f"the store {path} is damaged: {how}", fix=_RESTORE)


def check_length(con: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raises StoreError for a file that was cut short, before anything is written into it.

    DuckDB gives space at the end back without saying so in the file's header: only a file that is shorter than the header
    says is looked at closely, for blocks in use beyond its end.
    """
    block, blocks = con.execute("SELECT block_size, total_blocks FROM pragma_database_size()").fetchall()[0]
    size = path.stat().st_size
    if size >= _HEADER_BYTES + block * blocks:
        return
    tables = con.execute("SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary").fetchall()
    for (table,) in tables:
        last = con.execute(
            "SELECT max(greatest(block_id, coalesce(list_max(additional_block_ids), -1))) FROM pragma_storage_info($1)", [table]
        ).fetchall()[0][0]
        if last is not None and _HEADER_BYTES + block * (last + 1) > size:
            raise damaged(path, f"it ends after {size:,} bytes, in the middle of the table {table}")


def first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] == _MAGIC
