"""What the modules of the store share: its static .sql files, and columns that DuckDB reads in their place."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gpucost import engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import duckdb
    from numpy.typing import NDArray


def run(
    con: duckdb.DuckDBPyConnection, name: str, params: Mapping[str, object] | None = None
) -> duckdb.DuckDBPyConnection:
    """Runs `store/sql/<name>.sql` as engine.run_stage does."""
    return engine.run_stage(con, "gpucost.store", f"sql/{name}", params)


def value(con: duckdb.DuckDBPyConnection, sql: str, params: object = None) -> Any:
    """The one value that a statement answers."""
    return con.execute(sql, params).fetchall()[0][0]


def column(con: duckdb.DuckDBPyConnection, sql: str, params: object = None) -> list[Any]:
    """The first value of each row that a statement answers."""
    return [row[0] for row in con.execute(sql, params).fetchall()]


@contextmanager
def frames(con: duckdb.DuckDBPyConnection, **columns: Mapping[str, NDArray[Any]]) -> Iterator[None]:
    """Makes dicts of NumPy arrays readable as tables of these names while the block lasts."""
    import duckdb

    for name, frame in columns.items():
        con.register(name, frame)
    try:
        yield
    finally:
        for name in columns:
            # A statement that failed has ended the transaction, and with it the names; its own error is the one to show.
            with suppress(duckdb.Error):
                con.unregister(name)


def objects(items: Sequence[object]) -> NDArray[Any]:
    """A column of texts or lists, for `frames`."""
    import numpy as np

    made = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        made[position] = item
    return made
