"""Small tables, and a test that runs one SQL stage over them."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from gpucost.engine import dicts, run_stage
from tests.text_tables import columns, text_rows, titled

if TYPE_CHECKING:
    import duckdb

HOUR = 3_600_000


@dataclass(frozen=True)
class Tables:
    """The tables that a stage reads and writes; dropped after the test."""

    con: duckdb.DuckDBPyConnection

    def add(self, columns: str, *rows: str) -> None:
        """Add rows ("1, 'a'") to a store table ("nodes: node_id, node") or a made one; other columns are
        null."""
        name, _, columns = columns.partition(": ")
        if not self.rows(f"FROM duckdb_tables() WHERE temporary AND table_name = '{name}'"):
            self.con.execute(f"CREATE TEMP TABLE {name} AS FROM main.{name} LIMIT 0")
        self._insert(f"{name} ({columns})", rows)

    def make(self, columns: str, *rows: str) -> None:
        """Make a table of another stage ("unit_cells: cluster VARCHAR, cost DECIMAL(38, 9)") with its
        rows."""
        name, _, columns = columns.partition(": ")
        self.con.execute(f"CREATE TEMP TABLE {name} ({columns})")
        self._insert(name, rows)

    def fill(self, text: str) -> None:
        """Fill tables separated by empty lines: each a head for add(), make() (with types) or hours(),
        then rows.

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
        """The answer of `hourly_costs`, for any arguments."""
        self.make(f"hourly_rows: {columns}", *rows)
        self.con.execute("CREATE TEMP MACRO hourly_costs(first, until) AS TABLE FROM hourly_rows")

    def _insert(self, table: str, rows: tuple[str, ...]) -> None:
        if rows:
            values = ", ".join(f"({row})" for row in rows)
            self.con.execute(f"INSERT INTO {table} VALUES {values}")  # noqa: S608

    def know(self, **variables: int | str | bool) -> None:
        """Set variables of the connection."""
        for name, value in variables.items():
            self.con.execute(f"SET VARIABLE {name} = ?", [value])

    def run(self, stage: str, **params: object) -> list[tuple[Any, ...]]:
        """Run a stage (such as "questions/units/60_serving"); return its answer, if any."""
        return self._run(stage, params).fetchall()

    def answers(self, stage: str, **params: object) -> list[dict[str, Any]]:
        """The answer of a stage, a dict per row."""
        return dicts(self._run(stage, params))

    def _run(self, stage: str, params: dict[str, object]) -> duckdb.DuckDBPyConnection:
        package, _, name = stage.rpartition("/")
        return run_stage(self.con, "gpucost." + package.replace("/", "."), name, params)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The answer of a query."""
        return self.con.execute(sql).fetchall()

    def texts(self, sql: str) -> list[tuple[str, ...]]:
        """The same as text, in the form of text_rows()."""
        return [tuple(map(_text, row)) for row in self.rows(sql)]


def rule_test(text: str) -> Callable[[str, pytest.FixtureRequest], None]:
    """A test of each rule: the result of one stage for a few rows.

    Below its title, a rule names the stage, then line by line its inputs: `params`; variables (`known`);
    stages to run first (`after`); `sql` to run before any table is made; the `fixture` of its tables. The
    tables follow. After `->` come blocks of a head and rows: the head is a query of the written tables, or
    columns of the stage's answer.
    """
    rules = titled(text)

    @pytest.mark.parametrize("name", rules)
    def test_rule(name: str, request: pytest.FixtureRequest) -> None:
        setup, _, found = rules[name].partition("\n->\n")
        head, _, rows = setup.partition("\n\n")
        stage, *more = head.splitlines()
        given = {"fixture": "tables", "known": "{}", "sql": "", "after": "", "params": "{}"}
        given |= columns("\n".join(more))
        tables: Tables = request.getfixturevalue(given["fixture"])
        tables.know(**literal_eval(given["known"]))
        tables.con.execute(given["sql"])
        tables.fill(rows)
        for earlier in given["after"].split():
            tables.run(earlier)
        run = tables._run(stage, literal_eval(given["params"]))
        # results of a stage that writes are read by queries; results of a stage that answers, by column names
        answer = [] if "FROM" in found else dicts(run)
        for heading, expected in _blocks(found):
            lines = (
                [[row[name] for name in heading.split()] for row in answer]
                if answer
                else tables.rows(heading)
            )
            assert [tuple(map(_text, line)) for line in lines] == text_rows("\n".join(expected))

    return test_rule


def _blocks(text: str) -> Iterator[tuple[str, list[str]]]:
    """The first line and the other lines of each block; empty lines separate blocks."""
    for block in filter(str.strip, re.split(r"\n\s*\n", text)):
        head, *rows = [" ".join(line.split()) for line in block.strip().splitlines()]
        yield head, rows


def _text(value: object) -> str:
    """A value as tables write it: 2.0 and 2.000000000 are 2, null is "-"."""
    if isinstance(value, float | Decimal):
        exact = Decimal(str(value)).normalize()
        return f"{exact:f}"
    return "-" if value is None else str(value)
