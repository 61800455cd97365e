"""`gpucost whatif buy`, own nodes, and `whatif reserve`, commitments: the cheapest level, what it risks, when it has paid."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.config.model import Config, Prices
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions.whatif.commitments import StoredCommitments
from gpucost.store.connection import Store, scratch_store
from gpucost.whatif import buy, reserve
from gpucost.whatif.answer import Answer, Position
from gpucost.whatif.buy import Own, Purchase, cloud_usage
from gpucost.whatif.covered import NO_KEY, Covered, Existing, OtherUse, read_commitments, read_evidence
from gpucost.whatif.curve import Curve, Evidence, counted
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from gpucost.whatif.reserve import ON_DEMAND, Demand, ReservedUse, Terms, family_name, parse_terms, uses_of
from tests import own_catalog
from tests.bill_table import change_bill_rows
from tests.unit.whatif_costs import ask, assert_refused

pytestmark = pytest.mark.usefixtures("nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
START, END, HOUR = PERIOD.start_ms, PERIOD.end_ms, MS_PER_HOUR
DAY = 24 * HOUR
P5 = ("aws", "us-east-1", "p5.48xlarge")
NONE = Existing(is_bill_loaded=False)


def in_part(*spans: tuple[int, int, float]) -> Covered:
    return Covered(counted(spans, START, END), counted((), START, END))


ONE_YEAR, PLAN = Terms("reserved", 1, "no_upfront"), Terms("savings_plan", 1, "no_upfront", "compute")
EC2_PLAN = Terms("savings_plan", 1, "no_upfront", "ec2_instance")
# 8,760 h a year: 87,600 over 2 years are 5 an hour, and 1 an hour as it runs
OWN = Own(Decimal(6), Decimal(1), Decimal(87600), Decimal(0), 2.0, 8.0, "test")
MONTH, DAY_ONE = Curve((1.0,), (730.0,)), date(2026, 10, 1)


def offer(price: str, terms: Terms = ONE_YEAR) -> tuple[Terms, Price]:
    return terms, Price(Decimal(price), "option")


def use(
    levels: list[float], *offers: tuple[Terms, Price], on_demand: str = "10", kind: str = "p5.48xlarge"
) -> ReservedUse:
    """Usage of 28 days: each level in turn, hour after hour."""
    hours = [levels[hour % len(levels)] for hour in range(28 * 24)]
    return ReservedUse(
        kind,
        8,
        Price(Decimal(on_demand), "option"),
        Curve.hourly(hours),
        dict(offers),
        0.0,
        "aws",
        "us-east-1",
    )


def demand(*uses: ReservedUse, existing: Existing = NONE, days: float | None = None) -> Demand:
    hours = len(uses[0].curve.levels)
    today = Position(sum((one.cost for one in uses), Decimal(0)), "USD")
    return Demand(uses, existing, Evidence(hours / 24 if days is None else days, hours), today)


def committed(*uses: ReservedUse, **more: Any) -> Answer:
    return reserve.answer(demand(*uses, **more), period="a test", bought_on=DAY_ONE)


def bought(curve: Curve, cloud: str = "10", own: Own = OWN, **options: Any) -> Answer:
    price, purchase, enough = Price(Decimal(cloud), "option"), Purchase(**options), Evidence(28)
    return buy.answer(
        own, price, curve, enough, currency="USD", period="a test", purchase=purchase, bought_on=DAY_ONE
    )


def cash(answer: Answer) -> tuple[tuple[Any, ...], ...]:
    return next(table.lines for table in answer.tables if table.title == "cumulative cash")


def test_what_is_used_more_than_the_break_even_is_committed_or_bought() -> None:
    # of 10 hours, nodes 1, 2 and 3 are in use in 10, 9 and 7; one at 6 needs 80 %
    levels: list[float] = [3, 3, 3, 3, 3, 3, 3, 2, 2, 1]
    there = use(levels, offer("6"))
    commitment, own = committed(there), bought(there.curve)
    assert commitment.figures["instances"] == own.figures["own_nodes"] == 2
    for answer in (commitment, own):
        # what the third node does is paid by the hour
        assert answer.scenario.cost == 2 * 672 * 6 + 10 * sum(level > 2 for level in there.curve.levels)
        assert answer.figures["break_even_utilization_percent"] == pytest.approx(60)
    used = sum(min(level, 2) for level in there.curve.levels)
    assert commitment.figures["utilization_percent"] == pytest.approx(100 * used / (2 * 672))
    shares = [commitment.figures["coverage_percent"], own.figures["base_load_percent"]]
    assert shares == pytest.approx([100 * used / there.curve.node_hours] * 2)


# a node by its price on demand of 10: at 7.4 it needs 80 % of the hours, at 8 five points more than its price, at 9.6 never
@pytest.mark.parametrize(
    ("hours_of_20", "price", "instances"),
    [(16, "7.4", 1), (15, "7.4", 0), (16, "5", 1), (15, "5", 0), (17, "8", 1), (16, "8", 0), (20, "9.6", 0)],
)
def test_a_node_is_committed_from_80_percent_and_5_points_over_its_price(
    hours_of_20: int, price: str, instances: int
) -> None:
    busy = [1.0] * hours_of_20 + [0.0] * (20 - hours_of_20)
    hours = busy * 35  # 700 hours
    there = replace(use([1]), curve=Curve.hourly(hours), offers=dict([offer(price)]))
    answer = reserve.answer(
        replace(demand(there), evidence=Evidence(29.2)), period="a test", bought_on=DAY_ONE
    )
    assert [row["instances"] for row in answer.figures["options"]] == [instances]


def test_36_hours_of_data_commit_to_nothing() -> None:
    """The sample's two p5 of 36 hours: printed were 2 for three years, and not what they bind to pay."""
    three_years = Terms("reserved", 3, "no_upfront")
    p5 = use([2], offer("40"), offer("23.777", three_years), on_demand="55.04")
    short = committed(replace(p5, curve=Curve.hourly([2.0] * 36)))
    assert (short.saving, short.figures["obligation"], short.figures["best"]) == (0, 0, [])
    assert {row["instances"] for row in short.figures["options"]} == {0}
    assert short.break_even == (
        "36 hours of data: nothing that binds for years is advised on less than 28 days",
    )
    # one hour less than four weeks is as little, four weeks are enough
    assert committed(replace(p5, curve=Curve.hourly([2.0] * 671))).figures["obligation"] == 0
    answer = committed(p5)
    assert answer.figures["obligation"] == 2 * 40 * 8760
    assert answer.saving == 672 * 2 * (Decimal("55.04") - 40)
    # three years save more, and stand below: never in the headline
    (row,) = (row for row in answer.figures["options"] if row["term_years"] == 3)
    assert (row["instances"], row["obligation"]) == (2, Decimal("1249719.12"))
    assert row["saving"] > answer.saving
    tables = {table.title: table for table in answer.tables}
    assert [line[1] for line in tables["commitments"].lines] == ["reserved, 1 year, no upfront"]
    assert [line[1] for line in tables["longer terms and upfront payments"].lines] == [str(three_years)]
    upfront = committed(use([2], offer("20", Terms("reserved", 1, "all_upfront"))))
    assert (upfront.saving, upfront.figures["obligation"]) == (0, 0)


