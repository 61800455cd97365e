"""Access to the store: one process writes at a time, others wait for their turn."""

from __future__ import annotations

import glob
import logging
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from itertools import count
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any

from gpucost import disk
from gpucost.errors import StoreError, UsageError
from gpucost.records import frozen_dataclass
from gpucost.resources import pricing_dir
from gpucost.store import schema
from gpucost.store.sqlfiles import column, value

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb
    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config

# By default, DuckDB 2 writes files that no 1.x can read. v1.4.0 is the oldest format (a long-term-support
# one) with the string compression that labels benefit from; samples have the same size in every format since
# v1.0.0.
STORAGE_VERSION = "v1.4.0"

# No network access: DuckDB contains all extensions that the SQL here needs.
OFFLINE: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
STORED = OFFLINE | {"storage_compatibility_version": STORAGE_VERSION}

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.05
# Stores open in this process, by process and file: the folders their connections see, and the number of
# connections.
_open_here: dict[tuple[int, Path], tuple[tuple[Path, ...], int]] = {}
_opening = Lock()
# In a statement as DuckDB's JSON: a part that is not a query (WITH can insert, delete and copy), and
# functions that run a text.
_NOT_READING = re.compile(
    r'"type":"(?!(SELECT|SET_OPERATION|CTE|RECURSIVE_CTE)_NODE")\w+_NODE"|"function_name":"(query|json_execute_serialized_sql)"',
    re.IGNORECASE,
)
_STATEMENTS = (
    "use SELECT, DESCRIBE, SHOW, SUMMARIZE, or EXPLAIN without ANALYZE and options; PIVOT needs IN (…)"
)
_TABLES = "gpucost sql 'SHOW TABLES' lists the tables"


