"""Where the SQL stages run."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from duckdb import DuckDBPyConnection


@cache
def text(package: str, name: str) -> str:
    """The static SQL of `name`.sql in `package`."""
    return files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")


def run_stage(con: DuckDBPyConnection, package: str, name: str, params: Mapping[str, Any] | None = None) -> DuckDBPyConnection:
    """Run the static SQL of `name`.sql in `package`, its $parameters bound to `params`; the connection, to fetch from."""
    return con.execute(text(package, name), dict(params) if params else None)


def run_stages(con: DuckDBPyConnection, package: str, skip: Collection[str] = (), until: str | None = None) -> None:
    """Run the .sql files of `package` in the order of their names, but those called as in `skip`, as far as `until`."""
    for name in sorted(item.name.removesuffix(".sql") for item in files(package).iterdir() if item.name.endswith(".sql")):
        if name in skip:
            continue
        run_stage(con, package, name)
        if name == until:
            return


def answer_rows(
    con: DuckDBPyConnection, package: str, name: str, params: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """What the static SQL of `name`.sql in `package` answers, a dict per row."""
    return dicts(run_stage(con, package, name, params))


def dicts(con: DuckDBPyConnection) -> list[dict[str, Any]]:
    """What the last statement answers, a dict per row."""
    columns = [column[0] for column in con.description or []]
    return [dict(zip(columns, values, strict=True)) for values in con.fetchall()]