def test_no_level_is_above_that_of_the_last_week() -> None:
    # 4 nodes for three weeks and 2 in the last: over all, the third and fourth are in use 86 % of the time
    levels = [4.0] * (6 * 168) + [2.0] * 168
    there = replace(use([1]), curve=Curve.hourly(levels), offers=dict([offer("6")]))
    assert committed(there).figures["instances"] == 2
    rising = replace(there, curve=Curve.hourly([2.0] * 168 + levels[: 6 * 168]))
    assert committed(rising).figures["instances"] == 4
    # the last week is that of the data: what was not collected after it is no fall
    late = replace(demand(there), evidence=Evidence(42, 6 * 168))
    assert reserve.answer(late, period="a test", bought_on=DAY_ONE).figures["instances"] == 4
    own = buy.answer(
        OWN, Price(Decimal(10), "option"), there.curve, Evidence(49, 7 * 168), currency="USD", period="a test",
        purchase=Purchase(), bought_on=DAY_ONE,
    )  # fmt: skip
    assert (own.figures["own_nodes"], own.figures["obligation"]) == (2, 2 * 87600)
    short = buy.answer(
        OWN, Price(Decimal(10), "option"), MONTH, Evidence(27.9), currency="USD", period="a test",
        purchase=Purchase(), bought_on=DAY_ONE,
    )  # fmt: skip
    assert (short.figures["own_nodes"], short.figures["obligation"], short.saving) == (0, 0, 0)
    assert short.findings[0].startswith("27.9 days of data")


@settings(max_examples=25)
@given(
    levels=st.lists(st.floats(0, 12), min_size=1, max_size=30),
    price=st.decimals("0.01", "12", places=2),
    fall=st.sampled_from([1.0, 0.9, 0.5]),
)
def test_no_other_level_costs_less(levels: list[float], price: Decimal, fall: float) -> None:
    curve = Curve.hourly(levels).scaled(fall)
    best = curve.best_level(float(price / 10))

    def cost(level: int) -> float:
        return level * curve.hours * float(price) + (curve.node_hours - curve.used(level)) * 10

    assert all(cost(best) <= cost(level) + 1e-6 for level in range(15))


