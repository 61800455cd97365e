"""What leaves the bill if nodes go that commitments cover in part: figures derived by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from duckdb import DuckDBPyConnection

from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif.avoidable import NO_COMMITMENTS, Commitments, Cover, Held, why_not
from gpucost.whatif.covered import read_commitments, read_covers
from gpucost.whatif.curve import Curve
from gpucost.whatif.fleet import Fleet, Node, Price
from tests.bill_table import change_bill_rows
from tests.text_tables import named_rows

D = Decimal
HOUR = MS_PER_HOUR
KEY = ("aws", "us-east-1", "p5.48xlarge")
START = int(datetime(2026, 10, 1, tzinfo=UTC).timestamp() * 1000)
DAY = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
NODE = Node(
    "a",
    8,
    0,
    4 * HOUR,
    (Price(D(15), "bill"),),
    provider="aws",
    region="us-east-1",
    instance_type="p5.48xlarge",
)


def covering(covered: str, uncovered: str, returned: str = "0") -> Commitments:
    """Four hours of instances, covered and not, that cost 20 an hour on demand."""
    curves = (Curve.hourly([float(count) for count in told.split()]) for told in (covered, uncovered))
    return Commitments(0, 4 * HOUR, {KEY: Cover(*curves, D(20), D(returned))})


def held(*hours: tuple[int, int], node: Node = NODE) -> list[Held]:
    return [Held(node, 8, since * HOUR, until * HOUR) for since, until in hours]


# instances that a commitment covers and others in each of four hours, those that go, and what leaves the bill: those on demand
# go first; the last commitment ended after an hour, and no bill shows the rest
GONE = """
one of three | 2 2 2 2 | 1 1 1 1 | 1 | 80
two of three | 2 2 2 2 | 1 1 1 1 | 2 | 80
covered | 1 1 1 1 | 0 0 0 0 | 1 | 0
on demand later | 1 1 1 1 | 0 0 1 1 | 1 | 40
commitment ended | 1 0 0 0 | 0 0 0 0 | 1 | 60
"""


@pytest.mark.parametrize(("covered", "uncovered", "gone", "cash"), named_rows(GONE))
def test_instances_on_demand_go_first(covered: str, uncovered: str, gone: str, cash: str) -> None:
    assert covering(covered, uncovered).cash(held((0, 4)) * int(gone)) == int(cash)


def test_hours_that_are_needed_elsewhere_cost_the_on_demand_price() -> None:
    commitments = covering("2 2 2 2", "1 1 1 1")
    assert commitments.cash(held((0, 4)), held((0, 1))) == 60
    assert commitments.between(Fleet(), Fleet((NODE,))) == -80
    assert commitments.between(Fleet((NODE,)), Fleet((replace(NODE, to_ms=HOUR),))) == 60


def test_other_usage_takes_what_a_plan_gives_up() -> None:
    # 20 on demand for one of them, and for the other what usage costs less that the plan covers instead
    assert covering("1 1 1 1", "1 1 1 1", "7").cash(held((0, 4), (0, 4))) == 4 * (20 + 7)


@pytest.mark.parametrize("other", [{"capacity_type": "spot"}, {"region": "eu-west-1"}], ids=str)
def test_other_nodes_leave_at_their_price(other: dict[str, Any]) -> None:
    gone = held((0, 4), node=replace(NODE, **other))
    assert covering("1 1 1 1", "0 0 0 0").cash(gone) == NO_COMMITMENTS.cash(gone) == 60


STAY = """
covered | 1 1 1 1 | 0 0 0 0 | 0 | under a commitment, which is paid in any case
on demand for an hour | 1 1 1 1 | 0 0 0 1 | 0 |
other usage | 1 1 1 1 | 0 0 0 0 | 1 |
ended | 1 1 1 0 | 0 0 0 0 | 0 |
"""


@pytest.mark.parametrize(("covered", "uncovered", "returned", "why"), named_rows(STAY))
def test_nodes_that_commitments_cover_at_all_times_stay(
    covered: str, uncovered: str, returned: str, why: str
) -> None:
    (node,) = covering(covered, uncovered, returned).marked(Fleet((NODE,))).nodes
    assert why_not(node) == why


ROWS = """
INSERT INTO bill_rows BY NAME SELECT 1 AS bill_id, row::UBIGINT AS charge_key,
    TIMESTAMP '2026-10-01' AS charge_period_start, TIMESTAMP '2026-10-02' AS charge_period_end,
    'Usage' AS charge_category, cost AS billed_cost, cost AS effective_cost, list AS list_cost, 'USD' AS billing_currency,
    'us-east-1' AS region, type AS instance_type, plan AS commitment_discount_id,
    if(plan IS NULL, 'Standard', 'Committed') AS pricing_category,
    CASE WHEN plan IS NOT NULL THEN 'Savings Plan' END AS commitment_discount_type,
    CASE WHEN plan IS NOT NULL THEN 'Used' END AS commitment_discount_status,
    if(type IS NULL, 'discount', 'instance') AS kind,
    hours AS instance_hours, 'same' AS cost_cause, 'f' AS source_file, row AS source_row
