"""What leaves the bill if nodes go that commitments cover in part: figures derived by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from duckdb import DuckDBPyConnection

from gpucost.periods import MS_PER_HOUR, Period
from gpucost.store.connection import scratch_store
from gpucost.whatif.avoidable import NO_COMMITMENTS, Commitments, Cover, Held, why_not
from gpucost.whatif.covered import read_commitments, read_covers
from gpucost.whatif.curve import Curve
from gpucost.whatif.fleet import Fleet, Node, Price
from tests.bill_table import change_bill_rows

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


def covering(covered: Sequence[float], uncovered: Sequence[float], returned: str = "0") -> Commitments:
    """Four hours of instances that cost 20 an hour on demand."""
    cover = Cover(Curve.hourly(covered), Curve.hourly(uncovered), D(20), D(returned))
    return Commitments(0, 4 * HOUR, {KEY: cover})


def held(*hours: tuple[int, int], node: Node = NODE) -> list[Held]:
    return [Held(node, 8, since * HOUR, until * HOUR) for since, until in hours]


@pytest.mark.parametrize(
    ("covered", "uncovered", "hours", "cash"),
    [
        # 2 covered, 1 on demand: the first that goes was on demand
        ([2] * 4, [1] * 4, [(0, 4)], 80),
        ([2] * 4, [1] * 4, [(0, 4), (0, 4)], 80),
        ([1] * 4, [0] * 4, [(0, 4)], 0),
        # on demand in the last two hours alone
        ([1] * 4, [0, 0, 1, 1], [(0, 4)], 40),
        # the commitment ended after an hour, and no bill shows the rest
        ([1, 0, 0, 0], [0] * 4, [(0, 4)], 60),
    ],
    ids=["one of three", "two of three", "covered", "on demand later", "commitment ended"],
)
def test_instances_on_demand_go_first(
    covered: list[float], uncovered: list[float], hours: list[tuple[int, int]], cash: int
) -> None:
    assert covering(covered, uncovered).cash(held(*hours)) == cash


def test_hours_that_are_needed_elsewhere_cost_the_on_demand_price() -> None:
    commitments = covering([2] * 4, [1] * 4)
    assert commitments.cash(held((0, 4)), held((0, 1))) == 60
    assert commitments.between(Fleet(), Fleet((NODE,))) == -80
    assert commitments.between(Fleet((NODE,)), Fleet((replace(NODE, to_ms=HOUR),))) == 60


def test_other_usage_takes_what_a_plan_gives_up() -> None:
    # 20 on demand for one of them, and for the other what usage costs less that the plan covers instead
    assert covering([1] * 4, [1] * 4, "7").cash(held((0, 4), (0, 4))) == 4 * (20 + 7)


@pytest.mark.parametrize(
    "node",
    [replace(NODE, capacity_type="spot"), replace(NODE, region="eu-west-1")],
    ids=["spot", "other region"],
)
def test_other_nodes_leave_at_their_price(node: Node) -> None:
    assert covering([1] * 4, [0] * 4).cash(held((0, 4), node=node)) == 60
    assert NO_COMMITMENTS.cash(held((0, 4), node=node)) == 60


@pytest.mark.parametrize(
    ("commitments", "is_paid"),
    [
        (covering([1] * 4, [0] * 4), True),
        (covering([1] * 4, [0, 0, 0, 1]), False),
        (covering([1] * 4, [0] * 4, "1"), False),
        (covering([1, 1, 1, 0], [0] * 4), False),
    ],
    ids=["covered", "on demand for an hour", "other usage", "ended"],
)
def test_nodes_that_commitments_cover_at_all_times_stay(commitments: Commitments, is_paid: bool) -> None:
    (node,) = commitments.marked(Fleet((NODE,))).nodes
    assert why_not(node) == ("under a commitment, which is paid in any case" if is_paid else "")


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


def store(con: DuckDBPyConnection, rows: str, price: str) -> Commitments:
    """A day of two p5, at the price that they share."""
    con.execute(
        "INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,"
        " '1' AS billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 2 AS rows, 1 AS load_id,"
        " TIMESTAMP '2026-11-01' AS loaded_at"
    )
    change_bill_rows(con, ROWS.format(rows))
    for number in (1, 2):
        con.execute(
            "INSERT INTO nodes BY NAME SELECT ? AS node_id, 'main' AS cluster, 'n' AS node, ? AS up_from_ms, ? AS up_to_ms,"
            " 'aws' AS provider, 'us-east-1' AS region, 'p5.48xlarge' AS instance_type, 'on_demand' AS capacity_type,"
            " 8 AS gpu_count",
            [number, START, START + 24 * HOUR],
        )
        con.execute(
            "INSERT INTO node_prices BY NAME SELECT ? AS node_id, ? AS from_ms, ? AS to_ms, ?::DECIMAL(38, 9) AS price_per_hour,"
            " 'bill' AS price_source",
            [number, START, START + 24 * HOUR, price],
        )
    return read_covers(con, DAY, "USD")


def test_price_on_demand_is_what_the_commitments_leave_of_the_nodes_cost() -> None:
    # a discount of 10 % is in the nodes' price alone: (24 × 10 + 24 × 18) / 48
    with scratch_store() as con:
        cover = store(con, f"{PLAN}, (1, 'p5.48xlarge', NULL, 24, 480, 480)", "14").covers[KEY]
    assert (cover.on_demand, cover.returned) == (18, 0)
    assert cover.covered.levels == cover.uncovered.levels == pytest.approx((1.0,) * 24)


def test_price_on_demand_is_at_most_what_the_bill_charges() -> None:
    # only instances on demand, of another account, are nodes of the store
    with scratch_store() as con:
        cover = store(con, f"{PLAN}, (1, 'p5.48xlarge', NULL, 24, 480, 480)", "20").covers[KEY]
    assert cover.on_demand == 20


def test_charges_without_hours_cover_nothing() -> None:
    with scratch_store() as con:
        cover = store(con, f"{PLAN}, (1, 'p5.48xlarge', NULL, NULL, -3, NULL)", "10").covers[KEY]
    assert not cover.uncovered.node_hours


def test_bill_in_another_currency_gives_no_price() -> None:
    with scratch_store() as con:
        store(con, f"{PLAN}, {OTHER}, (1, 'p5.48xlarge', NULL, 24, 480, 480)", "3")
        cover = read_covers(con, DAY, "EUR").covers[KEY]
    assert (cover.on_demand, cover.returned) == (3, 0)


def test_usage_of_other_plans_takes_nothing() -> None:
    other = "(2, 'm5.large', 'sp-2', 24, 6, 8), (3, 'm5.large', NULL, 360, 120, 120)"
    with scratch_store() as con:
        assert store(con, f"{PLAN}, {other}", "10").covers[KEY].returned == 0


def test_returned_cost_is_that_of_other_usage_as_far_as_it_goes() -> None:
    # plans charge 0.25 for an m5.large of 1/3; 360 h of it cost 120, or 90 under a plan: 3.75 an hour, less than the 10.25
    # that the plan spends; of each hour of p5, 10, it takes 3.75 / 10.25, worth 4/3 on demand
    with scratch_store() as con:
        commitments = store(con, f"{PLAN}, {OTHER}", "10")
    cover = commitments.covers[KEY]
    assert float(cover.returned) == pytest.approx(10 * 3.75 / 10.25 * 4 / 3)
    assert not cover.is_paid_anyway


def test_paid_cost_of_a_plan_is_shared_by_the_cost_of_what_it_covers() -> None:
    # each instance has 24 h; the plan's discount of 10 % has no instance
    discount = "(4, NULL, 'sp-1', NULL, -24.6, NULL)"
    with scratch_store() as con:
        store(con, f"{PLAN}, {OTHER}, {discount}", "10")
        existing = read_commitments(con, DAY.start_ms, DAY.end_ms, [KEY[2]])
    assert {key[2]: float(one.paid) for key, one in existing.covered.items() if key[2]} == pytest.approx(
        {"p5.48xlarge": 216, "m5.large": 5.4}
    )


def test_without_commitments_nothing_is_covered() -> None:
    with scratch_store() as con:
        assert store(con, "(1, 'p5.48xlarge', NULL, 48, 960, 960)", "20") == Commitments()