def test_regret_is_what_the_level_costs_over_the_best_one_then() -> None:
    answer = committed(use([2.0], offer("6")))
    # usage of one node: two are paid at 6, one would do
    fall, price_fall = answer.figures["regret"][4], answer.figures["regret"][-1]
    assert fall == {
        "family": "aws us-east-1 p5.48xlarge", "usage_change_percent": -50, "list_price_change_percent": 0,
        "cost": 672 * 12, "on_demand_cost": 672 * 10, "still_saves": -672 * 2, "best_cost": 672 * 6, "regret": 672 * 6,
        "advised_per_hour": 6,
    }  # fmt: skip
    assert "until usage falls by 40.0 %" in answer.break_even[0]
    assert [row["usage_change_percent"] for row in answer.figures["regret"][:5]] == [20, -10, -20, -25, -50]
    # on demand at 8, 6 still pays: 2 × 2 an hour, and would be advised, since 75 and 5 points are 80 %
    assert (price_fall["list_price_change_percent"], price_fall["still_saves"], price_fall["advised_per_hour"]) == (
        -20, 672 * 4, 12,
    )  # fmt: skip


def test_a_lower_list_price_changes_the_advice() -> None:
    # nodes in use for 90 % of the hours at 7.5 of 10: at 9 they need 88.3 %, at 8 even 98.75 %
    answer = committed(use([1.0] * 9 + [0], offer("7.5")))
    falls = {row["list_price_change_percent"]: row for row in answer.figures["regret"]}
    assert [falls[percent]["advised_per_hour"] for percent in (-10, -20)] == [Decimal("7.5"), 0]
    used = sum(answer_level == 1 for answer_level in use([1.0] * 9 + [0]).curve.levels)
    assert falls[-20]["still_saves"] == used * 8 - Decimal("7.5") * 672 < 0
    assert falls[-20]["regret"] == -falls[-20]["still_saves"]


def test_prices_over_90_days_old_are_named_and_never_lead() -> None:
    old = Price(Decimal(5), "catalog", "2026-07-02")
    new = Terms("reserved", 1, "no_upfront", "convertible")
    for age, best in ((old, "6"), (replace(old, as_of="2026-07-03"), "5")):
        there = replace(use([1]), offers={ONE_YEAR: age, new: Price(Decimal(6), "catalog", "2026-09-30")})
        answer = committed(there)
        assert answer.figures["best"][0]["committed_price_per_node_hour"] == Decimal(best)
        assert answer.figures["options"][0] == answer.figures["best"][0]
        assert answer.title == "Committing instead of paying on demand"
    alone = committed(replace(use([1]), offers={ONE_YEAR: old}))
    assert alone.title.endswith("(prices over 90 days old: p5.48xlarge of 2026-07-02)")
    cloud = Price(Decimal(10), "catalog", "2026-07-02")
    own = buy.answer(
        OWN,
        cloud,
        MONTH,
        Evidence(30),
        currency="USD",
        period="a test",
        purchase=Purchase(),
        bought_on=DAY_ONE,
    )
    assert own.title.endswith("(prices over 90 days old: the cloud of 2026-07-02)")


def test_utilization_is_hours_in_use_over_those_of_nodes_that_are_always_there() -> None:
    # 3 nodes for 10 h of a span of 40 h: 2 of them are in use for 20 of 80 node-hours
    curve = counted([(0, 10 * MS_PER_HOUR, 3.0)], 0, 40 * MS_PER_HOUR)
    assert curve.utilization(2) == 0.25
    assert curve.utilization(0) is None


def test_the_day_on_which_a_commitment_has_paid_for_itself() -> None:
    answer = committed(use([1.0, 0.8], offer("6")))
    # 60 of 100 a year are paid, 90 of 100 would be on demand: after two thirds of a year
    assert answer.figures["best"][0]["break_even_date"] == "2027-06-01"
    assert "paid for themselves on 2027-06-01, even without any later use" in answer.break_even[0]


def test_eligible_spend_and_the_effective_savings_rate() -> None:
    # 672 hours of one instance at 10; 504 more are covered, for 2,520, and 336 were paid for nothing
    there = replace(use([1.0], offer("6")), covered_hours=504.0)
    paid = {there.key: Decimal(2520), NO_KEY: Decimal(336), ("aws", "us-west-2", "g6"): Decimal(9)}
    covered = {key: Covered(there.curve, there.curve, amount) for key, amount in paid.items()}
    existing = Existing(True, covered=covered, currency="USD")
    figures = committed(there, existing=existing).figures
    assert figures["eligible_cost"] == 11760
    assert (figures["covered_percent_today"], figures["covered_percent"]) == (pytest.approx(300 / 7), 100)
    today = 11760 - 6720 - 2520 - 336
    assert figures["effective_savings_rate_percent_today"] == pytest.approx(today / 117.6)
    assert figures["effective_savings_rate_percent"] == pytest.approx((today + 4 * 672) / 117.6)
    for other in (NONE, replace(existing, currency="EUR")):
        unknown = committed(there, existing=other).figures
        assert unknown["effective_savings_rate_percent"] is None


