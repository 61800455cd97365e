"""Where the SQL stages run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


def run_stage(con: DuckDBPyConnection, package: str, name: str, params: Mapping[str, Any] | None = None) -> None:
    """Run the static SQL of `name`.sql in `package`, its $parameters bound to `params`."""
    con.execute(files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8"), dict(params) if params else None)


def run_stages(con: DuckDBPyConnection, package: str, skip: Collection[str] = (), until: str | None = None) -> None:
    """Run the .sql files of `package` in the order of their names, but those called as in `skip`, as far as `until`."""
    for name in sorted(item.name for item in files(package).iterdir() if item.name.endswith(".sql")):
        if name.removesuffix(".sql") in skip:
            continue
        con.execute(files(package).joinpath(name).read_text(encoding="utf-8"))
        if name.removesuffix(".sql") == until:
            return


def answer_rows(
    con: DuckDBPyConnection, package: str, name: str, params: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """What the static SQL of `name`.sql in `package` answers, a dict per row."""
    run_stage(con, package, name, params)
    return dicts(con)


def dicts(con: DuckDBPyConnection) -> list[dict[str, Any]]:
    """What the last statement answers, a dict per row."""
    columns = [column[0] for column in con.description or []]
    return [dict(zip(columns, values, strict=True)) for values in con.fetchall()]
