"""Commitments on a bill and the cash saved when partly covered nodes go; figures derived by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from duckdb import DuckDBPyConnection

from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif.avoidable import NO_COMMITMENTS, Commitments, Cover, Held, why_not
from gpucost.whatif.covered import NO_KEY, Covered, Existing, read_commitments, read_covers, read_evidence
from gpucost.whatif.curve import Curve, Evidence, counted
from gpucost.whatif.fleet import Fleet, Node, Price
from gpucost.whatif.reserve import ON_DEMAND, ReservedUse, Terms, uses_of
from tests.text_tables import named_rows, text_rows
from tests.unit.billed import bill, covered
from tests.unit.whatif_costs import fleet, shown

D = Decimal
HOUR = MS_PER_HOUR
KEY = ("aws", "us-east-1", "p5.48xlarge")
START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
DAY = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
NODE = Node(
    "a", 8, 0, 4 * HOUR, (Price(D(15), "bill"),), provider="aws", region="us-east-1", instance_type=KEY[2]
)


def covering(covered: str, uncovered: str, returned: str = "0") -> Commitments:
    """Four hours of covered and uncovered instances that cost 20 per hour on demand."""
    curves = (Curve(tuple(map(float, cells.split())), (1.0,) * 4) for cells in (covered, uncovered))
    return Commitments(0, 4 * HOUR, {KEY: Cover(*curves, D(20), D(returned))})


def held(*hours: tuple[int, int], node: Node = NODE) -> list[Held]:
    return [Held(node, 8, since * HOUR, until * HOUR) for since, until in hours]


# covered and uncovered instances in each of four hours, the number that go, and the saved cash: on-demand
# instances go first; in the last row the commitment ended after an hour, and the other hours are on no bill
GONE = """
one of three | 2 2 2 2 | 1 1 1 1 | 1 | 80
two of three | 2 2 2 2 | 1 1 1 1 | 2 | 80
covered | 1 1 1 1 | 0 0 0 0 | 1 | 0
on demand later | 1 1 1 1 | 0 0 1 1 | 1 | 40
commitment ended | 1 0 0 0 | 0 0 0 0 | 1 | 60
"""


@pytest.mark.parametrize(("covered", "uncovered", "gone", "cash"), named_rows(GONE))
def test_on_demand_instances_go_first(covered: str, uncovered: str, gone: str, cash: str) -> None:
    assert covering(covered, uncovered).cash(held((0, 4)) * int(gone)) == int(cash)


def test_hours_needed_elsewhere_cost_the_on_demand_price() -> None:
    commitments = covering("2 2 2 2", "1 1 1 1")
    assert commitments.cash(held((0, 4)), held((0, 1))) == 60
    assert commitments.between(Fleet(), Fleet((NODE,))) == -80
    assert commitments.between(Fleet((NODE,)), Fleet((replace(NODE, to_ms=HOUR),))) == 60


def test_other_usage_takes_over_the_freed_part_of_a_plan() -> None:
    # 20 on demand for one instance; for the other, the saving on other usage that the plan then covers
    assert covering("1 1 1 1", "1 1 1 1", "7").cash(held((0, 4), (0, 4))) == 4 * (20 + 7)


@pytest.mark.parametrize("other", [{"capacity_type": "spot"}, {"region": "eu-west-1"}], ids=str)
def test_nodes_of_another_kind_are_saved_at_their_price(other: dict[str, Any]) -> None:
    gone = held((0, 4), node=replace(NODE, **other))
    assert covering("1 1 1 1", "0 0 0 0").cash(gone) == NO_COMMITMENTS.cash(gone) == 60


STAY = """
covered | 1 1 1 1 | 0 0 0 0 | 0 | under a commitment, which is paid in any case
on demand for an hour | 1 1 1 1 | 0 0 0 1 | 0 |
other usage | 1 1 1 1 | 0 0 0 0 | 1 |
ended | 1 1 1 0 | 0 0 0 0 | 0 |
"""


@pytest.mark.parametrize(("covered", "uncovered", "returned", "why"), named_rows(STAY))
def test_nodes_always_covered_by_a_commitment_stay(
    covered: str, uncovered: str, returned: str, why: str
) -> None:
    (node,) = covering(covered, uncovered, returned).marked(Fleet((NODE,))).nodes
    assert why_not(node) == why


# an instance and other usage under a plan, and on-demand usage
HEAD = "kind | type | plan | hours | cost | list_cost"
PLAN = "| p5.48xlarge | sp-1 | 24 | 240 | 480"
OTHER = "| m5.large | sp-1 | 24 | 6 | 8\n| m5.large | | 360 | 120 | 120"
NODES = f"""
INSERT INTO nodes BY NAME SELECT unnest([1, 2]) AS node_id, 'main' AS cluster, 'n' AS node, {START} AS up_from_ms,
    {DAY.end_ms} AS up_to_ms, 'aws' AS provider, 'us-east-1' AS region, 'p5.48xlarge' AS instance_type,
    'on_demand' AS capacity_type, 8 AS gpu_count;
