"""Jobs replayed over spot price history, against a plain calculation that walks through time minute by minute."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from gpucost.periods import MS_PER_HOUR
from gpucost.whatif.fleet import Price
from gpucost.whatif.spot.backtest import FALLBACK, ON_DEMAND, SWITCHING, Job, anchor_name, costs, replay
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.market import Market, Place, PriceChanges
from tests.text_tables import text_rows
from tests.unit.command import run
from tests.unit.spot import change, write
from tests.unit.whatif_costs import ask, assert_refused, shown

MINUTE = 60_000


def changes(zone: str, *steps: tuple[int, str], until: int = 100) -> PriceChanges:
    """Steps as (hour, price)."""
    at = tuple(hour * MS_PER_HOUR for hour, _ in steps)
    return PriceChanges("r", zone, at, tuple(Decimal(price) for _, price in steps), until * MS_PER_HOUR)


def walked(lanes: list[list[tuple[int, Decimal]]], move_minutes: int) -> Fraction:
    """The cost of 10.5 h, a minute at a time: the job runs in the cheapest lane; a move adds minutes to its length."""
    at, left, place, cost = 0, 630, -1, Fraction(0)
    while left > 0:
        prices = [next(price for since, price in reversed(lane) if since <= at) for lane in lanes]
        cheapest = prices.index(min(prices))
        if place < 0:
            place = cheapest
        elif prices[cheapest] < prices[place]:
            place, left = cheapest, left + move_minutes
        cost += Fraction(prices[place]) / 60
        at, left = at + MINUTE, left - 1
    return cost


def test_every_way_of_buying_costs_what_a_walk_through_time_does() -> None:
    a = changes("a", (-1, "1.0"), (3, "2.5"), (6, "1.2"), (9, "4.0"))
    b = changes("b", (-2, "1.5"), (4, "1.1"), (7, "1.3"))
    on_demand = [(0, Decimal("2.0"))]
    job = Job(0, 10.5, 8, tuple(on_demand), (a, b), 8)
    runs = replay(job, move_hours=0.5, on_demand_share=0.3)
    paid = {way: float(amounts[0]) for way, amounts in costs([job], [runs]).items()}
    in_a, in_b = (list(zip(zone.at_ms, zone.prices, strict=True)) for zone in (a, b))
    stay = walked([in_a], 0)
    expected = {
        ON_DEMAND: Fraction(21), "stay in a": stay, "stay in b": walked([in_b], 0), SWITCHING: walked([in_a, in_b], 30),
        FALLBACK: walked([in_a, on_demand], 30), anchor_name(0.3): Fraction(3, 10) * 21 + Fraction(7, 10) * stay,
    }  # fmt: skip
    assert paid == pytest.approx({way: float(amount) for way, amount in expected.items()}, abs=1e-6)
    assert runs[SWITCHING].moves == 3


def test_what_history_does_not_cover_is_no_way_of_buying() -> None:
    short, long = changes("a", (0, "1"), until=5), changes("b", (0, "2"), until=50)
    job = Job(0, 10, 8, ((0, Decimal(3)),), (short, long), 8)
    assert "stay in a" not in replay(job, 0, 0.3)
    assert "stay in b" in replay(job, 0, 0.3)
    assert replay(Job(60 * MS_PER_HOUR, 1, 8, ((0, Decimal(3)),), (short, long), 8), 0, 0.3) == {}


def answered(arguments: str) -> dict[str, Any]:
    answer = ask(
        "spot", f"--backtest --restart-minutes 0 --checkpoint-write-minutes 0 --notice-seconds 0 {arguments}"
    )
    return answer | {"by": {row["strategy"]: row["cost"] for row in answer["strategies"]}}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A store of a short history in the working directory, which tests only read."""
    folder = tmp_path_factory.mktemp("history")
    rows = (
        ("2026-10-01", "1.0", "a"),
        ("2026-10-01", "1.2", "b"),
        ("2026-10-02", "1.5", "a"),
        ("2026-10-04", "1.25", "b"),
    )
    write(folder / "history.json", *(change(day, price, f"us-east-1{zone}") for day, price, zone in rows))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CONFIG_HOME", str(folder / "none"))
        run("collect spot history.json")
        yield


def test_a_job_is_started_once_a_day_over_the_history(store: None) -> None:
    answer = answered("--instance-type p3.2xlarge --region us-east-1 --hours 24")
    # three starts: 24 h at 1.0, then 1.5 in zone a; 1.2 in zone b; 3.06 on demand
    assert (answer["jobs"], answer["scenario"]["strategy"], answer["today"]["gpu_hours"]) == (
        3,
        SWITCHING,
        24,
    )
    means = {"stay in us-east-1a": 4 / 3, "stay in us-east-1b": 1.2, SWITCHING: 3.4 / 3, ON_DEMAND: 3.06}
    assert {way: answer["by"][way] / 24 for way in means} == pytest.approx(means, abs=1e-6)
    assert answer["today"]["cost"] == answer["by"][ON_DEMAND]


def test_nodes_and_interruptions_count(store: None) -> None:
    job = "--instance-type p3.2xlarge --region us-east-1 --hours 24 --on-demand-price 4 --interruptions-per-hour 0.2"
    one, two = answered(job), answered(f"{job} --nodes 2")
    # the third start's interruptions take it past the end of what is known
    assert (one["today"]["cost"], two["today"]["cost"], one["jobs"]) == (96, 192, 2)
    assert one["by"]["stay in us-east-1b"] == pytest.approx(24 * 1.2 * exact(Work(0.2, 0.5)), rel=1e-6)


def test_job_longer_than_the_history_and_type_without_prices_are_refused(store: None) -> None:
    for kind, hours, message in (
        ("p3.2xlarge", 240, "shorter than the job"),
        ("p4d.24xlarge", 2, "no spot prices of"),
    ):
        words = f"--backtest --instance-type {kind} --region us-east-1 --hours {hours}"
        assert_refused("spot", words, message, 1)


# instance type, provider, region, and zones by name and id; regions differ
PLACES = """
    T aws r1 z3        | 3
    t aws r1 elsewhere | 2
    t aws r1 z1 z4     | 4
    t - R2             | 9
    t                  | None
    t gcp r1           | None
"""


def test_list_price_of_a_zone_else_the_lower_median_of_its_regions() -> None:
    rows = [("aws", "r1", f"z{amount}", amount) for amount in (1, 2, 3, 4)]
    # "*" as list_prices.sql has it
    rows += [("aws", "r2", "", 9), ("aws", "r1", "*", 2)]
    prices = [(*place, Price(Decimal(amount), "catalog", "2025-01-01")) for *place, amount in rows]
    market = Market("USD", {("t", "spot"): prices})  # type: ignore[dict-item]
    for place, amount in text_rows(PLACES):
        found = market.list_price(Place(*(word.strip("-") or None for word in place.split())), option="spot")  # type: ignore[arg-type]
        assert (place, shown(found and found.per_node_hour)) == (place, amount)
