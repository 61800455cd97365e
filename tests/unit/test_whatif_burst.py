"""`gpucost whatif burst`: work elsewhere where it costs clearly less."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.whatif.answer import Answer
from gpucost.whatif.burst import BurstPlace, BurstWork, Moving, answer, works_of
from gpucost.whatif.fleet import Fleet, Node, Pod, Price
from tests.unit.whatif_costs import answered, plain_cost

pytestmark = pytest.mark.usefixtures("stages_together", "nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
HOME = BurstPlace("aws", "us-east-1", Decimal(1), "test")


def ask(*places: BurstPlace, today: Decimal | None = None, **changes: Any) -> Answer:
    moving = Moving(**{"at_most_percent": 70.0, "egress_gb": Decimal(0), "wait_minutes": 0.0} | changes)
    work = BurstWork("the work", HOME, 800, 8.0, 2, places, today)
    return answered(answer((work,), moving, currency="USD", period="a test"), plain_cost)


def place(price: str, provider: str = "aws", region: str = "us-west-2") -> BurstPlace:
    return BurstPlace(provider, region, Decimal(price), "test")


def run(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["whatif", "burst", *words, "--format", "json"])
    assert result.exit_code == 0, result.output
    return dict(json.loads(result.stdout))


@pytest.mark.parametrize(("price", "is_worth_it"), [("0.7", True), ("0.700001", False), ("0.5", True)])
def test_worth_it_at_seventy_percent_of_the_primary(price: str, is_worth_it: bool) -> None:
    found = ask(place(price))
    assert found.today.cost == 800
    assert found.figures["places"][0]["is_worth_it"] is is_worth_it
    assert found.scenario.cost == (800 * Decimal(price) if is_worth_it else 800)


def test_data_and_waiting_are_counted() -> None:
    found = ask(
        place("0.5"),
        place("0.4", "gcp", "us-central1"),
        egress_gb=Decimal(1000),
        wait_minutes=30,
        delay_cost_per_hour=Decimal(10),
    )
    by_provider = {row["provider"]: row for row in found.figures["places"]}
    # 2 starts of half an hour on nodes of 8 GPUs, and 8,000 Gbit at 5 Gbit/s
    delay = 10 * (1 + 1600 / 3600)
    assert float(by_provider["aws"]["cost"]) == pytest.approx(808 * 0.5 + 20 + delay, abs=1e-4)
    assert float(by_provider["gcp"]["cost"]) == pytest.approx(808 * 0.4 + 90 + delay, abs=1e-4)
    assert found.figures["best"]["the work"] == "gcp us-central1"
    assert found.time[0].startswith("Each start waits 30 min longer, 1.0 h in all")


def test_what_is_cheaper_today_stays() -> None:
    found = ask(place("0.5"), today=Decimal(300))
    assert found.figures["places"][0]["is_worth_it"] is True
    assert found.scenario.cost == found.today.cost == 300


@given(
    prices=st.lists(st.decimals("0.01", "3", places=3), min_size=1, max_size=5),
    gb=st.integers(0, 5000),
    limit=st.floats(1, 100),
)
def test_nothing_costs_more_than_its_limit(prices: list[Decimal], gb: int, limit: float) -> None:
    found = ask(
        *(place(str(price), region=f"r{i}") for i, price in enumerate(prices)), egress_gb=Decimal(gb), at_most_percent=limit
    )
    assert 0 <= found.saving <= found.today.cost
    if found.saving:
        assert float(found.scenario.cost) <= float(found.today.cost) * limit / 100 + 1e-6
    costs = [row["cost"] for row in found.figures["places"]]
    assert costs == sorted(costs)
    more = ask(
        *(place(str(price), region=f"r{i}") for i, price in enumerate(prices)), egress_gb=Decimal(gb + 100), at_most_percent=limit
    )
    assert more.scenario.cost >= found.scenario.cost


def test_work_of_the_store_by_gpu_and_kind() -> None:
    start, hour = PERIOD.start_ms, MS_PER_HOUR

    def node(name: str, price: int, kind: str, model: str) -> Node:
        steps = (Price(Decimal(price), "price_book"),)
        return Node(name, 8, start, start + 10 * hour, steps, kind, provider="aws", region="us-east-1", gpu_model=model)

    nodes = (node("s", 8, "spot", "A100"), node("o", 24, "on_demand", "A100"), node("t", 4, "on_demand", "T4"))
    pods = tuple(Pod(one.name, "Job/x", 8, start, start + 10 * hour, uid=one.name) for one in nodes)
    elsewhere = {"A100": [place("0.5"), HOME]}
    works, said = answered(works_of(Fleet(nodes, pods), {}, elsewhere), plain_cost)
    assert [(work.name, work.gpu_hours, work.today) for work in works] == [
        ("A100 aws us-east-1 on demand", 80, 240),
        ("A100 aws us-east-1 on spot", 80, 80),
    ]
    # both are held against what spot costs there, and never against their own region
    assert [work.primary.price_per_gpu_hour for work in works] == [1, 1]
    assert all(work.places == (place("0.5"),) for work in works)
    assert said == ("T4 aws us-east-1 on demand: the primary's spot price is not known; 40.00 stays where it is.",)


def test_calculator() -> None:
    work = ("--nodes", "4", "--hours", "100", "--wait-minutes", "0")
    found = run(*work, "--spot-price", "12", "--place", "gcp us-east1=7", "--place", "b=9")
    assert found["today"]["cost"] == 4800
    assert found["scenario"]["cost"] == 2800
    assert [row["is_worth_it"] for row in found["places"]] == [True, False]
    per_gpu = run(*work, "--spot-price", "1.5", "--price-per", "gpu", "--place", "x=0.5")
    assert per_gpu["today"]["cost"] == 4800
    assert per_gpu["scenario"]["cost"] == 1600


def test_places_of_the_catalog() -> None:
    found = run("--instance-type", "a2-highgpu-8g", "--region", "us-central1", "--nodes", "2", "--hours", "10")
    assert found["today"]["gpu_hours"] == 160
    assert all((row["provider"], row["region"]) != ("gcp", "us-central1") for row in found["places"])
    assert all(row["price_as_of"] and row["source"] for row in found["places"])
    only = run("--instance-type", "a2-highgpu-8g", "--region", "us-central1", "--to-provider", "gcp")
    assert {row["provider"] for row in only["places"]} == {"gcp"}