# all upfront: 6 of 10 paid on day one, 60 % of the year; in part: 3 × 12 months upfront against 10 − 3 a month
@pytest.mark.parametrize(
    ("payment", "months"), [("no_upfront", 0.0), ("all_upfront", 7.2), ("partial_upfront", 36 / 7)]
)
def test_payback(payment: str, months: float) -> None:
    (row,) = committed(use([1.0], offer("6", Terms("reserved", 1, payment)))).figures["options"]
    assert row["payback_months"] == pytest.approx(months, abs=1e-4)


def test_savings_plans_cover_a_familys_sizes_and_reservations_do_not() -> None:
    small = use([1, 0], offer("6"), offer("6", EC2_PLAN), kind="g5.12xlarge")
    large = use([0, 0.5], offer("12"), offer("14", EC2_PLAN), on_demand="20", kind="g5.24xlarge")
    answer = committed(small, large)
    # a plan of 6 an hour: the small one takes 6 in each second hour, the large one 7 of its own plan price in the others
    rows = {row["family"]: row for row in answer.figures["options"]}
    assert {name: row["committed_per_hour"] for name, row in rows.items()} == {
        "aws us-east-1 g5": 6, "aws us-east-1 g5.12xlarge": 0, "aws us-east-1 g5.24xlarge": 0,
    }  # fmt: skip
    plan = rows["aws us-east-1 g5"]
    assert (plan["instances"], plan["obligation"], plan["utilization_percent"]) == (None, 6 * 8760, 100)
    # 6 of 7 an hour at the plan's price were 6 / 14 × 20 on demand
    assert float(answer.saving) == pytest.approx(336 * (10 + 6 / 14 * 20) - 672 * 6)
    with pytest.raises(GpucostError, match="no price of a commitment"):
        committed(use([1.0]))


def test_a_plan_for_all_families_replaces_what_it_saves_more_than() -> None:
    # one or the other type is in use: no reservation of either, no plan of a family
    g5 = use([1, 0], offer("6"), offer("6", PLAN), kind="g5.12xlarge")
    g6 = use([0, 1], offer("6"), offer("7", PLAN), kind="g6.12xlarge")
    answer = committed(g5, g6)
    (best,) = answer.figures["best"]
    assert (best["family"], best["committed_per_hour"]) == ("aws all families", 6)
    # the hours of g6 take 6 of the 7 that it costs under the plan
    assert float(answer.saving) == pytest.approx(336 * 10 + 336 * 6 / 7 * 10 - 672 * 6)
    # always in use, each has a reservation that saves more than the plan
    both = committed(replace(g5, curve=use([1]).curve), replace(g6, curve=use([1]).curve))
    assert sorted(row["family"] for row in both.figures["best"]) == [
        "aws us-east-1 g5.12xlarge", "aws us-east-1 g6.12xlarge",
    ]  # fmt: skip
    assert both.saving == 2 * 4 * 672


def test_other_usage_of_the_payer_fills_a_plan() -> None:
    """A GPU node that is in use half of the time, and CPU nodes on demand, 12 an hour, which cost 8 under plans."""
    cpu = OtherUse(Price(Decimal("1.5"), "bill"), use([8]).curve)
    gpu = use([1, 0], offer("6", PLAN))
    assert committed(gpu).figures["obligation"] == 0
    answer = committed(gpu, existing=Existing(True, others={"aws": cpu}))
    (best,) = answer.figures["best"]
    # no more than the mean use of GPUs is advised: 3 an hour, of which the GPUs take all in their hours, others in the rest
    assert (best["committed_per_hour"], best["obligation"], best["utilization_percent"]) == (3, 26280, 100)
    # cash is the on-demand price of what is newly covered: GPUs at 10 for 6, others at 1.5 for 1
    assert answer.saving == 336 * 5 + 336 * Decimal("4.5") - 672 * 3
    # a plan for one family has nothing of it, and a reservation neither
    family = committed(
        use([1, 0], offer("6", EC2_PLAN), offer("6")), existing=Existing(True, others={"aws": cpu})
    )
    assert (family.saving, family.figures["obligation"]) == (0, 0)
    # a node in use 90 % of the time needs no other usage, which takes the rest of its plan
    steady = use([1] * 9 + [0], offer("6", PLAN))
    alone, filled = committed(steady), committed(steady, existing=Existing(True, others={"aws": cpu}))
    assert (
        alone.figures["best"][0]["committed_per_hour"] == filled.figures["best"][0]["committed_per_hour"] == 6
    )
    idle = sum(level == 0 for level in steady.curve.levels)
    assert filled.saving - alone.saving == idle * 6 * Decimal("1.5")


