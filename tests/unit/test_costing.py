"""What described fleets cost, and what each workload and team of them does."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from gpucost import inventory
from gpucost.config.model import Config
from gpucost.store import schema
from gpucost.store.connection import scratch_store
from gpucost.whatif.cost import CostBlock, charge, costs_of, evaluate, positions
from gpucost.whatif.fleet import Costs, Fleet, Node, Pod, Price, Scenario
from tests.unit.whatif_costs import answered, stage_cost

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HOUR = 3_600_000


def _node(name: str, price: str) -> Node:
    return Node(name, 8, 0, 10 * HOUR, (Price(Decimal(price), "option"),))


STEPS = Fleet(
    (
        Node(
            "a", 8, 0, 40 * HOUR,
            (Price(Decimal("8.123456789"), "option"), Price(Decimal(3), "spot_history", None, 5 * HOUR + 1)),
            instance_type="p4d.24xlarge",
        ),
        _node("b", "2"),
    ),
    (Pod("a", "Job/a", 6, HOUR + 7, 30 * HOUR, team="x", uid="1"), Pod("a", "Job/b", 4, 0, 9 * HOUR, team="y", uid="2")),
)  # fmt: skip
SHARED = Fleet(
    (_node("a", "8"),),
    (
        Pod("a", "Job/train", 4, 0, 10 * HOUR, team="vision", uid="1"),
        Pod("a", "Job/train", 2, 0, 10 * HOUR, team="nlp", uid="2"),
    ),
)
# Of the same names, at the same time; one without a pod, one without a node.
HELD = Fleet((_node("a", "8"),), (Pod("a", "Job/train", 8, 0, 5 * HOUR, uid="1"),))
TRAIN = ("default", "default", "Job/train")


def test_fleets_cost_what_their_workloads_pay_and_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inventory on an empty store finds nothing: a fleet costs the same after it as after the declaration alone."""
    result = costs_of(Config(), [SHARED, HELD, Fleet((_node("a", "2"),)), Fleet(), STEPS])
    assert [(one.node_cost, one.cost, one.unallocated_cost, one.node_hours) for one in result[:4]] == [
        (80, 60, 20, 10.0), (80, 40, 40, 10.0), (20, 0, 20, 10.0), (0, 0, 0, 0.0)
    ]  # fmt: skip
    assert [one.by_workload for one in result[:4]] == [{TRAIN: 60}, {TRAIN: 40}, {}, {}]
    declare = inventory.declare

    def stage(con: DuckDBPyConnection) -> None:
        monkeypatch.setattr(inventory, "declare", declare)
        inventory.stage(con, Config())

    monkeypatch.setattr(inventory, "declare", stage)
    assert stage_cost(STEPS) == result[-1]


def test_declared_tables_are_filled_and_a_scratch_store_has_the_whole_schema() -> None:
    with scratch_store() as con:
        inventory.declare(con)
        declared = {
            name
            for (name,) in con.execute("SELECT table_name FROM duckdb_tables() WHERE temporary").fetchall()
        }
    stages = [file.read_text("utf-8") for file in Path(inventory.__file__).parent.glob("*.sql")]
    filled = re.findall(r"^INSERT INTO (\w+) BY NAME$", "\n".join(stages), re.MULTILINE)
    assert {name for name in declared if not filled.count(name)} == {"settings"}
    schema_sql = """SELECT name, sql FROM (
            SELECT database_name, table_name AS name, sql FROM duckdb_tables() WHERE NOT temporary
            UNION ALL SELECT database_name, view_name, sql FROM duckdb_views() WHERE NOT internal
            UNION ALL SELECT database_name, function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
        ) WHERE database_name = current_database() ORDER BY ALL"""

    def words(con: duckdb.DuckDBPyConnection) -> list[tuple[str, list[str]]]:
        # sorted, as DuckDB writes what a view replaces (SELECT * REPLACE) in any order
        return [(name, sorted(re.findall(r"\w+", sql))) for name, sql in con.execute(schema_sql).fetchall()]

    with duckdb.connect(":memory:") as migrated:
        schema.migrate(migrated)
        expected = words(migrated)
    with scratch_store() as con:
        assert words(con) == expected
        con.execute("INSERT INTO cuts VALUES (1)")
        con.commit()
        with scratch_store() as other:
            assert other.execute("SELECT count(*) FROM cuts").fetchone() == (0,)


def test_scenarios_run_once_and_what_they_wait_for_is_costed_together() -> None:
    runs: list[int] = []

    def costs(fleets: Sequence[Fleet]) -> list[Costs]:
        runs.append(len(fleets))
        return costs_of(Config(), fleets) if fleets else []

    def cost(*names: str) -> Scenario[list[Decimal]]:
        result = []
        for name in names:
            first, second = yield Fleet((_node(name, "8"),)), Fleet((_node("both", "1"),))
            result.append(first.node_cost + second.node_cost)
        return result

    assert evaluate(costs, [cost("a"), cost("b", "c"), cost()]) == [[90], [90, 90], []]
    assert [count for count in runs if count] == [3, 1]


def test_positions_of_blocks() -> None:
    groups = {
        "base": [CostBlock(1000, Decimal(2), 8), charge(Decimal("0.5"), 10)],
        "nothing": [],
        "none": [CostBlock(0, Decimal(1))],
    }
    result = answered(positions("USD", groups))
    assert [(one.cost, one.gpu_hours, one.node_hours) for one in result.values()] == [
        (2005, 8000, 1000),
        (0, 0, 0),
        (0, 0, 0),
    ]
