"""`gpucost whatif buy`, own nodes, and `whatif reserve`, commitments: the cheapest level, what it risks, when it has paid."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.config.model import Config, Prices
from gpucost.errors import GpucostError, UsageError
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions.whatif.commitments import StoredCommitments
from gpucost.store.connection import Store, scratch_store
from gpucost.whatif import buy, reserve
from gpucost.whatif.answer import Answer
from gpucost.whatif.buy import Own, Purchase, cloud_usage
from gpucost.whatif.curve import Curve, counted
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from gpucost.whatif.reserve import (
    Existing,
    Family,
    ReservedUse,
    Terms,
    families_of,
    family_name,
    parse_terms,
    read_commitments,
)
from tests import own_catalog
from tests.bill_table import change_bill_rows
from tests.unit.whatif_costs import ask, assert_refused

pytestmark = pytest.mark.usefixtures("nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
START, END, HOUR = PERIOD.start_ms, PERIOD.end_ms, MS_PER_HOUR
DAY = 24 * HOUR
P5 = ("aws", "us-east-1", "p5.48xlarge")
NONE = Existing(is_bill_loaded=False)
ONE_YEAR, PLAN = Terms("reserved", 1, "no_upfront"), Terms("savings_plan", 1, "no_upfront")
# 8,760 h a year: 87,600 over 2 years are 5 an hour, and 1 an hour as it runs
OWN = Own(Decimal(6), Decimal(1), Decimal(87600), Decimal(0), 2.0, 8.0, "test")
MONTH = Curve((1.0,), (730.0,))


def offer(price: str, terms: Terms = ONE_YEAR) -> tuple[Terms, Price]:
    return terms, Price(Decimal(price), "option")


def use(
    levels: list[float], *offers: tuple[Terms, Price], on_demand: str = "10", kind: str = "p5.48xlarge"
) -> ReservedUse:
    return ReservedUse(kind, 8, Price(Decimal(on_demand), "option"), Curve.hourly(levels), dict(offers))


def committed(*uses: ReservedUse, **more: Any) -> Answer:
    family = Family("aws", "us-east-1", family_name(uses[0].instance_type), uses)
    return reserve.answer((family,), NONE, currency="USD", period="a test", **more)


def bought(curve: Curve, cloud: str = "10", own: Own = OWN, **options: Any) -> Answer:
    price, purchase = Price(Decimal(cloud), "option"), Purchase(**options)
    return buy.answer(own, price, curve, currency="USD", period="a test", purchase=purchase)


def cash(answer: Answer) -> tuple[tuple[Any, ...], ...]:
    return next(table.lines for table in answer.tables if table.title == "cumulative cash")


def test_what_is_used_more_than_the_break_even_is_committed_or_bought() -> None:
    # nodes 1, 2 and 3 are in use 5, 4 and 1 of 5 hours; one at 6 pays from 60 % on
    levels: list[float] = [3, 2, 2, 2, 1]
    commitment, own = committed(use(levels, offer("6"))), bought(Curve.hourly(levels))
    assert commitment.figures["instances"] == own.figures["own_nodes"] == 2
    for answer in (commitment, own):
        assert (answer.today.cost, answer.scenario.cost) == (100, 2 * 5 * 6 + 10)
        assert answer.figures["break_even_utilization_percent"] == pytest.approx(60)
    shares = [commitment.figures[f"{name}_percent"] for name in ("coverage", "utilization")]
    assert [*shares, own.figures["base_load_percent"]] == pytest.approx([90] * 3)


@pytest.mark.parametrize(
    ("price", "instances"),
    # the second node is in use for 84 % of the time; its price is 60, 79 or 81 % of that on demand
    [("6", 2), ("7.9", 2), ("8.1", 1)],
)
def test_the_last_node_is_used_for_80_percent_and_5_points_above_its_break_even(
    price: str, instances: int
) -> None:
    levels: list[float] = [2] * 21 + [1] * 4
    assert committed(use(levels, offer(price))).figures["options"][0]["instances"] == instances
    rare: list[float] = [2] * 19 + [1] * 6  # 76 %
    assert committed(use(rare, offer("6"))).figures["instances"] == 1


def test_no_commitment_is_advised_of_36_hours_or_above_the_last_week() -> None:
    steady: list[float] = [2] * 24 * 28
    answer = committed(use(steady, offer("6")), days=28.0)
    assert answer.saving == 2 * 4 * 24 * 28
    # what is owed for a year, used or not
    assert answer.figures["obligation"] == answer.scenario.more["obligation"] == 2 * 6 * 8760
    assert "oblige you to pay 105,120.00 USD" in answer.findings[0]
    short = committed(use(steady, offer("6")), days=27.9)
    assert (short.saving, short.figures["obligation"]) == (0, 0)
    assert "under 28 days no commitment is advised" in short.findings[0]
    # usage fell a week ago
    falling: list[float] = [2] * 24 * 60 + [1] * 24 * 7
    assert committed(use(falling, offer("6")), days=67.0).figures["instances"] == 1
    assert committed(use(falling, offer("6"))).figures["instances"] == 2  # described by options: no week


def test_the_headline_is_one_year_without_upfront_payment() -> None:
    long, upfront = Terms("reserved", 3, "no_upfront"), Terms("reserved", 1, "all_upfront")
    steady = use([1] * 24, offer("6"), offer("4", long), offer("5", upfront))
    answer = committed(steady)
    assert [best["term_years"] for best in answer.figures["best"]] == [1] and answer.saving == 4 * 24
    assert {row["cost"] for row in answer.figures["options"]} == {6 * 24, 4 * 24, 5 * 24}
    chosen = committed(steady, any_terms=True)
    assert (chosen.figures["best"][0]["term_years"], chosen.saving) == (3, 6 * 24)
    assert chosen.figures["obligation"] == 4 * 3 * 8760


def test_what_falling_prices_leave_of_the_saving() -> None:
    # at 10 an hour on demand 4 × 24 are saved; at 9 and 8: 3 and 2
    falls = committed(use([1] * 24, offer("6"))).figures["if_price_falls"]
    assert [(fall["percent"], fall["saving"]) for fall in falls] == [(10, 72), (20, 48)]


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
    answer = committed(use([2.0] * 10, offer("6")))
    # usage of one node: two are paid at 6, one would do
    assert answer.figures["regret"][-1] == {
        "family": "aws us-east-1 p5", "usage_change_percent": -50, "cost": 120, "on_demand_cost": 100, "still_saves": -20,
        "best_cost": 60, "regret": 60,
    }  # fmt: skip
    assert "until usage falls by 40.0 %" in answer.break_even[0]


def test_the_day_on_which_a_commitment_has_paid_for_itself() -> None:
    family = Family("aws", "us-east-1", "p5", (use([1.0, 0.8], offer("6")),))
    old = replace(family.uses[0].offers[ONE_YEAR], as_of="2026-07-01")
    family = replace(family, uses=(replace(family.uses[0], offers={ONE_YEAR: old}),))
    scenario = reserve.answer((family,), NONE, currency="USD", period="a test", bought_on=date(2026, 10, 1))
    answer = scenario
    # 60 of 100 a year are paid, 90 of 100 would be on demand: after two thirds of a year
    assert answer.figures["best"][0]["break_even_date"] == "2027-06-01"
    assert "paid for themselves on 2027-06-01, even if nobody uses them again" in answer.break_even[0]
    assert answer.title.endswith("(prices over 90 days old: p5.48xlarge of 2026-07-01)")
    assert [row["usage_change_percent"] for row in answer.figures["regret"]] == [20, -10, -20, -25, -50]


def test_eligible_spend_and_the_effective_savings_rate() -> None:
    # four hours of one instance at 10; three more are covered, for 15, and 2 were paid for nothing
    there = replace(use([1.0] * 4, offer("6")), covered_hours=3.0)
    family = Family("aws", "us-east-1", "p5", (there,))
    paid = {("aws", "us-east-1", "p5.48xlarge"): Decimal(15), reserve.NOTHING: Decimal(2)}
    existing = Existing(True, paid=paid, currency="USD")
    figures = reserve.answer((family,), existing, currency="USD", period="a test").figures
    assert figures["eligible_cost"] == 70
    assert (figures["covered_percent_today"], figures["covered_percent"]) == (pytest.approx(300 / 7), 100)
    assert figures["effective_savings_rate_percent_today"] == pytest.approx((70 - 40 - 17) / 70 * 100)
    assert figures["effective_savings_rate_percent"] == pytest.approx((70 - 24 - 17) / 70 * 100)
    for other in (NONE, replace(existing, currency="EUR")):
        unknown = reserve.answer((family,), other, currency="USD", period="a test").figures
        assert unknown["effective_savings_rate_percent"] is None


# all upfront: 6 of 10 paid on day one, 60 % of the year; in part: 3 × 12 months upfront against 10 − 3 a month
@pytest.mark.parametrize(
    ("payment", "months"), [("no_upfront", 0.0), ("all_upfront", 7.2), ("partial_upfront", 36 / 7)]
)
def test_payback(payment: str, months: float) -> None:
    answer = committed(use([1.0] * 5, offer("6", Terms("reserved", 1, payment))), any_terms=True)
    assert answer.figures["payback_months"] == pytest.approx(months, abs=1e-4)


def test_savings_plans_cover_a_familys_sizes_and_reservations_do_not() -> None:
    small = use([1, 0], offer("6"), offer("6", PLAN), kind="g5.12xlarge")
    answer = committed(small, use([0, 0.5], offer("12"), on_demand="20", kind="g5.24xlarge"))
    # one small instance's worth is in use in every hour, but no type is for more than half the time
    assert {row["kind"]: row["instances"] for row in answer.figures["options"]} == {
        "savings_plan": 1,
        "reserved": 0,
    }
    assert answer.scenario.cost == 12
    with pytest.raises(GpucostError, match="no price of a commitment"):
        committed(use([1.0]))


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
    there = Existing(True, (), {P5: counted([(START, END, 0.5)], START, END)})
    for existing, is_narrowed, hours, covered in (
        (NONE, False, 36, 0),
        (there, False, 24, 12),
        (NONE, True, 12, 0),
    ):
        listed = (Price(Decimal(11), "catalog"), dict([offer("6")]))
        (family,) = families_of(fleet, PERIOD, existing, lambda *_, of=listed: of, is_narrowed=is_narrowed)
        (one,) = family.uses
        assert (family.provider, family.region, family.name, one.on_demand.per_node_hour) == (
            "aws",
            "us-east-1",
            "p5",
            10,
        )
        assert (one.curve.node_hours, one.covered_hours) == pytest.approx((hours, covered))


def test_existing_commitments_are_read_from_the_bill() -> None:
    with scratch_store() as con:
        assert not read_commitments(con, START, END).is_bill_loaded
        con.execute(
            "INSERT INTO bills BY NAME SELECT 1 AS bill_id, 'aws' AS provider, 's' AS source, 'aws-cur' AS format,"
            " '1' AS billing_account_id, '2026-10' AS billing_period, true AS is_whole, '' AS digest, 2 AS rows, 1 AS load_id,"
            " TIMESTAMP '2026-11-01' AS loaded_at"
        )
        # a fee of the whole term makes no bill of the months that it is of
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
            " (2, 'Purchase', NULL, 'commitment_fee', NULL, 0, 365)) AS t(row, category, status, kind, hours, cost, days)",
        )
        november = START + 31 * DAY
        spans = ((START, END), (november, november + 2 * DAY), (november + 62 * DAY, november + 63 * DAY))
        october, later, much_later = (read_commitments(con, *span) for span in spans)
    (commitment,) = october.commitments
    # half of a charge of two days
    assert (commitment.commitment_discount_id, commitment.covered_instance_hours, commitment.unused_cost) == (
        "ri-1",
        24.0,
        12,
    )
    assert october.is_bill_loaded and october.covered[P5].levels == (1.0,) * 24
    # a month without a bill: commitments go on as on the last day that is known
    assert (later.is_bill_loaded, later.month, later.covered[P5].levels) == (True, "2026-10", (1.0,) * 48)
    assert [(one.covered_instance_hours, one.unused_cost) for one in later.commitments] == [(48.0, 24)]
    assert not much_later.is_bill_loaded


def test_commitments_of_options(tmp_path: Path) -> None:
    answer = ask(
        "reserve", "--nodes 8 --on-demand-price 32.77 --commitment-price 1=20 --commitment-discount 3=60"
    )
    assert (answer["today"]["cost"], answer["saving_percent"]) == (191376.80, pytest.approx(60))
    assert [row["term_years"] for row in answer["options"]] == [1, 3]
    per_gpu = ask("reserve", "--nodes 1 --gpus 4 --on-demand-price 2 --price-per gpu --commitment-price 1=1")
    assert (per_gpu["today"]["cost"], per_gpu["scenario"]["cost"]) == (2 * 4 * 730, 4 * 730)
    (tmp_path / "curve.csv").write_text("hour,nodes\n0,3\n1,2\n2,2\n3,2\n4,1\n")
    file = ask("reserve", "--curve curve.csv --on-demand-price 10 --commitment-price 1=6")
    assert (file["today"]["cost"], file["scenario"]["cost"], file["instances"]) == (100, 70, 2)


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
    with store.write():
        pass

    def prices(*discounts: dict[str, Any]) -> dict[str, Decimal]:
        config = Config(store=store.path, prices=Prices.model_validate({"discounts": discounts}))
        listed, offers = StoredCommitments(config, store, PERIOD).offers_of("aws", "us-east-1", "g4dn.xlarge")
        assert listed
        return {"on_demand": listed.per_node_hour} | {
            terms.kind: price.per_node_hour for terms, price in offers.items()
        }

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