INSERT INTO node_prices BY NAME SELECT node_id, up_from_ms AS from_ms, up_to_ms AS to_ms, $1::DECIMAL(38, 9) AS price_per_hour,
    'bill' AS price_source FROM nodes"""  # noqa: S608


def store(con: DuckDBPyConnection, rows: str, price: str, currency: str = "USD") -> Commitments:
    """A day of two p5, at a common price."""
    con.execute(NODES, [price])
    covered(con, f"{HEAD}\n{rows}")
    return read_covers(con, DAY, currency)


TWO = f"{PLAN}\n| p5.48xlarge | | 24 | 480 | 480"


@pytest.mark.parametrize(
    ("rows", "price", "currency", "on_demand"),
    [
        # a discount of 10 % is in the nodes' price alone: (24 × 10 + 24 × 18) / 48
        pytest.param(TWO, "14", "USD", 18, id="the nodes' cost without the commitments"),
        # the nodes of the store are only the on-demand instances, of another account
        pytest.param(TWO, "20", "USD", 20, id="at most the price on the bill"),
        pytest.param(f"{TWO}\n{OTHER}", "3", "EUR", 3, id="none of a bill in another currency"),
    ],
)
def test_price_on_demand(
    con: DuckDBPyConnection, rows: str, price: str, currency: str, on_demand: int
) -> None:
    cover = store(con, rows, price, currency).covers[KEY]
    assert (cover.on_demand, cover.returned) == (on_demand, 0)
    assert cover.covered.levels == cover.uncovered.levels == pytest.approx((1.0,) * 24)


def test_charges_without_hours_cover_no_instances(con: DuckDBPyConnection) -> None:
    cover = store(con, f"{PLAN}\n| p5.48xlarge | | | -3 |", "10").covers[KEY]
    assert not cover.uncovered.node_hours


def test_usage_of_other_plans_does_not_take_over(con: DuckDBPyConnection) -> None:
    other = OTHER.replace("sp-1", "sp-2")
    assert store(con, f"{PLAN}\n{other}", "10").covers[KEY].returned == 0


def test_returned_cost_is_limited_by_the_other_usage(con: DuckDBPyConnection) -> None:
    # plans charge 0.25 for an m5.large with a list price of 1/3: 360 h cost 120, or 90 under a plan, which is
    # 3.75 per hour, less than the 10.25 that the plan spends; of each p5 hour (10), other usage takes over
    # 3.75 / 10.25, worth 4/3 on demand
    cover = store(con, f"{PLAN}\n{OTHER}", "10").covers[KEY]
    assert float(cover.returned) == pytest.approx(10 * 3.75 / 10.25 * 4 / 3)
    assert not cover.is_paid_anyway


def test_used_cost_of_a_plan_is_shared_by_the_covered_cost(con: DuckDBPyConnection) -> None:
    # each instance has 24 h; the plan's discount of 10 % has no instance
    store(con, f"{PLAN}\n{OTHER}\ndiscount | | sp-1 | | -24.6 |", "10")
    existing = read_commitments(con, DAY.start_ms, DAY.end_ms, [KEY[2]])
    used = {key[2]: float(one.used) for key, one in existing.covered.items() if key[2]}
    assert used == pytest.approx({"p5.48xlarge": 216, "m5.large": 5.4})


def test_without_commitments_no_usage_is_covered(con: DuckDBPyConnection) -> None:
    assert store(con, "| p5.48xlarge | | 48 | 960 | 960", "20") == Commitments()


NONE = Existing(is_bill_loaded=False)
ONE_YEAR = Terms("reserved", 1, "no_upfront")


def used_nodes(rows: str, existing: Existing = NONE, **more: Any) -> ReservedUse:
    """Usage of nodes that are half allocated all day, with offers of 11 on demand and 6 reserved."""
    there = fleet(f"name | hours | prices | capacity_type\n{rows}", "", START, instance_type=KEY[2])
    offers = {ON_DEMAND: Price(D(11), "catalog"), ONE_YEAR: Price(D(6), "catalog")}
    pods = fleet("name | hours", "node | gpus | hours | workload\nn0 | 4 | 0-24 | Job/a", START).pods
    given = {"is_narrowed": False} | more
    (one,) = uses_of(Fleet(there.nodes, pods), DAY, existing, {KEY: offers}, **given)
    return one


def spanning(start: int, end: int, level: float) -> dict[Any, Covered]:
    spans = [(START + start * HOUR, START + end * HOUR, level)]
    return {KEY: Covered(counted(spans, START, DAY.end_ms), counted((), START, DAY.end_ms))}


@pytest.mark.parametrize(
    ("part", "is_narrowed", "hours"), [(0.0, False, 12), (0.5, False, 9), (0.0, True, 3)]
)
def test_usage_is_on_demand_after_the_part_covered_by_the_bill(
    part: float, is_narrowed: bool, hours: float
) -> None:
    # a price under a commitment is not an on-demand price and never enters the on-demand price of nodes
    kinds = {"on_demand": 24, "unknown": 12, "spot": 24, "reserved": 24}
    rows = [f"n{at} | 0-{kinds[kind]} | 10, 2 committed from 6 | {kind}" for at, kind in enumerate(kinds)]
    existing = Existing(True, (), spanning(0, 24, part)) if part else NONE
    one = used_nodes("\n".join(rows), existing, is_narrowed=is_narrowed)
    assert (one.instance_type, one.on_demand.per_node_hour, set(one.offers)) == (KEY[2], 10, {ONE_YEAR})
    assert one.curve.node_hours == pytest.approx(hours)


def test_usage_is_uncovered_again_after_a_commitment_ends() -> None:
    """A plan in the price book until noon, then a reservation of half a node on the bill until 18:00."""
    there = used_nodes(
        "n0 | 0-24 | 2 committed, 10 from 12 | on_demand", Existing(True, (), spanning(12, 18, 0.5))
    )
    assert there.curve.levels == (0.0,) * 12 + (0.5,) * 6 + (1.0,) * 6


def test_hours_freed_by_findings_are_taken_out_first() -> None:
    # a pod holds half of the node all day
    for freed, whole, held in (
        (("default", "default", "Job/a"), 12, 0),
        (("default", "default", "Job/b"), 24, 12),
    ):
        for is_narrowed, hours in ((False, whole), (True, held)):
            one = used_nodes("n0 | 0-24 | 10 | on_demand", freed=[freed], is_narrowed=is_narrowed)
            assert one.curve.node_hours == hours


def test_days_of_data_count_any_cluster(con: DuckDBPyConnection) -> None:
    assert read_evidence(con, DAY) == Evidence(0, 0)
    hours = "('a', 0, 6), ('b', 3, 9), ('b', 4, 5), ('a', 18, 19), ('a', -1, 1), ('a', 24, 30)"
    con.execute(
        f"INSERT INTO collected SELECT name, {START} + {HOUR} * begin, {START} + {HOUR} * until FROM (VALUES {hours})"  # noqa: S608
        " AS t(name, begin, until)"
    )
    assert read_evidence(con, DAY) == Evidence(10 / 24, 19)


# a fee for the whole term is not a bill for its months, but gives the end of the commitment
RESERVED = """
    kind              | type        | plan | discount          | length | hours | cost | status | category
    instance          | p5.48xlarge | ri-1 | Reserved Instance | 48     | 48    | 300  | Used   | Usage
    commitment_unused | p5.48xlarge | ri-1 | Reserved Instance | 48     |       | 24   | Unused | Purchase
    commitment_fee    | p5.48xlarge | ri-1 | Reserved Instance | 1536   |       | 0    |        | Purchase
