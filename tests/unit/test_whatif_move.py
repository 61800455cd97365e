"""`gpucost whatif move`: work in another place if clearly cheaper, and a cache instead of a download at every start."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucost.errors import UsageError
from gpucost.periods import Period
from gpucost.price.listing import ListedPrice
from gpucost.whatif import move
from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.fleet import Fleet, Price
from gpucost.whatif.move import Moving, Transfer, Work
from tests.text_tables import table, text_rows
from tests.unit.whatif_costs import ask, figures, fleet, listed, shown

pytestmark = pytest.mark.usefixtures("nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
USE = Assumption("work", "the work", "", "test")
STAY = Moving(wait_minutes=0.0)


def place(price: str, provider: str = "aws", region: str | None = "us-west-2", **facts: Any) -> ListedPrice:
    """A spot price of a GPU-hour."""
    gpu_hour = Decimal(price)
    known = {"provider": provider, "region": region, "instance_type": "x", "is_stale": False}
    known |= {"price_per_hour": gpu_hour, "price_per_gpu_hour": gpu_hour, "source": "test", "origin": "store"}
    known |= {"price_as_of": date(2026, 9, 1), "gpu_model": "A100", "gpu_count": Decimal(8)} | facts
    return ListedPrice(**dict.fromkeys((one.name for one in fields(ListedPrice)), None) | known)


HOME = place("1", region="us-east-1")


def work(name: str, hours: float, paid: float, *places: ListedPrice) -> Work:
    """Work in its current place, with nodes of 8 GPUs at 8 on spot."""
    price, cost = Price(Decimal(8), "test"), Decimal(paid)
    return Work(name, price, hours, 8.0, 2, places, cost, cost)


def moved(*places: ListedPrice, cash: int = 800, **changes: Any) -> Answer:
    given = {"egress_price_per_gb": Decimal("0.05"), "wait_minutes": 0.0} | changes
    there, today = work("the work", 800, cash, *places), Position(Decimal(cash), "USD")
    return move.answer([there], Moving(**given), today, USE, period="a test")


def places_in(answer: Answer) -> list[dict[str, Any]]:
    """The rows of an answer's places."""
    (rows,) = answer.tables
    return [dict(zip(rows.columns, line, strict=True)) for line in rows.lines]


WORTH = """
    0.7      | 800 560 yes
    0.700001 | 800 800 no
    0.5      | 800 400 yes
    0.5      | 300 300 no
"""


@pytest.mark.parametrize(("price", "expected"), text_rows(WORTH))
def test_place_is_worth_it_at_seventy_percent_and_below_today(price: str, expected: str) -> None:
    answer = moved(place(price), cash=int(expected.split()[0]))
    is_worth_it = places_in(answer)[0]["is_worth_it"]
    assert f"{figures(answer, 'today scenario')} {is_worth_it}" == expected


def test_old_prices_are_listed_last_and_move_no_work() -> None:
    old = place("0.3", "gcp", "us-east1", price_as_of=date(2025, 1, 31), is_stale=True)
    answer, alone = moved(old, place("0.5")), moved(old)
    assert [row["where"] for row in places_in(answer)] == ["aws us-west-2", "gcp us-east1"]
    assert answer.figures["best"]["the work"] == "aws us-west-2" and answer.scenario.cost == 400
    assert alone.saving == 0 and places_in(alone)[0]["is_worth_it"] == "old price"
    # no start waits if no work moves
    assert alone.time == () != answer.time


def test_data_and_waiting_are_counted() -> None:
    places = (place("0.5"), place("0.4", "gcp", "us-central1"))
    answer = moved(*places, egress_gb=Decimal(1000), wait_minutes=30)
    cost = {row["where"]: float(row["cost"]) for row in places_in(answer)}
    # 2 starts of half an hour on nodes of 8 GPUs, and 1,000 GB at 0.05
    assert cost == pytest.approx(
        {"gcp us-central1": 808 * 0.4 + 50, "aws us-west-2": 808 * 0.5 + 50}, abs=1e-6
    )
    assert list(cost) == ["gcp us-central1", "aws us-west-2"]
    assert answer.figures["best"]["the work"] == "gcp us-central1"
    assert figures(answer, "today scenario") == shown(800, cost["gcp us-central1"])
    assert answer.time[0].startswith("Each start waits 30 min longer, 1.0 h in total")
    # worth it up to 560: nodes there cost 323.2 of 373.2
    assert f"rises by {(560 - 373.2) / 323.2 * 100:.1f} %" in answer.break_even[0]


def test_data_is_split_by_gpu_hours() -> None:
    works = [work(name, hours, hours, place("0.5")) for name, hours in (("a", 800), ("b", 2400))]
    moving = Moving(egress_gb=Decimal(400), egress_price_per_gb=Decimal(1), wait_minutes=30.0)
    answer = move.answer(works, moving, Position(Decimal(3200), "USD"), USE, period="a test")
    # a quarter and three quarters of 400 GB; each start waits half an hour on 8 GPUs
    costs = {row["work"]: float(row["cost"]) for row in places_in(answer)}
    assert costs == pytest.approx({"a": 808 * 0.5 + 100, "b": 2408 * 0.5 + 300}, abs=1e-6)
    assert answer.time[0].endswith("2.0 h in total")


