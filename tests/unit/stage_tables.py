"""Tables of a few rows, over which a test runs one SQL stage alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpucost.engine import dicts, run_stage

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True)
class Tables:
    """What a stage reads and writes; it is gone after the test."""

    con: duckdb.DuckDBPyConnection

    def add(self, columns: str, *rows: str) -> None:
        """Rows ("1, 'a'") of a table that stores keep ("nodes: node_id, node"), or that is made; other columns are null."""
        name, _, columns = columns.partition(": ")
        if not self.rows(f"FROM duckdb_tables() WHERE temporary AND table_name = '{name}'"):
            self.con.execute(f"CREATE TEMP TABLE {name} AS FROM main.{name} LIMIT 0")
        self._insert(f"{name} ({columns})", rows)

    def make(self, columns: str, *rows: str) -> None:
        """A table that another stage makes ("unit_cells: cluster VARCHAR, cost DECIMAL(38, 9)"), and its rows."""
        name, _, columns = columns.partition(": ")
        self.con.execute(f"CREATE TEMP TABLE {name} ({columns})")
        self._insert(name, rows)

    def hours(self, columns: str, *rows: str) -> None:
        """What `hourly_costs` answers, whatever it is asked for."""
        self.make(f"hourly_rows: {columns}", *rows)
        self.con.execute("CREATE TEMP MACRO hourly_costs(first, until) AS TABLE FROM hourly_rows")

    def _insert(self, table: str, rows: tuple[str, ...]) -> None:
        if rows:
            values = ", ".join(f"({row})" for row in rows)
            self.con.execute(f"INSERT INTO {table} VALUES {values}")  # noqa: S608

    def know(self, **variables: int | str | bool) -> None:
        """Variables of the connection."""
        for name, value in variables.items():
            self.con.execute(f"SET VARIABLE {name} = ?", [value])

    def run(self, stage: str, **params: object) -> list[tuple[Any, ...]]:
        """Runs a stage ("questions/units/60_serving", say); what it answers, if it answers anything."""
        return self._run(stage, params).fetchall()

    def answers(self, stage: str, **params: object) -> list[dict[str, Any]]:
        """What a stage answers, a dict per row."""
        return dicts(self._run(stage, params))

    def _run(self, stage: str, params: dict[str, object]) -> duckdb.DuckDBPyConnection:
        package, _, name = stage.rpartition("/")
        return run_stage(self.con, "gpucost." + package.replace("/", "."), name, params)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a query answers."""
        return self.con.execute(sql).fetchall()
