"""Opens the store: one process writes at a time, others wait for their turn."""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.errors import StoreError
from gpucost.store import info, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

# DuckDB 2 writes files that no 1.x can read unless told otherwise. v1.4.0 is the oldest format (a long-term-support one)
# with the string compression that labels profit from; samples take the same space in every format since v1.0.0.
STORAGE_VERSION = "v1.4.0"

_POLL_SECONDS = 0.05
_HELD_BY = re.compile(r"lock is held in (?P<program>.+?) \(PID (?P<pid>\d+)\)")
_SAME_PROCESS = "different configuration than existing connections"
_NEWER_FILE = re.compile(r"version number \d+, but we can only read|newer version of DuckDB", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Store:
    """A store file. Opening is per use: the file's lock is held inside a `with` block and no longer.

    `wait_seconds` is how long `read` and `write` wait for somebody else's lock before they give up with a StoreError.
    """

    path: Path
    wait_seconds: float = 10.0

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def read(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A read-only connection. Raises StoreError where there is no store, or it cannot be read."""
        if not self.exists:
            raise StoreError(f"there is no store at {self.path}", fix="gpucost collect prometheus")
        con = self._open(read_only=True)
        try:
            if not migrate.check(con, self.path):
                con.close()
                with self.write():
                    pass
                con = self._open(read_only=True)
            yield con
        finally:
            con.close()

    @contextmanager
    def write(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection inside a transaction: committed where the block ends, rolled back where it raises.

        Creates the file where there is none, and brings its schema up to date. Closing moves the write-ahead log into
        the file; a process killed before that leaves the log beside it, and the next opening replays what was committed.
        """
        import duckdb

        con = self._open(read_only=False)
        try:
            if not migrate.check(con, self.path):
                migrate.migrate(con)
            con.execute("BEGIN")
            try:
                yield con
            except BaseException:
                self._rollback(con)
                raise
            try:
                con.execute("COMMIT")
            except duckdb.Error as error:
                raise StoreError(f"cannot write to the store {self.path}: {_first_line(error)}") from error
        finally:
            con.close()

    def query(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Column names and rows that a read-only SQL statement answers. Raises StoreError with DuckDB's message."""
        import duckdb

        with self.read() as con:
            try:
                # What a report reader runs must reach neither other files nor the network.
                con.execute("SET enable_external_access = false")
                con.execute("SET lock_configuration = true")
                answer = con.execute(sql)
                columns = [str(column[0]) for column in answer.description or []]
                return columns, answer.fetchall() if columns else []
            except duckdb.Error as error:
                raise StoreError(str(error).strip(), fix="gpucost sql 'SHOW TABLES' lists what there is") from error

    def info(self) -> info.StoreInfo:
        """What the store holds, by source, period and size."""
        with self.read() as con:
            return info.read(con, self.path)

    @staticmethod
    def _rollback(con: duckdb.DuckDBPyConnection) -> None:
        import duckdb

        try:
            con.execute("ROLLBACK")
        except duckdb.Error:
            # The failed statement already ended the transaction; the block's own error says why.
            return

    def _open(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        import duckdb

        deadline = time.monotonic() + self.wait_seconds
        while True:
            try:
                return self._connect(read_only=read_only)
            except (duckdb.IOException, duckdb.ConnectionException) as error:
                holder = _holder(str(error))
                if holder is None:
                    raise self._unusable(error) from error
                if time.monotonic() >= deadline:
                    raise StoreError(
                        f"the store {self.path} is in use by {holder} (waited {self.wait_seconds:g} s)",
                        fix="wait until that program is done, or end it",
                    ) from error
                time.sleep(_POLL_SECONDS)
            except duckdb.Error as error:
                raise self._unusable(error) from error

    def _connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        import duckdb

        config: dict[str, str | bool | int | float | list[str]] = {
            "storage_compatibility_version": STORAGE_VERSION,
            # Nothing is fetched from the network: all that the SQL here needs is inside DuckDB.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        con = duckdb.connect(str(self.path), read_only=read_only, config=config)
        try:
            con.execute("SET TimeZone = 'UTC'")
            # An ASOF join whose left side is estimated small would become a nested loop, hundreds of times slower.
            if con.execute("SELECT 1 FROM duckdb_settings() WHERE name = 'asof_loop_join_threshold'").fetchall():
                con.execute("SET asof_loop_join_threshold = 0")
        except BaseException:
            con.close()
            raise
        return con

    def _unusable(self, error: Exception) -> StoreError:
        text = _first_line(error)
        if self.path.is_dir():
            return StoreError(f"the store {self.path} is a directory, not a file", fix="name a file with --store")
        if not self.path.parent.is_dir():
            return StoreError(f"cannot make the store {self.path}: there is no directory {self.path.parent}")
        if _NEWER_FILE.search(text):
            return StoreError(f"the store {self.path} was written by a newer DuckDB", fix="pip install --upgrade duckdb")
        if self.path.exists() and not os.access(self.path, os.R_OK):
            return StoreError(f"cannot read the store {self.path}: permission denied")
        if "permission denied" in text.lower() or "read-only file system" in text.lower():
            return StoreError(f"cannot write the store {self.path}: permission denied")
        return StoreError(
            f"{self.path} cannot be opened as a store: {text}",
            fix="restore a copy, or name another file with --store and collect again",
        )


def _holder(message: str) -> str | None:
    """Who holds the lock that DuckDB's message is about; None where the message is about something else."""
    if match := _HELD_BY.search(message):
        return f"{match['program']} (PID {match['pid']})"
    if "Could not set lock on file" in message:
        return "another program"
    return f"this process (PID {os.getpid()})" if _SAME_PROCESS in message else None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