def test_terms_and_names_of_families() -> None:
    assert parse_terms("3", "--x") == Terms("reserved", 3, "no_upfront")
    assert parse_terms("cud:1:monthly", "--x") == Terms("cud", 1, "monthly")
    for wrong in ("2", "gift:1", "1:never", ""):
        with pytest.raises(UsageError):
            parse_terms(wrong, "--x")
    names = ("p4d.24xlarge", "a2-highgpu-8g", "Standard_ND96isr_H100_v5", "Standard_NC24ads_A100_v4")
    assert [family_name(name) for name in names] == [
        "p4d",
        "a2-highgpu",
        "Standard_NDisr_H100_v5",
        "Standard_NCads_A100_v4",
    ]


def test_usage_is_on_demand_and_what_the_bill_covers_counts_first() -> None:
    # a price under a commitment is none on demand: it makes no list of what nodes cost, whatever the hour
    prices = (
        Price(Decimal(10), "price_book"),
        Price(Decimal(2), "price_book", None, START + 6 * HOUR, is_committed=True),
    )
    nodes = tuple(
        Node(f"n{index}", 8, START, START + hours * HOUR, prices, kind, provider="aws", region="us-east-1",
             instance_type="p5.48xlarge")
        for index, (hours, kind) in enumerate([(24, "on_demand"), (12, "unknown"), (24, "spot"), (24, "reserved")])
    )  # fmt: skip
    half_hours = counted([(START + HOUR // 2, START + 2 * HOUR, 2.0)], START, START + 5 * HOUR // 2)
    assert half_hours == Curve((1.0, 2.0, 0.0), (1.0, 1.0, 0.5))
    fleet = Fleet(nodes, (Pod("n0", "Job/a", 4, START, END),))
    there = Existing(True, (), {P5: in_part((START, END, 0.5))})
    for existing, is_narrowed, hours, covered in (
        (NONE, False, 12, 0),
        (there, False, 9, 3),
        (NONE, True, 3, 0),
    ):
        listed = {ON_DEMAND: Price(Decimal(11), "catalog")} | dict([offer("6")])
        (one,) = uses_of(fleet, PERIOD, existing, lambda _, of=listed: of, is_narrowed=is_narrowed)
        assert (one.key, one.on_demand.per_node_hour, set(one.offers)) == (P5, 10, {ONE_YEAR})
        assert (one.curve.node_hours, one.covered_hours) == pytest.approx((hours, covered))


def test_usage_is_uncovered_again_after_a_commitment_ends() -> None:
    """A price book's plan until noon, a bill's reservation of half a node from noon to six."""
    noon = START + 12 * HOUR
    prices = (
        Price(Decimal(2), "price_book", None, None, is_committed=True),
        Price(Decimal(10), "price_book", None, noon),
    )
    node = Node("n", 8, START, END, prices, provider="aws", region="us-east-1", instance_type="p5.48xlarge")
    there = Existing(True, (), {P5: in_part((noon, noon + 6 * HOUR, 0.5))})
    (one,) = uses_of(Fleet((node,)), PERIOD, there, lambda _: {}, is_narrowed=False)
    assert one.curve.levels == (0.0,) * 12 + (0.5,) * 6 + (1.0,) * 6


def test_hours_that_findings_free_are_taken_out_first() -> None:
    node = Node(
        "n", 8, START, END, (Price(Decimal(10), "catalog"),), provider="aws", region="us-east-1",
        instance_type="p5.48xlarge",
    )  # fmt: skip
    nights = counted([(START, START + 8 * HOUR, 1.0)], START, END)
    for freed, hours in (({P5: nights}, 16), ({("aws", "us-west-2", P5[2]): nights}, 24), (None, 24)):
        (one,) = uses_of(Fleet((node,)), PERIOD, NONE, lambda _: {}, is_narrowed=False, freed=freed)
        assert (one.curve.node_hours, one.covered_hours) == (hours, 0)


def test_days_of_data_are_those_of_any_cluster() -> None:
    with scratch_store() as con:
        assert read_evidence(con, PERIOD) == Evidence(0, 0)
        con.execute(
            "INSERT INTO collected BY NAME SELECT * FROM (VALUES ('a', $1, $1 + 6 * $2), ('b', $1 + 3 * $2, $1 + 9 * $2),"
            " ('b', $1 + 4 * $2, $1 + 5 * $2), ('a', $1 + 18 * $2, $1 + 19 * $2), ('a', $1 - $2, $1 + $2),"
            " ('a', $1 + 24 * $2, $1 + 30 * $2))"
            " AS t(cluster, from_ms, to_ms)",
            [START, HOUR],
        )
        assert read_evidence(con, PERIOD) == Evidence(10 / 24, 19)


def test_existing_commitments_are_read_from_the_bill() -> None:
    with scratch_store() as con:
        assert not read_commitments(con, START, END).is_bill_loaded
        con.execute(
            "INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,"
            " '1' AS billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 2 AS rows, 1 AS load_id,"
            " TIMESTAMP '2026-11-01' AS loaded_at"
        )
        # a fee of the whole term makes no bill of the months that it is of
        # a fee of the whole term makes no bill of the months that it is of, but shows when the commitment ends
        change_bill_rows(
            con,
            "INSERT INTO bill_rows BY NAME SELECT 1 AS bill_id, row::UBIGINT AS charge_key,"
            " TIMESTAMP '2026-10-01' AS charge_period_start, TIMESTAMP '2026-10-01' + to_days(days) AS charge_period_end,"
            " category AS charge_category, 0 AS billed_cost, cost AS effective_cost, 'USD' AS billing_currency,"
            " 'us-east-1' AS region, 'p5.48xlarge' AS instance_type, 'ri-1' AS commitment_discount_id,"
            " 'Reserved Instance' AS commitment_discount_type, status AS commitment_discount_status, kind,"
            " hours AS instance_hours, 'same' AS cost_cause, 'f' AS source_file, row AS source_row"
            " FROM (VALUES (0, 'Usage', 'Used', 'instance', 48, 300, 2),"
            " (1, 'Purchase', 'Unused', 'commitment_unused', NULL, 24, 2),"
            " (2, 'Purchase', NULL, 'commitment_fee', NULL, 0, 64)) AS t(row, category, status, kind, hours, cost, days)",
        )
        november = START + 31 * DAY
        spans = (
            (START, END), (november, november + 2 * DAY), (november + 32 * DAY, november + 34 * DAY),
            (november + 62 * DAY, november + 63 * DAY), (november - DAY, november + DAY),
        )  # fmt: skip
        october, later, ending, much_later, across = (read_commitments(con, *span) for span in spans)
    (commitment,) = october.commitments
    # half of a charge of two days
    assert (commitment.commitment_discount_id, commitment.covered_instance_hours, commitment.unused_cost) == (
        "ri-1",
        24.0,
        12,
    )
    assert october.is_bill_loaded and october.covered[P5].curve.levels == pytest.approx((1.0,) * 24)
    assert (october.month, october.currency) == (None, "USD")
    assert {key: one.paid for key, one in october.covered.items()} == {P5: 162, NO_KEY: 0}
    # a month without a bill: commitments go on as on the last day that is known
    assert (later.is_bill_loaded, later.month) == (True, "2026-10")
    assert later.covered[P5].curve.levels == pytest.approx((1.0,) * 48)
    assert [(one.covered_instance_hours, one.unused_cost) for one in later.commitments] == [(48.0, 24)]
    # until the end that the fee shows, after 64 days
    assert ending.covered[P5].curve.levels == pytest.approx((1.0,) * 24 + (0.0,) * 24)
    # the bill of October has nothing of its last day, which is no reason to go on in it
    assert across.covered[P5].curve.levels == pytest.approx((0.0,) * 24 + (1.0,) * 24)
    assert not much_later.is_bill_loaded


def test_other_usage_of_the_only_payer_is_read_from_the_bill() -> None:
    """Plans charge 6 for a machine of 8; two more of its type are on demand, and one whose price under plans nothing shows."""
    rows = (
        "INSERT INTO bill_rows BY NAME SELECT 1 AS bill_id, row::UBIGINT AS charge_key,"
        " TIMESTAMP '2026-10-01' AS charge_period_start, TIMESTAMP '2026-10-02' AS charge_period_end,"
        " 'Usage' AS charge_category, cost AS billed_cost, cost AS effective_cost, list AS list_cost, 'USD' AS billing_currency,"
        " 'us-east-1' AS region, type AS instance_type, plan AS commitment_discount_id, pricing AS pricing_category,"
        " CASE WHEN plan IS NOT NULL THEN 'Savings Plan' END AS commitment_discount_type,"
        " CASE WHEN plan IS NOT NULL THEN 'Used' END AS commitment_discount_status, 'instance' AS kind,"
        " 24 AS instance_hours, 'same' AS cost_cause, 'f' AS source_file, row AS source_row"
        " FROM (VALUES (0, 'm5.large', 'sp-1', 'Committed', 6, 8), (1, 'm5.large', NULL, 'Standard', 8, 8),"
        " (2, 'm5.large', NULL, 'Standard', 8, 8), (3, 'c5.large', NULL, 'Standard', 5, 5),"
        " (4, 'm5.large', NULL, 'Dynamic', 2, 8),"
        " (5, 'p5.48xlarge', 'sp-1', 'Committed', 30, 55), (6, 'p5.48xlarge', NULL, 'Standard', 55, 55))"
        " AS t(row, type, plan, pricing, cost, list)"
    )
    bill = (
        "INSERT INTO bills BY NAME SELECT $1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,"
        " $1::VARCHAR AS billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 7 AS rows,"
        " 1 AS load_id, TIMESTAMP '2026-11-01' AS loaded_at"
    )
    with scratch_store() as con:
        con.execute(bill, [1])
        change_bill_rows(con, rows)
        others = read_commitments(con, START, END, ["P5.48xlarge"]).others
        con.execute(bill, [2])
        two_payers = read_commitments(con, START, END, ["p5.48xlarge"]).others
    # 16 on demand, which plans would charge 12 for, half of one an hour
    assert set(others) == {"aws"}
    other = others["aws"]
    assert float(other.on_demand.per_node_hour) == pytest.approx(16 / 12)
    assert other.curve.levels == pytest.approx((0.5,) * 24)
    assert two_payers == {}


def test_commitments_of_options(tmp_path: Path) -> None:
    answer = ask(
        "reserve", "--nodes 8 --on-demand-price 32.77 --commitment-price 1=20 --commitment-discount 3=60"
    )
    assert answer["today"]["cost"] == 191376.80
    assert (answer["saving"], answer["obligation"]) == (8 * 730 * 12.77, 8 * 20 * 8760)
    assert [row["term_years"] for row in answer["options"]] == [3, 1]
    per_gpu = ask("reserve", "--nodes 1 --gpus 4 --on-demand-price 2 --price-per gpu --commitment-price 1=1")
    assert (per_gpu["today"]["cost"], per_gpu["scenario"]["cost"]) == (2 * 4 * 730, 4 * 730)
    (tmp_path / "curve.csv").write_text("hour,nodes\n" + "0,3\n1,3\n2,3\n3,2\n4,2\n5,1\n" * 112)
    file = ask("reserve", "--curve curve.csv --on-demand-price 10 --commitment-price 1=6")
    assert (file["today"]["cost"], file["scenario"]["cost"], file["instances"]) == (112 * 140, 112 * 102, 2)
    text = CliRunner().invoke(app, ["whatif", "reserve", "--nodes", "2", *shlex.split(TERMS)]).output
    assert re.search(r"Obligation +\$175,200.00 +owed, used or not", text)


TERMS = "--on-demand-price 20 --commitment-price 1=10"


def test_list_prices_of_an_instance() -> None:
    answer = ask("reserve", "--nodes 2 --instance-type a2-highgpu-8g --region us-central1")
    assert {row["kind"] for row in answer["options"]} == {"cud"}
    assert answer["today"]["gpu_hours"] == 2 * 8 * 730
    assert all(a["as_of"] for a in answer["assumptions"] if a["name"].startswith("a2-highgpu-8g"))
    place = "--nodes 1 --instance-type a2-highgpu-8g --region us-central1 --gpus-per-node 4"
    assert (
        ask("buy", f"{OPTIONS} {place}")["cloud_price"]
        == answer["best"][0]["on_demand_price_per_node_hour"] / 2
    )


# What is left of the price on demand, and of that of reservations.
DISCOUNTS: list[tuple[list[dict[str, Any]], int, int]] = [
    ([{"gpu_model": "Tesla T4"}], 70, 70),
    ([{"instance_family": "G4dn", "provider": "AWS"}], 70, 70),
    ([{"purchase_option": "on_demand"}], 70, 100),
    # as on-demand nodes have it
    ([{"purchase_option": "savings_plan"}], 70, 100),
    ([{"purchase_option": "reserved"}], 100, 70),
    # of other models, families and sources, and over by then
    (
        [
            {"gpu_model": "T4G"},
            {"instance_family": "g4"},
            {"price_sources": ["price_book"]},
            {"effective_end": "2026-10-01"},
        ],
        100,
        100,
    ),
]


def test_list_prices_have_the_discounts_of_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    terms = (("on_demand", "", ""), ("reserved", "1", "no_upfront"))
    place = ("aws", "us-east-1", "", "g4dn.xlarge")
    monkeypatch.setattr(
        own_catalog, "PRICES", [(*place, *term, "0.5", "USD", "2026-11-01") for term in terms]
    )
    own_catalog.use(own_catalog.write(tmp_path / "pricing"), monkeypatch)
    store = Store(tmp_path / "s.duckdb")
    with store.write() as con:
        con.execute(
            "INSERT INTO nodes BY NAME SELECT 1 AS node_id, 'c' AS cluster, 'n' AS node, 0 AS up_from_ms, 1 AS up_to_ms,"
            " 'on_demand' AS capacity_type, 1 AS gpu_count, 'G4dn.xlarge' AS instance_type"
        )

    def prices(*discounts: dict[str, Any]) -> dict[str, Decimal]:
        config = Config(store=store.path, prices=Prices.model_validate({"discounts": discounts}))
        offers = StoredCommitments(config, store, PERIOD).offers_of(("aws", "us-east-1", "g4dn.xlarge"))
        return {terms.kind: price.per_node_hour for terms, price in offers.items()}

    before = prices()
    for rules, *left in DISCOUNTS:
        parts = prices(*({"percent": 30} | rule for rule in rules))
        assert [round(100 * price / before[option]) for option, price in parts.items()] == left, rules


def test_wrong_curves(tmp_path: Path) -> None:
    for text in ("", "nodes\nx\n", "nodes\n-1\n", "a,b\n1,2\n", "0\n0\n", "nan\n"):
        (tmp_path / "c.csv").write_text(text)
        assert_refused("reserve", "--curve c.csv --on-demand-price 3 --commitment-price 1=2", "c.csv", 1)


def test_break_even_month_is_where_cumulative_cash_meets() -> None:
    answer = bought(MONTH)
    # a month in the cloud is 7,300, the node as it runs 730: 87,600 / 6,570 = 13.3
    assert answer.figures["break_even_months"] == pytest.approx(87600 / 6570, abs=1e-6)
    assert answer.figures["break_even_month"] == 14
    later = bought(MONTH, lead_months=3)
    assert later.figures["break_even_month"] == 17
    # the cloud is paid until the nodes are there
    assert cash(later)[0] == (0, 3 * 7300, 3 * 7300 + 87600, -87600)
    assert cash(answer)[0] == (0, 0, 87600, -87600)
    assert cash(answer)[-1] == (2, 24 * 7300, 87600 + 24 * 730, 24 * 6570 - 87600)
    # a residual value comes back at the end
    own = Own(Decimal(5), Decimal(1), Decimal(87600), Decimal(17520), 2.0, 8.0, "test")
    assert cash(bought(MONTH, own=own))[-1][2] == 87600 + 24 * 730 - 17520


def test_what_never_pays() -> None:
    best, forced = bought(MONTH, cloud="5"), bought(MONTH, cloud="5", own_nodes=1)
    assert (best.figures["own_nodes"], best.saving) == (0, 0)
    assert best.figures["break_even_month"] is forced.figures["break_even_month"] is None
    assert forced.saving < 0


def test_usage_of_the_store_counts_in_own_nodes() -> None:
    price, noon = (Price(Decimal(10), "price_book"),), START + 12 * HOUR
    nodes = (
        Node("a", 4, START, END, price, "spot", gpu_model="A100"),
        Node("b", 8, START, noon, price, gpu_model="A100"),
        Node("c", 8, START, END, price, gpu_model="T4"),
    )
    fleet = Fleet(nodes, (Pod("a", "Job/x", 4, START, END), Pod("b", "Job/x", 8, START, noon)))
    curve, cloud = cloud_usage(fleet, PERIOD, "A100", 8, is_narrowed=False)
    # 360 for 192 GPU-hours
    assert (curve.node_hours, curve.peak, cloud.per_node_hour) == (pytest.approx(24), pytest.approx(1.5), 15)
    with pytest.raises(GpucostError, match="no H100 was used"):
        cloud_usage(fleet, PERIOD, "H100", 8, is_narrowed=False)


OPTIONS = "-q --purchase-price 280000 --gpu-watts 700 --years 4 --price-per-kwh 0.12"


def test_own_nodes_of_options() -> None:
    answer = ask("buy", f"{OPTIONS} --nodes 4 --on-demand-price 55")
    assert (answer["today"]["cost"], answer["own_nodes"], answer["capex"]) == (4 * 730 * 55, 4, 4 * 280000)
    # 280,000 over 35,040 h, and 5.6 kW at 0.12
    assert answer["own_price"] == pytest.approx(280000 / 35040 + 0.672)
    assert answer["own_running_price"] == pytest.approx(0.672)
    assert answer["break_even_months"] == pytest.approx(280000 / (730 * (55 - 0.672)), abs=1e-3)
    per_gpu = ask("buy", f"{OPTIONS} --nodes 4 --on-demand-price 6.875 --price-per gpu")
    assert per_gpu["today"]["cost"] == answer["today"]["cost"]
