"""Numbered migrations: each file of `migrations/` is applied once, in order."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gpucost.errors import StoreError
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb


@cache
def _migrations() -> tuple[tuple[int, str, str], ...]:
    found = [f for f in (files("gpucost.store") / "migrations").iterdir() if f.name.endswith(".sql")]
    return tuple(sorted((int(f.name.split("_", 1)[0]), f.name.removesuffix(".sql"), f.read_text("utf-8")) for f in found))


def latest_version() -> int:
    """The schema version that this program writes."""
    return _migrations()[-1][0]


def current_version(con: duckdb.DuckDBPyConnection) -> int:
    """The schema version of an open store; 0 where it holds no tables of ours yet."""
    import duckdb

    try:
        return int(con.execute("SELECT coalesce(max(version), 0) FROM schema_version").fetchall()[0][0])
    except duckdb.CatalogException:
        return 0


def check(con: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """True where the store has the schema of this program, False where it is older.

    Raises StoreError for a store written by a newer gpucost, and for a DuckDB file that is not a store.
    """
    version = current_version(con)
    if version > latest_version():
        raise StoreError(
            f"{path} was written by a newer gpucost (schema {version}; this one knows {latest_version()})",
            fix="pip install --upgrade gpucost",
        )
    if version == 0 and con.execute("SELECT 1 FROM duckdb_tables() WHERE NOT internal AND NOT temporary").fetchall():
        raise StoreError(
            f"{path} is a DuckDB file, but not a gpucost store", fix="name another file with --store or store = … in gpucost.toml"
        )
    return version == latest_version()


def migrate(con: duckdb.DuckDBPyConnection) -> None:
    """Brings the schema up to date in one transaction: all of it or nothing."""
    import duckdb

    version = current_version(con)
    con.execute("BEGIN")
    try:
        sqlfiles.run(con, "schema_version")
        for number, name, statements in _migrations():
            if number > version:
                con.execute(statements)
                con.execute("INSERT INTO schema_version VALUES ($1, $2, now()::TIMESTAMP)", [number, name])
        con.execute("COMMIT")
    except BaseException:
        with suppress(duckdb.Error):  # a commit that failed has ended the transaction; its own error says why
            con.execute("ROLLBACK")
        raise
