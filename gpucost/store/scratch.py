"""A store in memory: the same schema, gone when its block ends."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpucost.store import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb


@contextmanager
def scratch_store() -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to an empty store in memory, inside a transaction."""
    import duckdb

    con = duckdb.connect(":memory:")
    try:
        con.execute("SET TimeZone = 'UTC'")
        migrate.migrate(con)
        con.execute("BEGIN")
        yield con
    finally:
        con.close()