"""
# half of a two-day charge; then a month without a bill: commitments continue as on the last known day until
# the end given by the fee, after 64 days; the bill of October has no charges on its last day, so commitments
# do not continue in October
KNOWN = """
    0-1   | 1   | None 24 12
    30-32 | 0 1 | 2026-10 24 12
    31-33 | 1 1 | 2026-10 48 24
    63-65 | 1 0 | 2026-10 24 12
"""


def test_existing_commitments_are_read_from_the_bill(con: DuckDBPyConnection) -> None:
    assert not read_commitments(con, START, DAY.end_ms).is_bill_loaded
    covered(con, RESERVED)
    for days, held, cells in text_rows(KNOWN):
        found = read_commitments(con, *(START + int(day) * 24 * HOUR for day in days.split("-")))
        (one,) = found.commitments
        assert shown(found.month, one.covered_instance_hours, one.unused_cost) == cells
        levels = [float(day) for day in held.split() for _ in range(24)]
        assert found.covered[KEY].curve.levels == pytest.approx(levels)
        assert (found.is_bill_loaded, found.currency, one.commitment_discount_id) == (True, "USD", "ri-1")
    used = read_commitments(con, START, DAY.end_ms).covered
    assert {key: one.used for key, one in used.items()} == {KEY: 150, NO_KEY: 0}
    assert not read_commitments(con, START + 93 * 24 * HOUR, START + 94 * 24 * HOUR).is_bill_loaded


# the plan charges 6 for a machine of 8; two more of its type are on demand, and another type has no known
# plan price
USAGE = """
    type        | plan | pricing   | hours | cost | list_cost
    m5.large    | sp-1 | Committed | 24    | 6    | 8
    m5.large    |      | Standard  | 24    | 8    | 8
    m5.large    |      | Standard  | 24    | 8    | 8
    c5.large    |      | Standard  | 24    | 5    | 5
    m5.large    |      | Dynamic   | 24    | 2    | 8
    p5.48xlarge | sp-1 | Committed | 24    | 30   | 55
    p5.48xlarge |      | Standard  | 24    | 55   | 55
"""


def test_other_usage_of_the_only_payer_is_read_from_the_bill(con: DuckDBPyConnection) -> None:
    covered(con, USAGE)
    (other,) = read_commitments(con, START, DAY.end_ms, ["P5.48xlarge"]).others.values()
    # 16 on demand would cost 12 under plans, half of one per hour
    assert float(other.on_demand.per_node_hour) == pytest.approx(16 / 12)
    assert other.curve.levels == pytest.approx((0.5,) * 24)
    bill(con)
    con.execute("UPDATE bills SET billing_account_id = bill_id")
    assert not read_commitments(con, START, DAY.end_ms, ["p5.48xlarge"]).others
