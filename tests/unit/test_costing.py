"""The cost of fleets: what-ifs agree with attribution.

Also the split of a node's price by GPU, cores and memory.
"""

from __future__ import annotations

import random
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import inventory
from gpucost.catalog import load_catalog, load_components
from gpucost.config.model import Config, Prices
from gpucost.engine import run_stages
from gpucost.price import load_price_list
from gpucost.store import schema
from gpucost.store.connection import Store, scratch_store
from gpucost.whatif.cost import CostBlock, charge, fleet_costs, position
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, fleet_of
from tests.stage_costs import stage_costs
from tests.text_tables import text_rows, words
from tests.unit.whatif_costs import figures, fleet, shown

HOUR = 3_600_000


NODES, PODS = "name | gpus | hours | prices", "node | workload | gpus | hours | uid"
# nodes and pods; costs of nodes and of pods; total and allocated GPU-hours, node-hours; costs of workloads
COSTS = {
    "pods cost their share of the node while they run": (
        "a | 8 | 0-10 | 8\nb | 8 | 0-10 | 2",
        "a | train | 4 | 0-10 | 0\na | train | 2 | 0-5 | 1\na | late | 8 | 20-30 | 2",
        "100 50 160 50 20", "50",
    ),
    "a price is valid until the next one": (
        "a | 8 | 0-10 | 8, 3 from 5", "a | x | 8 | 0-2 | 0\na | y | 8 | 4-6 | 1\na | z | 8 | 8-10 | 2",
        "55 33 80 48 10", "16 11 6",
    ),
    "pods with more GPUs than the node share it in proportion": (
        "a | 8 | 0-10 | 8", "a | x | 6 | 0-10 | 0\na | y | 6 | 5-10 | 1", "80 70 80 90 10", "50 20"
    ),
    "the largest pod of a full node takes the remainder": (
        "a | 3 | 0-1 | 1", "a | x | 1 | 0-1 | 0\na | y | 1 | 0-1 | 1\na | z | 1 | 0-1 | 2",
        "1 1 3 3 1", "0.333333334 0.333333333 0.333333333",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", COSTS)
def test_costs_of_a_fleet(case: str) -> None:
    nodes, pods, sums, costs = COSTS[case]
    found = fleet_costs(fleet(f"{NODES}\n{nodes}", f"{PODS}\n{pods}"))
    assert figures(found, "node_cost cost gpu_hours allocated_gpu_hours node_hours") == sums
    assert [*found.by_workload.values()] == [Decimal(cost) for cost in costs.split()]


def test_random_fleets_cost_the_same_as_in_attribution() -> None:
    """Stages round each hour to nine decimals, so amounts differ by at most a billionth per hour."""
    fleets = [_random_fleet(random.Random(seed)) for seed in range(40)]
    for made, stages in zip(fleets, stage_costs(fleets), strict=True):
        costs = fleet_costs(made)
        hours = sum(node.length_ms for node in made.nodes) // HOUR + 50 * len(made.nodes)
        most = hours * Decimal("1e-9")
        assert sum(costs.by_workload.values()) == costs.cost
        amounts = [(costs.node_cost, stages.node_cost), (costs.cost, stages.cost)]
        assert costs.by_workload.keys() == stages.by_workload.keys()
        amounts += [(cost, stages.by_workload[name]) for name, cost in costs.by_workload.items()]
        assert all(abs(one - other) <= most for one, other in amounts), made
        for name in ("gpu_hours", "allocated_gpu_hours", "node_hours"):
            assert abs(getattr(costs, name) - getattr(stages, name)) < 1e-5


def _random_fleet(draw: random.Random) -> Fleet:
    """A few nodes for up to five days with price steps, and pods with whole and part GPUs, sometimes too
    many."""
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
    written = r"^(?:INSERT INTO (?=\w+ BY NAME$)|CREATE OR REPLACE TEMP TABLE (?=\w+ AS$))(\w+)"
    filled = re.findall(written, "\n".join(stages), re.MULTILINE)
    assert {name for name in declared if not filled.count(name)} == {"settings"}
    schema_sql = """SELECT name, sql FROM (
            SELECT database_name, table_name AS name, sql FROM duckdb_tables() WHERE NOT temporary
            UNION ALL SELECT database_name, view_name, sql FROM duckdb_views() WHERE NOT internal
            UNION ALL SELECT database_name, function_name, macro_definition FROM duckdb_functions() WHERE NOT internal
        ) WHERE database_name = current_database() ORDER BY ALL"""

    def words(con: duckdb.DuckDBPyConnection) -> list[tuple[str, list[str]]]:
        # sorted, because DuckDB writes the columns of SELECT * REPLACE in any order
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
    several = [CostBlock(1000, Decimal(2), 8), charge(Decimal("0.5"), 10)]
    for blocks, sums in ((several, "2005 8000 1000"), ([], "0 0 0"), ([CostBlock(0, Decimal(1))], "0 0 0")):
        assert figures(position("USD", blocks), "cost gpu_hours node_hours") == sums


ROW = words(
    "cluster=c node=a capacity_type=on_demand provider=aws region=us-east-1 instance_type=p4d.24xlarge gpu_model=A100"
)
SPAN = {"node_id": 1, "gpu_count": 8.0, "from_ms": 0, "to_ms": 10 * HOUR, "has_users": True}


def priced(segments: str) -> Fleet:
    """A node of the store for 10 hours with these prices by hours: `0 to 4 20, 6 to 10 20`."""
    prices = []
    for span, price in (segment.rsplit(" ", 1) for segment in segments.split(", ") if segment):
        begin, end = (int(hour) * HOUR for hour in span.split(" to "))
        known = {"from_ms": begin, "to_ms": end, "price_per_hour": Decimal(price), "node_id": 1}
        prices.append(known | {"price_source": "price_book", "price_as_of": None, "is_committed": False})
    return fleet_of([ROW | SPAN], prices, [])


SEGMENTS = """
    0 to 10 20             | 200 True
    0 to 4 20, 6 to 10 20  | 160 False
    2 to 5 20              | 60 False
    -5 to 3 20, 3 to 20 10 | 130 True
                           | 0 False
"""


@pytest.mark.parametrize(("prices", "cost"), text_rows(SEGMENTS))
def test_span_without_a_price_costs_0(prices: str, cost: str) -> None:
    there = priced(prices)
    assert shown(fleet_costs(there).node_cost, there.nodes[0].is_priced) == cost


BASES = ("opencost", "scad", "sku")
PAGE = Path(__file__).parents[2] / "docs" / "cost-basis.md"
REGIONS = {"aws": "us-east-1", "gcp": "us-central1", "azure": "eastus"}

# The share of GPUs in an instance's price: by OpenCost's defaults, by AWS' 9 : 1 weights, and by the list
# price minus the host at Google's prices of the family, or of A2 for other clouds (calculated without
# gpucost, in July 2026).
SHARES = """
aws    p5.48xlarge                 0.3401  0.1601  0.7321
aws    p4d.24xlarge                0.4898  0.2632  0.6395
aws    g5.xlarge                   0.8302  0.6338  0.8069
aws    g6.xlarge                   0.8302  0.6338  0.7587
aws    g5.16xlarge                 0.2341  0.0976  0.2413
gcp    a2-highgpu-1g               0.5623  0.3180  0.7987
gcp    a2-ultragpu-1g              0.4635  0.2446  0.7831
gcp    a3-highgpu-8g               0.3438  0.1613  0.8931
gcp    g2-standard-4               0.8302  0.6338  0.7923
gcp    g2-standard-32              0.3794  0.1779  0.3229
azure  Standard_ND96amsr_A100_v4   0.4067  0.2067  0.6617
azure  Standard_NC24ads_A100_v4    0.3597  0.1711  0.5397"""
KNOWN = [
    (provider, name, [*map(float, shares)])
    for provider, name, *shares in map(str.split, SHARES.strip().splitlines())
]
OWN = "our-own-box"
Splits = dict[str, tuple[dict[str, tuple[bool, float, float]], list[tuple[Any, ...]]]]


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    """By basis: for each instance type, whether it falls back to A2's host, and the shares of GPU and
    cores; and the warnings."""
    results = {}
    with Store(tmp_path_factory.mktemp("splits") / "splits.duckdb").write() as con:
        inventory.stage(con, Config(prices=Prices(cost_basis="sku")))
        load_components(con)
        load_price_list(con)
        for number, (provider, instance_type) in enumerate([("", OWN), *(row[:2] for row in KNOWN)]):
            con.execute(
                """INSERT INTO nodes BY NAME SELECT $1 AS node_id, 'c' AS cluster, $2 AS node,
                    1790812800000 AS up_from_ms, 1790816400000 AS up_to_ms, -- October 2026
                    $3 AS provider, $4 AS region, $2 AS instance_type, 'on_demand' AS capacity_type, 1 AS gpu_count""",
                [number, instance_type, provider, REGIONS.get(provider, "here")],
            )
            con.execute("INSERT INTO node_hosts VALUES ($1, 'cpu', 7), ($1, 'memory', 8e9)", [number])
        for basis in BASES:
            con.execute("DELETE FROM warnings")
            con.execute("SET VARIABLE cost_basis = $basis", {"basis": basis})
            run_stages(con, "gpucost.attribute.basis")
            rows = con.execute(
                "SELECT node, (is_fallback, gpu_fraction, cpu_fraction) FROM node_splits JOIN nodes USING (node_id)"
            ).fetchall()
            warnings = con.execute(
                "SELECT code, subject FROM warnings WHERE code = 'basis_fallback' ORDER BY ALL"
            ).fetchall()
            results[basis] = dict(rows), warnings
    return results


@pytest.mark.parametrize("basis", BASES)
def test_shares_equal_the_known_values(basis: str, splits: Splits) -> None:
    shares_of, warnings = splits[basis]
    for provider, name, shares in KNOWN:
        is_fallback, gpu, _ = shares_of[name]
        assert gpu == pytest.approx(shares[BASES.index(basis)], abs=5e-5), name
        assert is_fallback == (basis == "sku" and provider != "gcp")
    fallen = set()
    if basis == "sku":  # our own box has no list price, so list prices do not split it
        fallen = {OWN, *(name for provider, name, _ in KNOWN if provider != "gcp")}
        assert OWN not in shares_of
    assert warnings == [("basis_fallback", name) for name in sorted(fallen)]


def test_node_without_list_price_is_split_by_weights(splits: Splits) -> None:
    assert splits["scad"][0][OWN][1] == pytest.approx(90 / (90 + 9 * 7 + 8e9 / 2**30))


LISTED = """SELECT p.instance_type, p.price_per_hour / i.gpu_count AS price
FROM catalog_prices AS p JOIN catalog_instances AS i USING (provider, instance_type)
WHERE purchase_option = 'on_demand' AND (provider, region) IN (('gcp', 'us-central1'), ('aws', 'us-east-1'))
    AND instance_type IN ('a2-highgpu-1g', 'a3-highgpu-8g', 'g2-standard-4', 'p5.48xlarge')
QUALIFY row_number() OVER (PARTITION BY instance_type ORDER BY price_as_of DESC) = 1 ORDER BY ALL"""


def test_docs_page_shows_the_effect_of_each_basis(tmp_path: Path, splits: Splits) -> None:
    lines = []
    with Store(tmp_path / "catalog.duckdb").write() as con:
        load_catalog(con)
        listed = con.execute(LISTED).fetchall()
    for name, price in listed:
        lines.append(f"| `{name}` | `node` | 100.0 % | | | ${price:.4f} |")
        for basis in BASES:
            _, gpu, cpu = splits[basis][0][name]
            parts = f"{100 * gpu:.1f} % | {100 * cpu:.1f} % | {100 * (1 - gpu - cpu):.1f} %"
            lines.append(f"| `{name}` | `{basis}` | {parts} | ${price * gpu:.4f} |")
    written = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert written == lines
