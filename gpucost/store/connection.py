"""Opens the store: one process writes at a time, others wait for their turn."""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpucost.errors import StoreError, UsageError
from gpucost.store import info, migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

# DuckDB 2 writes files that no 1.x can read unless told otherwise. v1.4.0 is the oldest format (a long-term-support one)
# with the string compression that labels profit from; samples take the same space in every format since v1.0.0.
STORAGE_VERSION = "v1.4.0"

_POLL_SECONDS = 0.05
# MULTI is what PIVOT becomes.
_READING = ("SELECT", "EXPLAIN", "PRAGMA", "MULTI")
_TABLES = "gpucost sql 'SHOW TABLES' lists what there is"


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
        import duckdb

        from gpucost.store import failures

        con = self._open(read_only=True)
        try:
            if not migrate.check(con, self.path):
                con.close()
                with self.write():
                    pass
                con = self._open(read_only=True)
            yield con
        except duckdb.Error as error:
            if found := failures.of_the_file(self.path, error):
                raise found from error
            raise
        finally:
            con.close()

    @contextmanager
    def write(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection inside a transaction: committed where the block ends, rolled back where it raises.

        Creates the file where there is none, and brings its schema up to date; where the block raises, a file that it created
        is removed. Closing moves the write-ahead log into
        the file; a process killed before that leaves the log beside it, and the next opening replays what was committed.
        """
        import duckdb

        from gpucost.store import failures

        is_new = not self.exists
        con = self._open(read_only=False)
        try:
            if not migrate.check(con, self.path):
                migrate.migrate(con)
            con.execute("BEGIN")
            try:
                yield con
            except BaseException:
                self._rollback(con)
                if is_new:
                    # While the lock is held: nobody else can have written into it.
                    self.path.unlink(missing_ok=True)
                raise
            try:
                con.execute("COMMIT")
            except duckdb.Error as error:
                raise failures.uncommitted(self.path, error) from error
        except duckdb.Error as error:
            if found := failures.of_the_file(self.path, error):
                raise found from error
            raise
        finally:
            con.close()

    def query(self, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
        """Column names and rows that a read-only SQL statement answers.

        Raises UsageError where it is not one statement; StoreError, with DuckDB's message, where it is refused or fails.
        """
        import duckdb

        from gpucost.store import failures

        with self.read() as con:
            try:
                # What a report reader runs must reach neither other files nor the network.
                con.execute("SET enable_external_access = false")
                con.execute("SET lock_configuration = true")
                _check_statement(con.extract_statements(sql))
                answer = con.execute(sql)
                columns = [str(column[0]) for column in answer.description or []]
                return columns, answer.fetchall() if columns else []
            except duckdb.Error as error:
                raise failures.of_the_file(self.path, error) or StoreError(str(error).strip(), fix=_TABLES) from error

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

        from gpucost.store import failures

        deadline = time.monotonic() + self.wait_seconds
        while True:
            try:
                return self._connect(read_only=read_only)
            except (duckdb.IOException, duckdb.ConnectionException) as error:
                holder = failures.holder(error)
                if holder is None:
                    raise failures.unopened(self.path, error) from error
                if time.monotonic() >= deadline:
                    raise StoreError(
                        f"the store {self.path} is in use by {holder} (waited {self.wait_seconds:g} s)",
                        fix="wait until that program is done, or end it",
                    ) from error
                time.sleep(_POLL_SECONDS)
            except duckdb.Error as error:
                raise failures.unopened(self.path, error) from error

    def _connect(self, *, read_only: bool) -> duckdb.DuckDBPyConnection:
        import duckdb

        from gpucost.store import failures

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
            with suppress(duckdb.CatalogException):  # a DuckDB without the setting
                con.execute("SET asof_loop_join_threshold = 0")
            failures.check_length(con, self.path)
        except BaseException:
            con.close()
            raise
        return con


def _check_statement(statements: list[duckdb.Statement]) -> None:
    """Raises UsageError where there is not one statement, StoreError for one that does more than read."""
    if not statements:
        raise UsageError("no statement", fix=_TABLES)
    if len(statements) > 1:
        raise UsageError(f"{len(statements)} statements: one at a time is answered", fix="run each by itself, or use WITH")
    kind = statements[0].type.name
    if kind not in _READING:
        raise StoreError(f"the store is read-only here: {kind} is refused", fix=f"SELECT, DESCRIBE and EXPLAIN read; {_TABLES}")
