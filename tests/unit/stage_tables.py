"""Tables of a few rows, over which a test runs one SQL stage alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from gpucost.engine import dicts, run_stage
from tests.text_tables import text_rows

if TYPE_CHECKING:
    import duckdb

HOUR = 3_600_000


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

    def fill(self, text: str) -> None:
        """Tables parted by empty lines: a head as of add(), make() if its columns have types, or hours(), and rows.

        2h is two hours in milliseconds.
        """
        text = re.sub(r"\b(\d+)h\b", lambda hours: str(int(hours[1]) * HOUR), text)
        for head, rows in _blocks(text.replace("MONEY", "DECIMAL(38, 9)")):
            name, _, columns = head.partition(": ")
            put = self.make if " " in columns.split(", ")[0] else self.add
            if name == "hours":
                self.hours(columns, *rows)
            else:
                put(head, *rows)

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

    def texts(self, sql: str) -> list[tuple[str, ...]]:
        """The same as text, as text_rows() has it."""
        return [tuple(map(_text, row)) for row in self.rows(sql)]


@dataclass(frozen=True)
class Rule:
    """What one stage makes of a few rows.

    `found` are blocks as those of tables: a query of what the stage wrote, or columns of what it answers, and the rows.
    """

    stage: str
    tables: str
    found: str
    params: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    #: Stages that have to run before, and SQL before any table is made.
    after: str = ""
    sql: str = ""
    fixture: str = "tables"

    def check(self, request: pytest.FixtureRequest) -> None:
        """Runs the stage; the rows that it made are those of each block."""
        tables: Tables = request.getfixturevalue(self.fixture)
        tables.know(**self.known)
        tables.con.execute(self.sql)
        tables.fill(self.tables)
        for stage in self.after.split():
            tables.run(stage)
        run = tables._run(self.stage, self.params)
        # stages that write are asked by queries afterwards; of one that answers its columns are named
        answer = [] if "FROM" in self.found else dicts(run)
        for head, expected in _blocks(self.found):
            rows = [[row[name] for name in head.split()] for row in answer] if answer else tables.rows(head)
            assert [tuple(map(_text, row)) for row in rows] == text_rows("\n".join(expected))


def rule_test(rules: Mapping[str, Rule]) -> Callable[[str, pytest.FixtureRequest], None]:
    """A test of each of these rules."""

    @pytest.mark.parametrize("name", rules)
    def test_rule(name: str, request: pytest.FixtureRequest) -> None:
        rules[name].check(request)

    return test_rule


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The first line of each block that empty lines part, and its others."""
    for block in filter(str.strip, re.split(r"\n\s*\n", text)):
        head, *rows = [" ".join(line.split()) for line in block.strip().splitlines()]
        yield head, rows


def _text(value: object) -> str:
    """A value as tables have it: 2.0 and 2.000000000 are 2, and nothing is "-"."""
    if isinstance(value, float | Decimal):
        exact = Decimal(str(value)).normalize()
        return f"{exact:f}"
    return "-" if value is None else str(value)
