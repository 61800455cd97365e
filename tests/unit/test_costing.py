"""The cost of fleets: what-ifs multiply prices and hours, and agree with the attribution stages."""

from __future__ import annotations

import random
import re
from decimal import Decimal
from pathlib import Path

import duckdb

from gpucost import inventory
from gpucost.store import schema
from gpucost.store.connection import scratch_store
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, position
from gpucost.whatif.fleet import Costs, Fleet, Node, Pod, Price
from tests.stage_costs import stage_costs

HOUR = 3_600_000
TRAIN = ("default", "default", "Job/train")


def _node(name: str, price: str, hours: int = 10) -> Node:
    return Node(name, 8, 0, hours * HOUR, (Price(Decimal(price), "option"),))


def test_pods_cost_their_share_of_the_node_while_they_hold_it() -> None:
    pods = (
        Pod("a", "Job/train", 4, 0, 10 * HOUR, uid="1"),
        Pod("a", "Job/train", 2, 0, 5 * HOUR, uid="2"),
        Pod("a", "Job/late", 8, 20 * HOUR, 30 * HOUR, uid="3"),
    )
    costs = fleet_costs(Fleet((_node("a", "8"), _node("b", "2")), pods))
    assert costs == Costs(Decimal(100), Decimal(50), Decimal(50), 160, 50, 20, {TRAIN: Decimal(50)})


def test_a_price_holds_until_the_next_one() -> None:
    prices = (Price(Decimal(8), "option"), Price(Decimal(3), "spot_history", None, 5 * HOUR))
    node = Node("a", 8, 0, 10 * HOUR, prices)
    pods = tuple(
        Pod("a", f"Job/{start}", 8, start * HOUR, (start + 2) * HOUR, uid=str(start)) for start in (0, 4, 8)
    )
    costs = fleet_costs(Fleet((node,), pods))
    assert (costs.node_cost, [*costs.by_workload.values()]) == (55, [16, 11, 6])


def test_pods_that_hold_more_than_the_node_has_share_it_in_proportion() -> None:
    pods = (Pod("a", "Job/a", 6, 0, 10 * HOUR, uid="1"), Pod("a", "Job/b", 6, 5 * HOUR, 10 * HOUR, uid="2"))
    costs = fleet_costs(Fleet((_node("a", "8"),), pods))
    assert [*costs.by_workload.values()] == [50, 20]
    assert (costs.cost, costs.unallocated_cost, costs.allocated_gpu_hours) == (70, 10, 90)


def test_the_largest_pod_of_a_full_node_takes_the_remainder() -> None:
    node = Node("a", 3, 0, HOUR, (Price(Decimal(1), "option"),))
    pods = tuple(Pod("a", f"Job/{uid}", 1, 0, HOUR, uid=str(uid)) for uid in range(3))
    costs = fleet_costs(Fleet((node,), pods))
    third = Decimal("0.333333333")
    assert [*costs.by_workload.values()] == [third + Decimal("1e-9"), third, third]
    assert costs.unallocated_cost == 0


def test_random_fleets_cost_what_the_attribution_stages_say() -> None:
    """Stages round each hour to nine decimals: no amount differs by more than half a billionth for each hour."""
    fleets = [_random_fleet(random.Random(seed)) for seed in range(40)]
    for fleet, stages in zip(fleets, stage_costs(fleets), strict=True):
        costs = fleet_costs(fleet)
        most = Decimal(sum(node.length_ms for node in fleet.nodes) // HOUR + 50 * len(fleet.nodes)) * Decimal(
            "1e-9"
        )
        assert costs.cost + costs.unallocated_cost == costs.node_cost
        assert sum(costs.by_workload.values()) == costs.cost
        assert abs(costs.node_cost - stages.node_cost) <= most
        assert abs(costs.cost - stages.cost) <= most
        assert costs.by_workload.keys() == stages.by_workload.keys()
        for name, cost in costs.by_workload.items():
            assert abs(cost - stages.by_workload[name]) <= most, (fleet, name)
        hours = (costs.gpu_hours, costs.allocated_gpu_hours, costs.node_hours)
        expected = (stages.gpu_hours, stages.allocated_gpu_hours, stages.node_hours)
        assert all(abs(one - other) < 1e-5 for one, other in zip(hours, expected, strict=True))


def _random_fleet(draw: random.Random) -> Fleet:
    """A few nodes for up to five days with price steps, and pods of whole and part GPUs, also more than there are."""
    nodes, pods = [], []
    for number in range(draw.randint(1, 3)):
        start = draw.randrange(0, 30 * HOUR)
        end = start + draw.randrange(1, 90 * HOUR)
        steps = sorted(draw.sample(range(start + 1, end + 1), k=min(draw.randint(0, 3), end - start)))
        prices = [
            Price(Decimal(draw.randrange(0, 10**11)).scaleb(-9), "option", None, at) for at in (None, *steps)
        ]
        gpus = draw.choice([1, 2, 7, 8, 16])
        end = draw.choice(
            [end, draw.randrange(start, end) + 1]
        )  # a scenario ends a node before its last price
        nodes.append(Node(f"n{number}", gpus, start, end, tuple(prices)))
        for pod in range(draw.randint(0, 5)):
            since = draw.randrange(start, end)
            until = draw.choice([end, draw.randrange(since, end) + 1])
            held = draw.choice([gpus, 1, 1 / 7, 0.3, gpus / 2])
            workload = f"Job/{draw.randint(0, 3)}"
            pods.append(Pod(f"n{number}", workload, held, since, until, uid=f"{number}-{pod}"))
    return Fleet(tuple(nodes), tuple(pods))


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


def test_positions_of_blocks() -> None:
    groups: list[list[CostBlock]] = [
        [CostBlock(1000, Decimal(2), 8), charge(Decimal("0.5"), 10)],
        [],
        [CostBlock(0, Decimal(1))],
    ]
    result = [position("USD", blocks) for blocks in groups]
    assert [(one.cost, one.gpu_hours, one.node_hours) for one in result] == [
        (2005, 8000, 1000),
        (0, 0, 0),
        (0, 0, 0),
    ]
