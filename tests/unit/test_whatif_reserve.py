"""`gpucost whatif reserve`: the cheapest level, what it risks, and what is there already."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR, Period, to_ms
from gpucost.store.connection import scratch_store
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from gpucost.whatif.reserve import (
    Existing,
    Family,
    ReservedUse,
    Terms,
    answer,
    families_of,
    family_name,
    parse_terms,
    read_commitments,
)
from tests.unit.whatif_costs import answered, plain_cost

pytestmark = pytest.mark.usefixtures("stages_together", "nowhere")

NONE = Existing(is_bill_loaded=False)
ONE_YEAR = Terms("reserved", 1, "no_upfront")
PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))


def offer(price: str, terms: Terms = ONE_YEAR) -> tuple[Terms, Price]:
    return terms, Price(Decimal(price), "option")


def use(levels: list[float], *offers: tuple[Terms, Price], on_demand: str = "10", kind: str = "p5.48xlarge") -> ReservedUse:
    return ReservedUse(kind, 8, Price(Decimal(on_demand), "option"), Curve.hourly(levels), dict(offers))


def ask(*uses: ReservedUse, **options: Any) -> Any:
    family = Family("aws", "us-east-1", family_name(uses[0].instance_type), uses)
    return answered(answer((family,), NONE, currency="USD", period="a test", **options), plain_cost)


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["whatif", "reserve", *words, "--format", "json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


def test_commits_what_is_used_more_than_the_break_even() -> None:
    # nodes 1, 2 and 3 are in use 4, 3 and 1 of 4 hours; a commitment pays from 60 % on
    found = ask(use([3, 2, 2, 1], offer("6")))
    assert found.figures["instances"] == 2
    assert found.today.cost == 80
    assert found.scenario.cost == 2 * 4 * 6 + 10
    assert found.figures["coverage_percent"] == pytest.approx(87.5)
    assert found.figures["utilization_percent"] == pytest.approx(87.5)
    assert found.figures["break_even_utilization_percent"] == pytest.approx(60)


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


@given(
    levels=st.lists(st.floats(0, 6), min_size=1, max_size=12).filter(any),
    prices=st.lists(st.decimals("0.5", "14", places=2), min_size=1, max_size=3),
)
def test_saves_nothing_less_than_nothing_and_no_more_than_today(levels: list[float], prices: list[Decimal]) -> None:
    terms = (ONE_YEAR, Terms("savings_plan", 1, "no_upfront"), Terms("reserved", 3, "all_upfront"))
    found = ask(use(levels, *(offer(str(price), of) for price, of in zip(prices, terms, strict=False))))
    assert Decimal("-0.0001") <= found.saving <= found.today.cost
    assert all(row["regret"] >= 0 for row in found.figures["regret"])
    assert float(min(row["cost"] for row in found.figures["options"])) == pytest.approx(float(found.scenario.cost), abs=1e-3)


def test_regret_is_what_the_level_costs_over_the_best_one_then() -> None:
    found = ask(use([2.0] * 10, offer("6")))
    half = found.figures["regret"][2]
    # usage of one node: two are paid at 6, one would do
    assert half == {
        "family": "aws us-east-1 p5", "usage_falls_percent": 50, "cost": 120, "on_demand_cost": 100, "still_saves": -20,
        "best_cost": 60, "regret": 60,
    }  # fmt: skip
    assert "until usage falls by 40.0 %" in found.break_even[0]


@pytest.mark.parametrize(
    ("payment", "months"),
    [
        ("no_upfront", 0.0),
        # 6 of 10 paid on day one: 60 % of the year
        ("all_upfront", 7.2),
        # 3 × 12 months upfront against 10 − 3 a month
        ("partial_upfront", 36 / 7),
    ],
)
def test_payback(payment: str, months: float) -> None:
    found = ask(use([1.0] * 5, offer("6", Terms("reserved", 1, payment))))
    assert found.figures["payback_months"] == pytest.approx(months, abs=1e-4)


def test_savings_plans_cover_a_familys_sizes_and_reservations_do_not() -> None:
    small = use([1, 0], offer("6"), offer("6", Terms("savings_plan", 1, "no_upfront")), kind="g5.12xlarge")
    large = use([0, 0.5], offer("12"), on_demand="20", kind="g5.24xlarge")
    found = ask(small, large)
    options = {row["kind"]: row for row in found.figures["options"]}
    # one small instance's worth is in use in every hour, but no type is for more than half the time
    assert options["savings_plan"]["instances"] == 1
    assert options["reserved"]["instances"] == 0
    assert found.scenario.cost == 12


def test_terms() -> None:
    assert parse_terms("3", "--x") == Terms("reserved", 3, "no_upfront")
    assert parse_terms("cud:1:monthly", "--x") == Terms("cud", 1, "monthly")
    for wrong in ("2", "foo", "gift:1", "1:never", ""):
        with pytest.raises(UsageError):
            parse_terms(wrong, "--x")


@pytest.mark.parametrize(
    ("instance_type", "family"),
    [
        ("p4d.24xlarge", "p4d"),
        ("a2-highgpu-8g", "a2-highgpu"),
        ("Standard_ND96isr_H100_v5", "Standard_NDisr_H100_v5"),
        ("Standard_NC24ads_A100_v4", "Standard_NCads_A100_v4"),
    ],
)
def test_family_name(instance_type: str, family: str) -> None:
    assert family_name(instance_type) == family


def fleet() -> Fleet:
    start = PERIOD.start_ms
    nodes = tuple(
        Node(f"n{index}", 8, start, start + hours * MS_PER_HOUR, (Price(Decimal(10), "price_book"),), kind, provider="aws",
             region="us-east-1", instance_type="p5.48xlarge")
        for index, (hours, kind) in enumerate([(24, "on_demand"), (12, "unknown"), (24, "spot"), (24, "reserved")])
    )  # fmt: skip
    return Fleet(nodes, (Pod("n0", "Job/a", 4, start, start + 24 * MS_PER_HOUR),))


def test_usage_is_on_demand_and_what_the_bill_covers_counts_first() -> None:
    def offers(provider: str, region: str, instance_type: str) -> tuple[Price, dict[Terms, Price]]:
        return Price(Decimal(11), "catalog"), dict([offer("6")])

    (family,) = families_of(fleet(), PERIOD, NONE, offers, is_narrowed=False)
    assert (family.provider, family.region, family.name) == ("aws", "us-east-1", "p5")
    assert family.uses[0].curve.node_hours == pytest.approx(36)
    assert family.uses[0].on_demand.per_node_hour == 10
    half = counted([(PERIOD.start_ms, PERIOD.end_ms, 0.5)], PERIOD.start_ms, PERIOD.end_ms)
    there = Existing(True, (), {("aws", "us-east-1", "p5.48xlarge"): half})
    (family,) = families_of(fleet(), PERIOD, there, offers, is_narrowed=False)
    assert family.uses[0].curve.node_hours == pytest.approx(24)
    assert family.uses[0].covered_hours == pytest.approx(12)
    (family,) = families_of(fleet(), PERIOD, NONE, offers, is_narrowed=True)
    assert family.uses[0].curve.node_hours == pytest.approx(12)


def test_existing_commitments_are_read_from_the_bill() -> None:
    with scratch_store() as con:
        assert not read_commitments(con, PERIOD.start_ms, PERIOD.end_ms).is_bill_loaded
        con.execute(
            "INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,"
            " '1' AS billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 2 AS rows, 1 AS load_id,"
            " TIMESTAMP '2026-11-01' AS loaded_at"
        )
        for row, (category, status, kind, hours, cost, days) in enumerate(
            [
                ("Usage", "Used", "instance", 48, 300, 2),
                ("Purchase", "Unused", "commitment_unused", None, 24, 2),
                # a fee of the whole term makes no bill of the months that it is of
                ("Purchase", None, "commitment_fee", None, 0, 365),
            ]
        ):
            con.execute(
                "INSERT INTO bill_rows BY NAME SELECT 1 AS bill_id, $row::UBIGINT AS charge_key,"
                " TIMESTAMP '2026-10-01' AS charge_period_start, TIMESTAMP '2026-10-01' + to_days($days) AS charge_period_end,"
                " $category AS charge_category, 0 AS billed_cost, $cost AS effective_cost, 'USD' AS billing_currency,"
                " 'us-east-1' AS region, 'p5.48xlarge' AS instance_type, 'ri-1' AS commitment_discount_id,"
                " 'Reserved Instance' AS commitment_discount_type, $status AS commitment_discount_status, $kind AS kind,"
                " $hours AS instance_hours, 'same' AS cost_cause, 'f' AS source_file, $row AS source_row",
                {"row": row, "category": category, "cost": cost, "days": days, "status": status, "kind": kind, "hours": hours},
            )
        found = read_commitments(con, PERIOD.start_ms, PERIOD.end_ms)
        november = to_ms(datetime(2026, 11, 1, tzinfo=UTC))
        later = read_commitments(con, november, november + 48 * MS_PER_HOUR)
        much_later = read_commitments(con, november + 62 * 24 * MS_PER_HOUR, november + 63 * 24 * MS_PER_HOUR)
    assert found.is_bill_loaded
    (commitment,) = found.commitments
    # half of a charge of two days
    assert (commitment.commitment_discount_id, commitment.covered_instance_hours, commitment.unused_cost) == ("ri-1", 24.0, 12)
    assert found.covered["aws", "us-east-1", "p5.48xlarge"].levels == (1.0,) * 24
    # a month without a bill: commitments go on as on the last day that is known
    assert (later.is_bill_loaded, later.month) == (True, "2026-10")
    assert later.covered["aws", "us-east-1", "p5.48xlarge"].levels == (1.0,) * 48
    assert [(one.covered_instance_hours, one.unused_cost) for one in later.commitments] == [(48.0, 24)]
    assert not much_later.is_bill_loaded


def test_counted_curve_splits_hours() -> None:
    start = to_ms(PERIOD.start)
    curve = counted([(start + MS_PER_HOUR // 2, start + 2 * MS_PER_HOUR, 2.0)], start, start + 5 * MS_PER_HOUR // 2)
    assert curve.levels == (1.0, 2.0, 0.0)
    assert curve.lengths == (1.0, 1.0, 0.5)


def test_nothing_on_offer_is_an_error() -> None:
    with pytest.raises(GpucostError, match="no price of a commitment"):
        ask(use([1.0]))


def test_calculator() -> None:
    found = run("--nodes", "8", "--on-demand-price", "32.77", "--commitment-price", "1=20", "--commitment-discount", "3=60")
    assert found["today"]["cost"] == 191376.80
    assert found["scenario"]["cost"] == pytest.approx(191376.80 * 0.4)
    assert found["saving_percent"] == pytest.approx(60)
    assert [row["term_years"] for row in found["options"]] == [1, 3]
    per_gpu = run("--nodes", "1", "--gpus", "4", "--on-demand-price", "2", "--price-per", "gpu", "--commitment-price", "1=1")
    assert per_gpu["today"]["cost"] == 2 * 4 * 730
    assert per_gpu["scenario"]["cost"] == 4 * 730


def test_curve_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "curve.csv").write_text("hour,nodes\n0,3\n1,2\n2,2\n3,1\n")
    found = run("--curve", "curve.csv", "--on-demand-price", "10", "--commitment-price", "1=6")
    assert (found["today"]["cost"], found["scenario"]["cost"], found["instances"]) == (80, 58, 2)


def test_list_prices_of_an_instance() -> None:
    found = run("--nodes", "2", "--instance-type", "a2-highgpu-8g", "--region", "us-central1")
    assert {row["kind"] for row in found["options"]} == {"cud"}
    assert found["today"]["gpu_hours"] == 2 * 8 * 730
    assert all(a["as_of"] for a in found["assumptions"] if a["name"].startswith("a2-highgpu-8g"))


@pytest.mark.parametrize("text", ["", "nodes\nx\n", "nodes\n-1\n", "a,b\n1,2\n", "0\n0\n", "nan\n"])
def test_wrong_curves(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.csv").write_text(text)
    result = CliRunner().invoke(
        app, ["whatif", "reserve", "--curve", "c.csv", "--on-demand-price", "3", "--commitment-price", "1=2"]
    )
    assert result.exit_code == 1, result.output
    assert "c.csv" in result.output