@frozen_dataclass
class Store:
    """A store file. Its lock is held only inside a `with` block.

    `read` and `write` wait up to `wait_seconds` for another holder's lock, then raise StoreError. New files
    get `mode` minus the umask. `query` ends a statement after `statement_seconds`.

    Connections see the store, the data shipped with gpucost (if `sees_catalog`), and files in the folders
    passed to `read` or `write`. Data that exceeds memory is spilled to the first of these folders, otherwise
    next to the store.
    """

    path: Path
    wait_seconds: float = 10.0
    mode: int = disk.PRIVATE
    statement_seconds: float = 600.0
    sees_catalog: bool = True

    @classmethod
    def of(cls, config: Config) -> Store:
        """The store of a configuration."""
        return cls(config.store, mode=config.file_mode)

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def read(self, *folders: Path, may_migrate: bool = True) -> Iterator[DuckDBPyConnection]:
        """A read-only connection. Raises StoreError if the store is missing or cannot be read.

        A store of an earlier version is upgraded first, or refused unless `may_migrate`.
        """
        if not self.exists:
            raise StoreError(f"store not found: {self.path}", "gpucost collect prometheus")
        with self._opened(folders, read_only=True) as con:
            if schema.check(con, self.path):
                yield con
                return
        if not may_migrate:
            raise StoreError(f"the store {self.path} is of an earlier version", "gpucost store info")
        with self.write():
            pass
        with self._opened(folders, read_only=True) as con:
            yield con

    @contextmanager
    def write(self, *folders: Path) -> Iterator[DuckDBPyConnection]:
        """A connection inside a transaction: committed at the end, rolled back if the block raises.

        Creates a missing file and upgrades its schema; a file that it created is removed if the block raises.
        Closing moves the write-ahead log into the file. A process killed before that leaves the log next to
        it, and the next opening replays committed changes.
        """
        import duckdb

        is_new = not self.exists
        with self._opened(folders, read_only=False) as con:
            if not schema.check(con, self.path):
                self._upgrade(con)
            con.execute("BEGIN")
            try:
                yield con
            except BaseException:
                with suppress(
                    duckdb.Error
                ):  # a failed statement has ended the transaction; the block raises its own error
                    con.execute("ROLLBACK")
                if is_new:
                    # Still locked: no other process can have written to it.
                    self.path.unlink(missing_ok=True)
                raise
            try:
                con.execute("COMMIT")
            except duckdb.Error as error:
                failure = StoreError(f"cannot write to the store {self.path}: {_first_line(error)}")
                raise _of_the_file(self.path, error) or failure from error
            if is_new:
                disk.sync(self.path.parent)
        schema.trust(self.path)

    def _upgrade(self, con: DuckDBPyConnection) -> None:
        """Upgrade the schema. Before a migration that deletes data, copy the store.

        The log names deleted rows and the copy.
        """
        version, deleted = schema.current_version(con), schema.deleted_by_upgrade(con)
        copy = self.path.with_name(f"{self.path.name}.schema-{version}")
        is_copied = 0 < version < schema.DELETES_SINCE
        if is_copied:
            con.execute("CHECKPOINT")
            _copy(self.path, copy)
        schema.migrate(con)
        if is_copied:
            what = f"rows deleted with their features: {deleted}; " if deleted else ""
            _log.warning(
                "upgraded %s to schema %d; %scopy of the old store: %s",
                self.path,
                schema.latest_version(),
                what,
                copy,
            )

    def query(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Column names and rows of a SELECT, DESCRIBE, SHOW or SUMMARIZE, or of the EXPLAIN of one.

        The statement sees no files. Raises UsageError if it is not exactly one statement. Raises StoreError
        with DuckDB's message if it is refused, fails or takes too long.
        """
        import duckdb

        with replace(self, sees_catalog=False).read() as con:
            timer = Timer(self.statement_seconds, con.interrupt)
            try:
                con.execute("SET lock_configuration = true")
                _check_statement(con, sql)
                timer.start()
                answer = con.execute(sql)
                return [str(column[0]) for column in answer.description], answer.fetchall()
            except duckdb.InterruptException:
                message = f"the statement took longer than {self.statement_seconds:g} s and was ended"
                raise StoreError(message, "select fewer rows or a shorter period") from None
            except duckdb.Error as error:
                raise _of_the_file(self.path, error) or StoreError(str(error).strip(), _TABLES) from error
            finally:
                timer.cancel()

    def info(self) -> schema.StoreInfo:
        """The store's contents by source, period and size."""
        with self.read() as con:
            return schema.read(con, self.path)

    @contextmanager
    def _opened(self, folders: tuple[Path, ...], *, read_only: bool) -> Iterator[DuckDBPyConnection]:
        """A connection, closed at the end; errors about the file become StoreError."""
        import duckdb

        try:
            with disk.private(self.mode), self._open(folders, read_only=read_only) as con:
                yield con
        except (duckdb.Error, OSError) as error:
            if failure := _of_the_file(self.path, error):
                raise failure from error
            raise

    @contextmanager
    def _open(self, folders: tuple[Path, ...], *, read_only: bool) -> Iterator[DuckDBPyConnection]:
        """A connection that sees these folders, once the store is not locked."""
        import duckdb

        _refuse_shared(self.path)
        is_new = not self.exists
        place = (os.getpid(), self.path.resolve())
        deadline = time.monotonic() + self.wait_seconds
        seen = folders + (pricing_dir(),) * self.sees_catalog
        while True:
            holder = None
            with _opening:
                # in one process, all connections to a file see the folders of the first
                shared = _open_here.get(place)
                if shared and not set(seen) <= set(shared[0]):
                    holder = _this_process()
                else:
                    try:
                        con = self._connect(folders if shared is None else None, read_only=read_only)
                        _open_here[place] = (shared[0], shared[1] + 1) if shared else (seen, 1)
                        break
                    except duckdb.Error as error:
                        is_lock = isinstance(error, duckdb.IOException | duckdb.ConnectionException)
                        holder = lock_holder(error) if is_lock else None
                        if holder is None:
                            failure = _unopened(self.path, error)
                            # remove an incomplete new file without data, which would be refused from now on
                            if is_new and self.path.is_file() and self.path.stat().st_size <= _HEADER_BYTES:
                                self.path.unlink()
                            raise failure from error
            if time.monotonic() >= deadline:
                raise StoreError(
                    f"the store {self.path} is in use by {holder} (waited {self.wait_seconds:g} s)",
                    "wait until that program is done, or end it",
                )
            time.sleep(_POLL_SECONDS)
        try:
            yield con
        finally:
            with _opening:
                con.close()
                seen, count = _open_here.pop(place)
                if count > 1:
                    _open_here[place] = (seen, count - 1)

    def _connect(self, folders: tuple[Path, ...] | None, *, read_only: bool) -> DuckDBPyConnection:
        """A connection, confined to the folders unless this process has another one open."""
        import duckdb

        before = self.exists and self.path.stat().st_ino
        con = duckdb.connect(str(self.path), read_only=read_only, config=STORED)
        try:
            if before not in (False, self.path.stat().st_ino):
                # we waited for the lock, but `store compact` has replaced the file meanwhile
                raise duckdb.IOException("Could not set lock on file: held until another took its place")
            if folders is not None:  # before anything else: objects in the store may have any name
                confine(con, *folders, sees_catalog=self.sees_catalog)
            con.execute("SET TimeZone = 'UTC'")
            # An ASOF join with a small estimated left side would become a nested loop, hundreds of times
            # slower.
            with suppress(duckdb.CatalogException):  # a DuckDB without the setting
                con.execute("SET asof_loop_join_threshold = 0")
            if not schema.is_trusted(self.path):
                check_length(con, self.path)
        except BaseException:
            con.close()
            raise
        if not read_only:  # spilled by a killed process: no other connection exists now
            shutil.rmtree(self.path.with_name(f"{self.path.name}.tmp"), ignore_errors=True)
        return con


def check_room(store: Path, folder: Path, failed: str) -> None:
    """Raise StoreError, beginning with `failed`, if a folder has no room for a copy of the store."""
    size, free = store.stat().st_size, shutil.disk_usage(folder).free
    if free < size:
        raise StoreError(
            f"{failed}: it has {size:,} bytes, and {folder} has room for {free:,}", "free space there"
        )


# In a separate process: closing the file once more here would release the store's lock.
_COPY = "import shutil, sys; shutil.copyfile(*sys.argv[1:]); shutil.copymode(*sys.argv[1:])"


def _copy(store: Path, target: Path) -> None:
    """Copy the file of an open store. Raises StoreError if that fails, without leaving a part."""
    failed = f"cannot copy the store {store} before its upgrade"
    check_room(store, target.parent, failed)
    part = target.with_name(f"{target.name}.part")
    copied = subprocess.run([sys.executable, "-I", "-c", _COPY, store, part], capture_output=True, text=True)  # noqa: S603
    if copied.returncode:
        part.unlink(missing_ok=True)
        reason = (copied.stderr.strip().splitlines() or ["unknown reason"])[-1]
        raise StoreError(f"{failed}: {reason}", f"make {target.parent} writable")
    disk.move_into_place(part, target)


def confine(con: DuckDBPyConnection, *folders: Path, sees_catalog: bool = True) -> None:
    """Confine a connection to files in `folders` and the data shipped with gpucost.

    It spills to the first folder. The limit is permanent: no statement or view in a store can undo it. The
    connection's own database stays open. Connections of this process to one store at the same time see the
    same files. Run this before any query: the store's own macros could interfere.
    """
    if folders:
        con.execute("SET temp_directory = $1", [str(folders[0] / "spill")])
    # DuckDB also looks a path up as the pattern that matches only this path
    readable = (pricing_dir(),) * sees_catalog + folders
    allowed = [
        spelled for folder in readable for spelled in dict.fromkeys((str(folder), glob.escape(str(folder))))
    ]
    con.execute("SET allowed_directories = $1", [allowed])
    con.execute("SET enable_external_access = false")


def _refuse_shared(path: Path) -> None:
    """Raise StoreError for a store that everyone may write to: its content is not trustworthy."""
    with suppress(OSError):
        if path.stat().st_mode & stat.S_IWOTH and path.is_file():
            raise StoreError(f"anyone may write to the store {path}", f"chmod o-w {shlex.quote(str(path))}")


def _check_statement(con: DuckDBPyConnection, sql: str) -> None:
    """Raise UsageError unless there is one statement, StoreError if it does more than read."""
    statements = con.extract_statements(sql)
    if not statements:
        raise UsageError("no statement", _TABLES)
    if len(statements) > 1:
        raise UsageError(
            f"{len(statements)} statements: only one at a time is allowed", "run each separately, or use WITH"
        )
    # with ANALYZE or options, the rest of an EXPLAIN is not a SELECT
    select = re.sub(r"^EXPLAIN\b", "", statements[0].query, flags=re.IGNORECASE)
    parsed = value(con, "SELECT json_serialize_sql($1)", [select])
    if parsed.startswith('{"error":true') or _NOT_READING.search(parsed):
        raise StoreError("the store is read-only here: the statement is not a plain SELECT", _STATEMENTS)


_HELD_BY = re.compile(r"lock is held in (?P<program>.+?) \(PID (?P<pid>\d+)\)")
_SAME_PROCESS = "different configuration than existing connections"
_NO_LOCKS = "Could not set lock on file(?!.*held)"
_OTHER_FILE = "name another file with --store"
_RESTORE = "restore a copy, or name another file with --store and collect again"
# DuckDB's error texts about a store's file, their meanings and fixes; the first match applies.
_FAILURES = (
    (
        "(?i)permission denied|read-only file system|operation not permitted",
        "cannot write the store {path}: permission denied",
        f"make the directory {{path.parent}} and its files writable, or {_OTHER_FILE}",
    ),
    (
        "(?i)no space left|disk quota exceeded",
        "cannot write the store {path}: no space left",
        f"free some space, or {_OTHER_FILE}",
    ),
    ("Failed to commit:", "cannot write the store {path}: {text}", f"check the disk, or {_OTHER_FILE}"),
    (
        "(?i)version number \\d+, but we can only read|newer version of DuckDB",
        "the store {path} was written by a newer DuckDB",
        "read it with the gpucost that wrote it, or with a newer one",
    ),
    (
        _NO_LOCKS,
        "the file system of the store {path} has no locks: two writers would corrupt it",
        _OTHER_FILE,
    ),
)

# A database has "DUCK" at byte 8; the rest of its beginning differs by version.
_MAGIC_AT, _MAGIC = 8, b"DUCK"
_HEADER_BYTES = 3 * 4096


def lock_holder(error: Exception) -> str | None:
    """The holder of the lock in DuckDB's error; None for other errors."""
    message = str(error)
    if match := _HELD_BY.search(message):
        return f"{match['program']} (PID {match['pid']})"
    if "Could not set lock on file" in message and not re.search(_NO_LOCKS, message):
        return "another program"
    return _this_process() if _SAME_PROCESS in message else None


def _this_process() -> str:
    return f"this process (PID {os.getpid()})"


def _of_the_file(path: Path, error: duckdb.Error | OSError) -> StoreError | None:
    """The error for the store's file; None if it concerns the statement or another file."""
    import duckdb

    if isinstance(error, OSError):
        if error.filename not in (str(path), str(path.parent)):
            return None
        return StoreError(f"cannot reach the store {path}: {error.strerror}", _OTHER_FILE)
    # Errors of statements have other types.
    of_files = (
        duckdb.IOException,
        duckdb.SerializationException,
        duckdb.FatalException,
        duckdb.InternalException,
    )
    text = _first_line(error)
    for words, meaning, fix in _FAILURES:
        if re.search(words, text) and not isinstance(error, duckdb.PermissionException):
            return StoreError(meaning.format(path=path, text=text), fix.format(path=path))
    # DuckDB reports a wrong checksum as a plain Error
    if isinstance(error, of_files) or text.startswith("Corrupt database file"):
        return _damaged(path, text)
    return None


def _unopened(path: Path, error: duckdb.Error) -> StoreError:
    """The reason why a file cannot be opened as a store."""
    message = f"{path} cannot be opened as a store:"
    if path.is_dir():
        return StoreError(f"the store {path} is a directory, not a file", "name a file with --store")
    if not path.parent.is_dir():
        return StoreError(f"cannot create the store {path}: directory not found: {path.parent}", _OTHER_FILE)
    if path.exists() and not os.access(path, os.R_OK):
        return StoreError(
            f"cannot read the store {path}: permission denied", f"make it readable, or {_OTHER_FILE}"
        )
    if path.exists() and not _is_database(path):
        return StoreError(f"{message} it is not a DuckDB database", _RESTORE)
    return _of_the_file(path, error) or StoreError(f"{message} {_first_line(error)}", _RESTORE)


def _damaged(path: Path, how: str) -> StoreError:
    return StoreError(f"the store {path} is damaged: {how}", _RESTORE)


def check_length(con: DuckDBPyConnection, path: Path) -> None:
    """Raise StoreError for a truncated file, before anything is written to it.

    DuckDB can free space at the end without updating the file's header. So only a file shorter than its
    header states is checked for blocks in use beyond its end.
    """
    # qualified functions: these cannot be the store's own
    sizes = con.execute("SELECT block_size, total_blocks FROM system.main.pragma_database_size()")
    ((block, blocks),) = sizes.fetchall()
    size = path.stat().st_size
    if size >= _HEADER_BYTES + block * blocks:
        return
    tables = "SELECT table_name FROM system.main.duckdb_tables() WHERE NOT internal AND NOT temporary"
    for table in column(con, tables):
        last = value(
            con,
            "SELECT system.main.max(system.main.greatest(block_id, coalesce(system.main.list_max(additional_block_ids), -1))) "
            "FROM system.main.pragma_storage_info($1)",
            [table],
        )
        if last is not None and _HEADER_BYTES + block * (last + 1) > size:
            raise _damaged(path, f"it ends after {size:,} bytes, in the middle of the table {table}")


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] == _MAGIC


_scratch_numbers = count()


@cache
def _template() -> DuckDBPyConnection:
    """An empty store in memory: scratch stores copy its schema, so migrations run once per process."""
    import duckdb

    con = duckdb.connect(":memory:")
    confine(con)
    schema.migrate(con)
    return con


@contextmanager
def scratch_store() -> Iterator[DuckDBPyConnection]:
    """A connection to an empty store in memory, inside a transaction."""
    import duckdb

    name = f"scratch_{next(_scratch_numbers)}"
    con = _template().cursor()
    try:
        con.execute(f"ATTACH ':memory:' AS {name}; COPY FROM DATABASE memory TO {name} (SCHEMA); USE {name}")
        # previous users may have changed settings of this in-memory database
        con.execute("SET TimeZone = 'UTC'; RESET preserve_insertion_order; RESET memory_limit")
        con.execute("BEGIN")
        yield con
    finally:
        with suppress(duckdb.Error):  # a failed statement has ended it
            con.execute("ROLLBACK")
        con.execute(f"USE memory; DETACH DATABASE IF EXISTS {name}")
        con.close()
