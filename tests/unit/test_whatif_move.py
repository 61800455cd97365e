"""`gpucost whatif move`: work elsewhere where it costs clearly less, and downloads at every start against a cache."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif import downloads, move
from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.downloads import Downloads, SameData, Transfer, starts_of
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from gpucost.whatif.move import Moving, Place, Work
from tests.unit.whatif_costs import ask

pytestmark = pytest.mark.usefixtures("nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
START, HOUR = PERIOD.start_ms, MS_PER_HOUR
USE = Assumption("work", "the work", "", "test")
HOME = Place("aws", "us-east-1", Decimal(1), "test")


def moved(*places: Place, cash: Decimal | None = None, **changes: Any) -> Answer:
    moving = Moving(**{"at_most_percent": 70.0, "egress_gb": Decimal(0), "egress_price_per_gb": Decimal("0.05"),
                        "wait_minutes": 0.0, "transfer_gbit_per_second": 5.0} | changes)  # fmt: skip
    work = Work("the work", HOME, 800, 8.0, 2, places, cash, cash)
    today = None if cash is None else Position(cash, "USD")
    return move.answer([work], moving, today, USE, currency="USD", period="a test")


def place(price: str, provider: str = "aws", region: str = "us-west-2") -> Place:
    return Place(provider, region, Decimal(price), "test")


@pytest.mark.parametrize(
    ("price", "today", "is_worth_it", "cost"),
    [
        ("0.7", 800, True, 560),
        ("0.700001", 800, False, 800),
        ("0.5", 800, True, 400),
        ("0.5", 300, False, 300),
    ],
)
def test_worth_it_at_seventy_percent_of_the_primary_and_less_than_today(
    price: str, today: int, is_worth_it: bool, cost: int
) -> None:
    answer = moved(place(price), cash=Decimal(today))
    assert answer.figures["places"][0]["is_worth_it"] is is_worth_it
    assert (answer.today.cost, answer.scenario.cost) == (today, cost)


def test_old_prices_are_listed_last_and_move_nothing() -> None:
    old = replace(place("0.3", "gcp", "us-east1"), as_of="2025-01-31", is_stale=True)
    answer = moved(old, place("0.5"))
    assert [row["provider"] for row in answer.figures["places"]] == ["aws", "gcp"]
    assert answer.figures["best"]["the work"] == "aws us-west-2" and answer.scenario.cost == 400
    alone = moved(old)
    assert (
        alone.saving == 0
        and "places with old prices would cost less: 1, the first gcp us-east1 (2025-01-31)"
        in alone.findings[0]
    )


def test_data_and_waiting_are_counted() -> None:
    places = (place("0.5"), place("0.4", "gcp", "us-central1"))
    answer = moved(*places, egress_gb=Decimal(1000), wait_minutes=30, delay_cost_per_hour=Decimal(10))
    cost = {row["provider"]: float(row["cost"]) for row in answer.figures["places"]}
    # 2 starts of half an hour on nodes of 8 GPUs, and 8,000 Gbit at 5 Gbit/s
    delay = 10 * (1 + 1600 / 3600)
    assert cost == pytest.approx({"aws": 808 * 0.5 + 50 + delay, "gcp": 808 * 0.4 + 50 + delay}, abs=1e-4)
    assert answer.figures["best"]["the work"] == "gcp us-central1"
    assert answer.time[0].startswith("Each start waits 30 min longer, 1.0 h in all")


def test_data_and_its_delay_are_shared_by_gpu_hours() -> None:
    works = [Work(name, HOME, hours, 8.0, 2, (place("0.5"),)) for name, hours in (("a", 800), ("b", 2400))]
    moving = Moving(
        egress_gb=Decimal(400), egress_price_per_gb=Decimal(1), wait_minutes=30.0,
        delay_cost_per_hour=Decimal(36), transfer_gbit_per_second=8.0,
    )  # fmt: skip
    answer = move.answer(works, moving, None, USE, currency="USD", period="a test")
    # a quarter and three quarters of 400 GB, which move for 400 s; each start waits half an hour on 8 GPUs
    costs = {row["work"]: float(row["cost"]) for row in answer.figures["places"]}
    assert costs == pytest.approx({"a": 808 * 0.5 + 100 + 36 + 1, "b": 2408 * 0.5 + 300 + 36 + 3}, abs=1e-6)
    assert answer.figures["places"][0]["percent_of_primary"] == pytest.approx(541 / 800 * 100)
    # up to 560 dollars it is worth it: 19 more than it costs
    assert "or 119 GB are moved instead of 100." in answer.break_even[0]
    assert answer.time[0].endswith("2.0 h in all.") and "0.1 h to move" in answer.time[1]


@settings(max_examples=25)
@given(
    prices=st.lists(st.decimals("0.01", "3", places=3), min_size=1, max_size=5),
    gb=st.integers(0, 5000),
    limit=st.floats(1, 100),
)
def test_nothing_costs_more_than_its_limit_or_less_with_more_data(
    prices: list[Decimal], gb: int, limit: float
) -> None:
    places = [place(str(price), region=f"r{i}") for i, price in enumerate(prices)]
    answer, more = (moved(*places, egress_gb=Decimal(data), at_most_percent=limit) for data in (gb, gb + 100))
    assert 0 <= answer.saving <= answer.today.cost
    if answer.saving:
        assert float(answer.scenario.cost) <= float(answer.today.cost) * limit / 100 + 1e-6
    costs = [row["cost"] for row in answer.figures["places"]]
    assert costs == sorted(costs)
    assert more.scenario.cost >= answer.scenario.cost


def test_work_of_the_store_by_gpu_and_kind() -> None:
    nodes = tuple(
        Node(name, 8, START, START + 10 * HOUR, (Price(Decimal(price), "price_book"),), kind, provider="aws",
             region="us-east-1", gpu_model=model)
        for name, price, kind, model in (("s", 8, "spot", "A100"), ("o", 24, "on_demand", "A100"), ("t", 4, "on_demand", "T4"))
    )  # fmt: skip
    pods = tuple(Pod(one.name, "Job/x", 8, START, START + 10 * HOUR, uid=one.name) for one in nodes)
    works, findings = move.works_of(Fleet(nodes, pods), {}, {"A100": [place("0.5"), HOME]})
    # both are held against what spot costs there, and never against their own region
    assert [
        (work.name, work.gpu_hours, work.paid, work.cash, work.primary.price_per_gpu_hour, work.places)
        for work in works
    ] == [
        ("A100 aws us-east-1 on demand", 80, 240, 240, 1, (place("0.5"),)),
        ("A100 aws us-east-1 on spot", 80, 80, 80, 1, (place("0.5"),)),
    ]
    assert findings == [
        "T4 aws us-east-1 on demand: the spot price there is unknown; 40.00 stays where it is."
    ]


def test_starts_are_counted_in_the_largest_pods() -> None:
    node = Node(
        "n",
        8,
        START,
        START + HOUR,
        (Price(Decimal(8), "x"),),
        "on_demand",
        provider="aws",
        region="r",
        gpu_model="A100",
    )
    empty = replace(node, name="m", gpu_model="T4")
    pods = tuple(Pod("n", "Job/x", gpus, START, START + HOUR, uid=str(gpus)) for gpus in (2, 4))
    fleet, no_price = Fleet((node, empty), pods), replace(HOME, price_per_gpu_hour=Decimal(0))
    works, _ = move.works_of(fleet, {("aws", "r", "A100"): HOME}, {})
    assert [(work.gpus, work.starts, work.paid) for work in works] == [(4, 1.5, 6)]
    assert move.works_of(fleet, {("aws", "r", "A100"): no_price}, {})[0] == []


def test_what_is_paid_anyway_moves_nowhere() -> None:
    """A commitment, a capacity block and an own machine are paid wherever the work runs."""
    dollar = Price(Decimal(24), "bill")
    facts = {"region": "us-east-1", "gpu_model": "A100", "instance_type": "p4d.24xlarge"}
    kinds = {
        "plan": Node("plan", 8, START, START + HOUR, (replace(dollar, is_committed=True),), "on_demand", provider="aws", **facts),
        "block": Node("block", 8, START, START + HOUR, (dollar,), "capacity_block", provider="aws", **facts),
        "own": Node("own", 8, START, START + HOUR, (dollar,), "on_demand", gpu_model="A100"),
        "rented": Node("rented", 8, START, START + HOUR, (dollar,), "on_demand", provider="gcp", **facts),
    }  # fmt: skip
    pods = tuple(Pod(name, "Job/x", 8, START, START + HOUR, uid=name) for name in kinds)
    spot = {("aws", "us-east-1", "A100"): HOME, ("gcp", "us-east-1", "A100"): HOME, ("", "", "A100"): HOME}
    works, _ = move.works_of(Fleet(tuple(kinds.values()), pods), spot, {"A100": [place("0.5")]})
    assert {work.name: (work.paid, work.cash) for work in works} == {
        "A100 aws us-east-1 on demand": (48, 0),
        "A100 gcp us-east-1 on demand": (24, 24),
        "A100 on demand": (24, 0),
    }
    moving = Moving(wait_minutes=0.0)
    answer = move.answer(works, moving, Position(Decimal(96), "USD"), USE, currency="USD", period="a test")
    # only the rented node's 24 leave the bill, for 8 GPU-hours at 0.5
    assert (answer.today.cost, answer.scenario.cost) == (96, 96 - 24 + 4)
    assert sum("stays on the bill wherever it runs" in text for text in answer.findings) == 2


def test_work_of_options() -> None:
    work = "--nodes 4 --hours 100 --wait-minutes 0"
    answer = ask("move", f"{work} --spot-price 12 --place 'gcp us-east1=7' --place b=9")
    assert (answer["today"]["cost"], answer["scenario"]["cost"]) == (4800, 2800)
    assert [row["is_worth_it"] for row in answer["places"]] == [True, False]
    per_gpu = ask("move", f"{work} --spot-price 1.5 --price-per gpu --place x=0.5")
    assert (per_gpu["today"]["cost"], per_gpu["scenario"]["cost"]) == (4800, 1600)


def test_places_of_the_catalog() -> None:
    answer = ask(
        "move",
        "--instance-type a2-highgpu-8g --region us-central1 --nodes 2 --hours 10 --to-provider gcp --wait-minutes 15",
    )
    assert answer["today"]["gpu_hours"] == 160
    assert all(
        row["price_as_of"] and row["source"] and row["region"] != "us-central1" for row in answer["places"]
    )
    assert {row["provider"] for row in answer["places"]} == {"gcp"}


def cached(*several: Downloads, **changes: Any) -> Answer:
    transfer = Transfer(Decimal(100), **changes)
    return downloads.answer(several, transfer, USE, hours=730, currency="USD", period="a test")


def test_hundred_gb_on_fifty_nodes_for_thirty_days() -> None:
    answer = ask("move", "--gb-per-start 100 --nodes 50 --days 30 --price-per-gb 0.09")
    assert (answer["today"]["cost"], answer["starts"], answer["downloaded_gb"]) == (13500, 1500, 150000)
    # once 100 GB at 0.09, and 100 GB kept for 720 of 730 hours at 0.30
    assert answer["scenario"]["cost"] == pytest.approx(9 + 30 * 720 / 730, abs=1e-6)
    assert ask("move", "--gb-per-start 100 --starts-per-day 50 --price-per-gb 0.09")["today"]["cost"] == 13500


def test_a_cache_is_for_what_pays() -> None:
    answer = cached(Downloads("often", 10, 4), Downloads("once", 1, 8))
    assert (answer.today.cost, answer.scenario.cost, answer.figures["cached_gb"]) == (99, 9 + 30 + 9, 100)
    assert answer.figures["break_even_starts"] == pytest.approx(39 / 9)
    # 800 s a download, 80 s from the cache
    assert answer.figures["gpu_hours_waiting"] == pytest.approx(48 * 800 / 3600)
    assert answer.figures["gpu_hours_waiting_with_cache"] == pytest.approx((40 * 80 + 8 * 800) / 3600)
    assert "1 of 2 sets" in answer.findings[0]


def test_figures_are_of_all_sets() -> None:
    answer = cached(Downloads("a", 10), Downloads("b", 20))
    assert (answer.figures["starts"], answer.figures["cached_gb"]) == (30, 200)
    assert len(answer.findings) == 1 and "are free" in answer.findings[0]
    half_a_month = downloads.answer(
        [Downloads("a", 10)], Transfer(Decimal(100)), USE, hours=365, currency="USD", period="a test"
    )
    assert half_a_month.figures["break_even_starts"] == pytest.approx(24 / 9)


def test_versions_and_reads_are_paid() -> None:
    answer = cached(Downloads("often", 100), changes=3, cache_read_price_per_gb=Decimal("0.01"))
    assert answer.scenario.cost == 27 + 30 + 100
    never = cached(Downloads("often", 100), cache_read_price_per_gb=Decimal("0.09"))
    assert (never.figures["break_even_starts"], never.saving) == (None, 0)


def test_starts_are_pods_that_began_in_the_period() -> None:
    nodes = tuple(Node(name, 8, START, PERIOD.end_ms, (Price(Decimal(1), "x"),)) for name in ("n", "m"))
    pods = tuple(
        Pod(node, f"Job/{job}", gpus, START + begin * HOUR, START + end * HOUR, namespace, uid=uid)
        for node, job, gpus, begin, end, uid, namespace in (
            ("n", "a", 2, 0, 5, "before", "default"),
            ("n", "a", 2, 1, 2, "1", "default"),
            ("n", "a", 4, 1, 2, "2", "default"),
            # two parts of one pod, around time that was not collected
            ("n", "b", 1, 1, 2, "3", "other"),
            ("m", "b", 1, 3, 4, "3", "other"),
        )
    )
    fleet = Fleet(nodes, pods)
    assert starts_of(fleet, PERIOD, SameData.workload) == [
        Downloads("default/Job/a", 2, 3.0),
        Downloads("other/Job/b", 1, 1.0),
    ]
    assert [one.name for one in starts_of(fleet, PERIOD, SameData.namespace)] == ["default", "other"]
    assert [one.starts for one in starts_of(fleet, PERIOD, SameData.all)] == [3]
