"""Execution of SQL stages."""

from __future__ import annotations

import re
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from duckdb import DuckDBPyConnection, Statement


@dataclass(slots=True)
class StageCost:
    """Cost of all runs of a stage: seconds, CPU seconds of all threads, and rows written.

    `rows` is None for a stage that does not write.
    """

    runs: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    rows: int | None = None


_costs: dict[str, StageCost] | None = None
_watcher: Callable[[str], None] | None = None
# Descriptions of a package's stages for waiting users.
_DOING = {
    "inventory": "attributing GPUs to pods",
    "price": "pricing every node",
    "report": "adding up",
    "whatif": "simulating the change",
}


@contextmanager
def watched(watcher: Callable[[str], None]) -> Iterator[None]:
    """Report the current activity to `watcher` in this block."""
    global _watcher
    _watcher = watcher
    try:
        yield
    finally:
        _watcher = None


def announce(doing: str | None) -> None:
    """Report the current activity to the watcher, if there is one; None changes nothing."""
    if _watcher is not None and doing:
        _watcher(doing)


@contextmanager
def profiled() -> Iterator[dict[str, StageCost]]:
    """The cost of each stage in this block, by its file in the package."""
    global _costs
    _costs = {}
    try:
        yield _costs
    finally:
        _costs = None


def _measured(
    con: DuckDBPyConnection,
    statements: str,
    params: dict[str, Any] | None,
    cost: StageCost,
    filled: dict[str, bool],
) -> DuckDBPyConnection:
    began, began_cpu = time.perf_counter(), time.process_time()
    result = _execute(con, statements, params, filled)
    cost.runs += 1
    cost.seconds += time.perf_counter() - began
    cost.cpu_seconds += time.process_time() - began_cpu
    # statements that write return the number of rows
    if [column[0] for column in result.description or []] == ["Count"]:
        cost.rows = (cost.rows or 0) + sum(count for (count,) in result.fetchall())
    return result


@cache
def text(package: str, name: str) -> str:
    """The static SQL of `name`.sql in `package`."""
    return files(package).joinpath(f"{name}.sql").read_text(encoding="utf-8")


# Parsed statements by text. Parsing is a seventh of the time of a stage with few rows, and what-ifs run each
# stage many times.
_parsed: dict[str, list[Statement]] = {}


def parsed(con: DuckDBPyConnection, sql: str) -> list[Statement]:
    """The statements of a static text; each text is parsed once per process."""
    if sql not in _parsed:
        _parsed[sql] = con.extract_statements(sql)
    return list(_parsed[sql])


_HEADER = re.compile(r"(?:--.*\n)*")
# In a header: skip the file unless one of these tables has rows. Above another statement: skip that statement.
_ONLY_WITH = re.compile(r"^-- only with: (.+)$", re.MULTILINE)
# The table that is made empty instead, because later stages read it: its name and columns.
_OTHERWISE = re.compile(r"^-- otherwise: (.+)$", re.MULTILINE)
_WRITTEN = re.compile(r"(?:INSERT INTO|DELETE FROM|CREATE OR REPLACE TEMP (?:TABLE|VIEW)) (\w+)")


def has_input(con: DuckDBPyConnection, comments: str, filled: dict[str, bool]) -> bool:
    """Whether a table named by an `only with` line has rows; true without that line.

    `filled` has earlier answers for tables that have not changed since. Views must not change. If false, makes
    the empty tables of `otherwise` lines.
    """
    needed = _ONLY_WITH.search(comments)
    if not needed:
        return True
    for table in needed[1].split(", "):
        if table not in filled:
            filled[table] = bool(con.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchall())  # noqa: S608
        if filled[table]:
            return True
    for table in _OTHERWISE.findall(comments):
        con.execute(f"CREATE OR REPLACE TEMP TABLE {table}")
    return False


def _execute(
    con: DuckDBPyConnection, sql: str, params: dict[str, Any] | None, filled: dict[str, bool]
) -> DuckDBPyConnection:
    """Like `con.execute`, but parse each text once, and skip statements without input.

    The last statement gets the parameters. `filled` is as for has_input.
    """
    *first, last = parsed(con, sql)
    comments = ""
    for statement in (*first, last):
        if has_input(con, comments, filled):
            con.execute(statement, params if statement is last else None)
            if written := _WRITTEN.match(statement.query):
                filled.pop(written[1], None)
        # DuckDB adds the comments above a statement to the previous one
        comments = statement.query
    return con


def run_stage(
    con: DuckDBPyConnection,
    package: str,
    name: str,
    params: Mapping[str, Any] | None = None,
    filled: dict[str, bool] | None = None,
) -> DuckDBPyConnection:
    """Run the static SQL of `name`.sql in `package` with $parameters from `params`.

    Returns the connection to fetch from. A stage with the header `only with: a, b` is skipped if these tables
    are empty; `filled` is as for has_input.
    """
    statements = text(package, name)
    filled = {} if filled is None else filled
    if not has_input(con, next(_HEADER.finditer(statements))[0], filled):
        return con
    values = dict(params) if params else None
    announce(_DOING.get(package.removeprefix("gpucost.").partition(".")[0]))
    if _costs is None:
        return _execute(con, statements, values, filled)
    path = f"{package.removeprefix('gpucost.').replace('.', '/')}/{name}.sql"
    return _measured(con, statements, values, _costs.setdefault(path, StageCost()), filled)


@cache
def _stages(package: str) -> list[str]:
    return sorted(
        item.name.removesuffix(".sql") for item in files(package).iterdir() if item.name.endswith(".sql")
    )


def run_stages(
    con: DuckDBPyConnection, package: str, skip: Collection[str] = (), after: str = "", until: str = "~"
) -> None:
    """Run the .sql files of `package` by name, after `after`, up to `until`, except `skip`."""
    filled: dict[str, bool] = {}
    for name in _stages(package):
        if after < name <= until and name not in skip:
            run_stage(con, package, name, filled=filled)


def answer_rows(
    con: DuckDBPyConnection, package: str, name: str, params: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """The rows that `name`.sql in `package` returns, as dicts."""
    return dicts(run_stage(con, package, name, params))


def dicts(con: DuckDBPyConnection) -> list[dict[str, Any]]:
    """The rows of the last statement, as dicts."""
    columns = [column[0] for column in con.description or []]
    return [dict(zip(columns, values, strict=True)) for values in con.fetchall()]
