"""Helpers of the store's modules: static .sql files, and Python columns as DuckDB tables."""

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
    """Run `store/sql/<name>.sql` with engine.run_stage."""
    return engine.run_stage(con, "gpucost.store", f"sql/{name}", params)


def value(con: DuckDBPyConnection, sql: str, params: object = None) -> Any:
    """The single value that a statement returns."""
    return con.execute(sql, params).fetchall()[0][0]


def column(con: DuckDBPyConnection, sql: str, params: object = None) -> list[Any]:
    """The first value of each row that a statement returns."""
    return [row[0] for row in con.execute(sql, params).fetchall()]


@contextmanager
def frames(con: DuckDBPyConnection, **tables: Mapping[str, Any]) -> Iterator[None]:
    """Make columns readable as tables of these names in this block."""
    import duckdb

    for name, columns in tables.items():
        con.register(name, {title: _array(values) for title, values in columns.items()})
    try:
        yield
    finally:
        for name in tables:
            # A failed statement has ended the transaction, and with it the names; its own error is the
            # important one.
            with suppress(duckdb.Error):
                con.unregister(name)


def columns_of(kind: type[NamedTuple], rows: Sequence[NamedTuple]) -> dict[str, list[Any]]:
    """Rows of a kind as columns by name; prices as text, which keeps all digits."""
    columns = {name: list(map(attrgetter(name), rows)) for name in kind._fields}
    if "price_per_hour" in columns:
        columns["price_per_hour"] = [f"{price:f}" for price in columns["price_per_hour"]]
    return columns


def _array(values: Sequence[Any] | NDArray[Any]) -> NDArray[Any]:
    """A column that DuckDB reads without guessing types.

    Numbers may include None; texts and lists become objects.
    """
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
