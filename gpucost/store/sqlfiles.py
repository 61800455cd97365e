"""What the modules of the store share: its static .sql files, and columns that DuckDB reads in their place."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from gpucost import engine

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray


def run(con: DuckDBPyConnection, name: str, params: Mapping[str, object] | None = None) -> DuckDBPyConnection:
    """Runs `store/sql/<name>.sql` as engine.run_stage does."""
    return engine.run_stage(con, "gpucost.store", f"sql/{name}", params)


def value(con: DuckDBPyConnection, sql: str, params: object = None) -> Any:
    """The one value that a statement answers."""
    return con.execute(sql, params).fetchall()[0][0]


def column(con: DuckDBPyConnection, sql: str, params: object = None) -> list[Any]:
    """The first value of each row that a statement answers."""
    return [row[0] for row in con.execute(sql, params).fetchall()]


@contextmanager
def frames(con: DuckDBPyConnection, **tables: Mapping[str, Any]) -> Iterator[None]:
    """Make columns readable as tables of these names while the block lasts."""
    import duckdb

    for name, columns in tables.items():
        con.register(name, {title: _array(values) for title, values in columns.items()})
    try:
        yield
    finally:
        for name in tables:
            # A statement that failed has ended the transaction, and with it the names; its own error is the one to show.
            with suppress(duckdb.Error):
                con.unregister(name)


def columns_of(kind: type[NamedTuple], rows: Sequence[NamedTuple]) -> dict[str, list[Any]]:
    """Rows of a kind as columns by name; prices as text, which keeps every digit."""
    columns = {name: list(map(attrgetter(name), rows)) for name in kind._fields}
    if "price_per_hour" in columns:
        columns["price_per_hour"] = [f"{price:f}" for price in columns["price_per_hour"]]
    return columns


def _array(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """A column as DuckDB reads it without guessing at its numbers, some of which may be None; texts and lists as objects."""
    import numpy as np

    if isinstance(values, np.ndarray):
        return values
    if isinstance(next((value for value in values if value is not None), None), int | float):
        is_missing = [value is None for value in values]
        return np.ma.array([value or 0 for value in values], mask=is_missing)
    made = np.empty(len(values), dtype=object)
    for position, value in enumerate(values):
        made[position] = value
    return made