FROM (VALUES {}) AS t(row, type, plan, hours, cost, list)"""
PLAN = "(0, 'p5.48xlarge', 'sp-1', 24, 240, 480)"
OTHER = "(2, 'm5.large', 'sp-1', 24, 6, 8), (3, 'm5.large', NULL, 360, 120, 120)"


STORED = f"""
INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,
    '1' AS billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 2 AS rows, 1 AS load_id,
    TIMESTAMP '2026-11-01' AS loaded_at;
INSERT INTO nodes BY NAME SELECT unnest([1, 2]) AS node_id, 'main' AS cluster, 'n' AS node, {START} AS up_from_ms,
    {START + 24 * HOUR} AS up_to_ms, 'aws' AS provider, 'us-east-1' AS region, 'p5.48xlarge' AS instance_type,
    'on_demand' AS capacity_type, 8 AS gpu_count;
INSERT INTO node_prices BY NAME SELECT node_id, up_from_ms AS from_ms, up_to_ms AS to_ms, 0 AS price_per_hour,
    'bill' AS price_source FROM nodes"""  # noqa: S608


def store(con: DuckDBPyConnection, rows: str, price: str, currency: str = "USD") -> Commitments:
    """A day of two p5, at the price that they share."""
    con.execute(STORED)
    con.execute("UPDATE node_prices SET price_per_hour = $1::DECIMAL(38, 9)", [price])
    change_bill_rows(con, ROWS.format(rows))
    return read_covers(con, DAY, currency)


TWO = f"{PLAN}, (1, 'p5.48xlarge', NULL, 24, 480, 480)"


@pytest.mark.parametrize(
    ("rows", "price", "currency", "on_demand"),
    [
        # a discount of 10 % is in the nodes' price alone: (24 × 10 + 24 × 18) / 48
        pytest.param(TWO, "14", "USD", 18, id="what the commitments leave of the nodes' cost"),
        # only instances on demand, of another account, are nodes of the store
        pytest.param(TWO, "20", "USD", 20, id="at most what the bill charges"),
        pytest.param(f"{TWO}, {OTHER}", "3", "EUR", 3, id="none of a bill in another currency"),
    ],
)
def test_price_on_demand(
    con: DuckDBPyConnection, rows: str, price: str, currency: str, on_demand: int
) -> None:
    cover = store(con, rows, price, currency).covers[KEY]
    assert (cover.on_demand, cover.returned) == (on_demand, 0)
    assert cover.covered.levels == cover.uncovered.levels == pytest.approx((1.0,) * 24)


def test_charges_without_hours_cover_nothing(con: DuckDBPyConnection) -> None:
    cover = store(con, f"{PLAN}, (1, 'p5.48xlarge', NULL, NULL, -3, NULL)", "10").covers[KEY]
    assert not cover.uncovered.node_hours


def test_usage_of_other_plans_takes_nothing(con: DuckDBPyConnection) -> None:
    other = OTHER.replace("sp-1", "sp-2")
    assert store(con, f"{PLAN}, {other}", "10").covers[KEY].returned == 0


def test_returned_cost_is_that_of_other_usage_as_far_as_it_goes(con: DuckDBPyConnection) -> None:
    # plans charge 0.25 for an m5.large of 1/3; 360 h of it cost 120, or 90 under a plan: 3.75 an hour, less than the 10.25
    # that the plan spends; of each hour of p5, 10, it takes 3.75 / 10.25, worth 4/3 on demand
    cover = store(con, f"{PLAN}, {OTHER}", "10").covers[KEY]
    assert float(cover.returned) == pytest.approx(10 * 3.75 / 10.25 * 4 / 3)
    assert not cover.is_paid_anyway


def test_paid_cost_of_a_plan_is_shared_by_the_cost_of_what_it_covers(con: DuckDBPyConnection) -> None:
    # each instance has 24 h; the plan's discount of 10 % has no instance
    store(con, f"{PLAN}, {OTHER}, (4, NULL, 'sp-1', NULL, -24.6, NULL)", "10")
    existing = read_commitments(con, DAY.start_ms, DAY.end_ms, [KEY[2]])
    paid = {key[2]: float(one.paid) for key, one in existing.covered.items() if key[2]}
    assert paid == pytest.approx({"p5.48xlarge": 216, "m5.large": 5.4})


def test_without_commitments_nothing_is_covered(con: DuckDBPyConnection) -> None:
    assert store(con, "(1, 'p5.48xlarge', NULL, 48, 960, 960)", "20") == Commitments()