def test_work_moves_only_to_the_named_clouds() -> None:
    places = (place("0.5"), place("0.4", "gcp", "us-central1"))
    for clouds, elsewhere in (((), "gcp us-central1; aws us-west-2"), (("GCP",), "gcp us-central1")):
        assert listed(places_in(moved(*places, to_provider=clouds)), "where") == elsewhere
    with pytest.raises(UsageError, match="--to-provider has no spot price of these GPUs: azure"):
        moved(*places, to_provider=("aws", "azure"))


def on_nodes(nodes: str, pods: str = "") -> Fleet:
    """Nodes that are each filled by one pod, or by the given pods."""
    there = fleet(f"name | prices | capacity_type | gpu_model | hours\n{nodes}", "", PERIOD.start_ms)
    each = "\n".join(
        f"{node.name} | Job/x | 8 | 0-{shown(node.hours)} | {node.name} | default" for node in there.nodes
    )
    text = f"node | workload | gpus | hours | uid | namespace\n{pods or each}"
    return Fleet(there.nodes, fleet("name | hours\nx | 0-1", text, PERIOD.start_ms).pods)


def test_stored_work_by_gpu_and_capacity_type() -> None:
    there = on_nodes(
        "s | 8 | spot | A100 | 0-10\no | 24 | on_demand | A100 | 0-10\nt | 4 | on_demand | T4 | 0-10"
    )
    # too few GPUs, and another model
    others = [place("0.3", "oci", gpu_count=Decimal(4)), place("0.2", "gcp", gpu_model="L4")]
    works, findings = move.works_of(there, [*others, place("0.5"), HOME])
    # both are compared with the spot price in that place
    assert listed(works, "name gpu_hours paid cash") == (
        "A100 aws us-east-1 on demand 80 240 240; A100 aws us-east-1 on spot 80 80 80"
    )
    assert [work.primary.per_node_hour for work in works] == [8, 8]
    # the region of the work is not another place
    assert [[row.region for row in work.places] for work in works] == [["us-west-2"], ["us-west-2"]]
    assert findings == ["T4 aws us-east-1 on demand: its spot price is unknown; 40.00 stays in place"]
    # starts are counted in the largest pods; a place without a price is skipped
    there = on_nodes(
        "n | 8 | on_demand | A100 | 0-1\nm | 8 | on_demand | T4 | 0-1",
        "n | Job/x | 2 | 0-1 | 2 | default\nn | Job/x | 4 | 0-1 | 4 | default",
    )
    (one,) = move.works_of(there, [HOME])[0]
    assert figures(one, "gpus starts paid") == "4 1.5 6"
    free = place("0", region="us-east-1")
    assert move.works_of(there, [free])[0] == []


def test_capacity_paid_anyway_does_not_move() -> None:
    """A commitment, a capacity block and an own machine are paid in any place."""
    there = on_nodes(
        """plan | 24 committed | on_demand | A100 | 0-1
        block | 24 | capacity_block | A100 | 0-1
        own | 24 | on_demand | A100 | 0-1
        rented | 24 | on_demand | A100 | 0-1"""
    )
    plan, block, own, rented = there.nodes
    own = replace(own, provider=None, region=None, instance_type=None)
    there = Fleet((plan, block, own, replace(rented, provider="gcp")), there.pods)
    homes = [
        replace(HOME, provider=cloud, region=region) for cloud, region in (("gcp", "us-east-1"), ("", ""))
    ]
    works, _ = move.works_of(there, [HOME, *homes, place("0.5")])
    assert sorted(listed(works, "name paid cash").split("; ")) == [
        "A100 aws us-east-1 on demand 48 0", "A100 gcp us-east-1 on demand 24 24", "A100 on demand 24 0"
    ]  # fmt: skip
    works = [replace(work, places=(place("0.5"),)) for work in works]
    answer = move.answer(works, STAY, Position(Decimal(96), "USD"), USE, period="a test")
    # only the rented node's 24 leave the bill, for 8 GPU-hours at 0.5
    assert figures(answer, "today scenario") == shown(96, 96 - 24 + 4)
    assert sum("stays on the bill in any place" in text for text in answer.findings) == 2


# One download of 100 GB at 0.09, and 100 GB kept for 720 of 730 hours at 0.30
def test_cache_of_100_gb_for_50_starts_a_day() -> None:
    answer = ask("move", "--gb-per-start 100 --starts-per-day 50 --price-per-gb 0.09")
    assert figures(answer, "today starts") == "13500 1500"
    assert answer["scenario"]["cost"] == pytest.approx(9 + 30 * 720 / 730, abs=1e-6)


# 100 GB at 9 dollars a download, stored for 30 per month of 730 hours; each start reads at `read` a GB
CACHES = """
    data         | starts | read | today | scenario    | break-even
    worth it     | 1      |    0 |   270 | 38.5890411  | 4.287671
    rarely       | 0.1    |    0 |    27 | 27          | 4.287671
    cheap reads  | 10     | 0.01 |  2700 | 338.5890411 | 4.82363
    costly reads | 10     | 0.09 |  2700 | 2700        | None
"""


@pytest.mark.parametrize("case", table(CACHES), ids=lambda case: case["data"])
def test_cache_only_if_it_saves(case: dict[str, str]) -> None:
    reads = Decimal(case["read"])
    transfer = Transfer(Decimal(100), float(case["starts"]), cache_read_price_per_gb=reads)
    expected = " ".join(case[name] for name in ("today", "scenario", "break-even"))
    assert figures(move.cache(transfer, "USD"), "today scenario break_even_starts") == expected
