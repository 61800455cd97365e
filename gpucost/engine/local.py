"""Stages run in DuckDB, on the store's own connection."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def run_stage(con: DuckDBPyConnection, package: str, name: str, params: Mapping[str, Any] | None = None) -> None:
    """Run the static SQL of `name`.sql in `package`, its $parameters bound to `params`."""
    con.execute(files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8"), dict(params) if params else None)


def run_stages(con: DuckDBPyConnection, package: str) -> None:
    """Run every .sql file of `package` in the order of their names."""
    for name in sorted(item.name for item in files(package).iterdir() if item.name.endswith(".sql")):
        con.execute(files(package).joinpath(name).read_text(encoding="utf-8"))
