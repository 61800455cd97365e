"""`gpucost whatif move`: work elsewhere where it costs clearly less, and downloads at every start against a cache."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from gpucost.periods import Period
from gpucost.whatif import downloads, move
from gpucost.whatif.answer import Answer, Assumption, Position
from gpucost.whatif.downloads import Downloads, SameData, Transfer, starts_of
from gpucost.whatif.fleet import Fleet
from gpucost.whatif.move import Moving, Place, Work
from tests.text_tables import table, text_rows
from tests.unit.whatif_costs import ask, figures, fleet, listed, shown

pytestmark = pytest.mark.usefixtures("nowhere")

PERIOD = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
USE = Assumption("work", "the work", "", "test")
HOME = Place("aws", "us-east-1", Decimal(1), "test")


def moved(*places: Place, cash: int | None = None, **changes: Any) -> Answer:
    moving = Moving(**{"at_most_percent": 70.0, "egress_gb": Decimal(0), "egress_price_per_gb": Decimal("0.05"),
                        "wait_minutes": 0.0, "transfer_gbit_per_second": 5.0} | changes)  # fmt: skip
    paid = None if cash is None else Decimal(cash)
    today = None if paid is None else Position(paid, "USD")
    work = Work("the work", HOME, 800, 8.0, 2, places, paid, paid)
    return move.answer([work], moving, today, USE, currency="USD", period="a test")


def place(price: str, provider: str = "aws", region: str = "us-west-2") -> Place:
    return Place(provider, region, Decimal(price), "test")


WORTH = """
    0.7      | 800 560 True
    0.700001 | 800 800 False
    0.5      | 800 400 True
    0.5      | 300 300 False
"""


@pytest.mark.parametrize(("price", "expected"), text_rows(WORTH))
def test_worth_it_at_seventy_percent_of_the_primary_and_less_than_today(price: str, expected: str) -> None:
    answer = moved(place(price), cash=int(expected.split()[0]))
    is_worth_it = answer.figures["places"][0]["is_worth_it"]
    assert f"{figures(answer, 'today scenario')} {is_worth_it}" == expected


def test_old_prices_are_listed_last_and_move_nothing() -> None:
    old = replace(place("0.3", "gcp", "us-east1"), as_of="2025-01-31", is_stale=True)
    answer, alone = moved(old, place("0.5")), moved(old)
    assert [row["provider"] for row in answer.figures["places"]] == ["aws", "gcp"]
    assert answer.figures["best"]["the work"] == "aws us-west-2" and answer.scenario.cost == 400
    text = "places with old prices would cost less: 1, the first gcp us-east1 (2025-01-31)"
    assert alone.saving == 0 and text in alone.findings[0]


def test_data_and_waiting_are_counted() -> None:
    places = (place("0.5"), place("0.4", "gcp", "us-central1"))
    answer = moved(*places, egress_gb=Decimal(1000), wait_minutes=30, delay_cost_per_hour=Decimal(10))
    cost = {row["provider"]: float(row["cost"]) for row in answer.figures["places"]}
    # 2 starts of half an hour on nodes of 8 GPUs, and 8,000 Gbit at 5 Gbit/s
    delay = 10 * (1 + 1600 / 3600)
    assert cost == pytest.approx({"aws": 808 * 0.5 + 50 + delay, "gcp": 808 * 0.4 + 50 + delay}, abs=1e-4)
    assert list(cost) == ["gcp", "aws"] and answer.figures["best"]["the work"] == "gcp us-central1"
    assert figures(answer, "today scenario") == shown(800, cost["gcp"])
    assert answer.time[0].startswith("Each start waits 30 min longer, 1.0 h in all")


def test_data_and_its_delay_are_shared_by_gpu_hours() -> None:
    works = [Work(name, HOME, hours, 8.0, 2, (place("0.5"),)) for name, hours in (("a", 800), ("b", 2400))]
    moving = Moving(egress_gb=Decimal(400), egress_price_per_gb=Decimal(1), wait_minutes=30.0,
                    delay_cost_per_hour=Decimal(36), transfer_gbit_per_second=8.0)  # fmt: skip
    answer = move.answer(works, moving, None, USE, currency="USD", period="a test")
    # a quarter and three quarters of 400 GB, which move for 400 s; each start waits half an hour on 8 GPUs
    costs = {row["work"]: float(row["cost"]) for row in answer.figures["places"]}
    assert costs == pytest.approx({"a": 808 * 0.5 + 100 + 36 + 1, "b": 2408 * 0.5 + 300 + 36 + 3}, abs=1e-6)
    assert answer.figures["places"][0]["percent_of_primary"] == pytest.approx(541 / 800 * 100)
    # up to 560 dollars it is worth it: 19 more than it costs
    assert "or 119 GB are moved instead of 100." in answer.break_even[0]
    assert answer.time[0].endswith("2.0 h in all.") and "0.1 h to move" in answer.time[1]


def on_nodes(nodes: str, pods: str = "") -> Fleet:
    """Nodes that a pod each holds whole, or these."""
    there = fleet(f"name | prices | capacity_type | gpu_model | hours\n{nodes}", "", PERIOD.start_ms)
    each = "\n".join(
        f"{node.name} | Job/x | 8 | 0-{shown(node.hours)} | {node.name} | default" for node in there.nodes
    )
    text = f"node | workload | gpus | hours | uid | namespace\n{pods or each}"
    return Fleet(there.nodes, fleet("name | hours\nx | 0-1", text, PERIOD.start_ms).pods)


def test_work_of_the_store_by_gpu_and_kind() -> None:
    there = on_nodes(
        "s | 8 | spot | A100 | 0-10\no | 24 | on_demand | A100 | 0-10\nt | 4 | on_demand | T4 | 0-10"
    )
    works, findings = move.works_of(there, {}, {"A100": [place("0.5"), HOME]})
    # both are held against what spot costs there, and never against their own region
    assert [work.places for work in works] == [(place("0.5"),)] * 2
    assert listed(works, "name gpu_hours paid cash") == (
        "A100 aws us-east-1 on demand 80 240 240; A100 aws us-east-1 on spot 80 80 80"
    )
    assert [work.primary.price_per_gpu_hour for work in works] == [1, 1]
    assert findings == [
        "T4 aws us-east-1 on demand: the spot price there is unknown; 40.00 stays where it is."
    ]
    # starts are counted in the largest pods; a place without a price is none
    there = on_nodes(
        "n | 8 | on_demand | A100 | 0-1\nm | 8 | on_demand | T4 | 0-1",
        "n | Job/x | 2 | 0-1 | 2 | default\nn | Job/x | 4 | 0-1 | 4 | default",
    )
    (work,) = move.works_of(there, {("aws", "us-east-1", "A100"): HOME}, {})[0]
    assert figures(work, "gpus starts paid") == "4 1.5 6"
    free = replace(HOME, price_per_gpu_hour=Decimal(0))
    assert move.works_of(there, {("aws", "us-east-1", "A100"): free}, {})[0] == []


def test_what_is_paid_anyway_moves_nowhere() -> None:
    """A commitment, a capacity block and an own machine are paid wherever the work runs."""
    there = on_nodes(
        """plan | 24 committed | on_demand | A100 | 0-1
        block | 24 | capacity_block | A100 | 0-1
        own | 24 | on_demand | A100 | 0-1
        rented | 24 | on_demand | A100 | 0-1"""
    )
    plan, block, own, rented = there.nodes
    own = replace(own, provider=None, region=None, instance_type=None)
    there = Fleet((plan, block, own, replace(rented, provider="gcp")), there.pods)
    spot = {(*where, "A100"): HOME for where in (("aws", "us-east-1"), ("gcp", "us-east-1"), ("", ""))}
    works, _ = move.works_of(there, spot, {"A100": [place("0.5")]})
    assert sorted(listed(works, "name paid cash").split("; ")) == [
        "A100 aws us-east-1 on demand 48 0", "A100 gcp us-east-1 on demand 24 24", "A100 on demand 24 0"
    ]  # fmt: skip
    moving = Moving(wait_minutes=0.0)
    answer = move.answer(works, moving, Position(Decimal(96), "USD"), USE, currency="USD", period="a test")
    # only the rented node's 24 leave the bill, for 8 GPU-hours at 0.5
    assert figures(answer, "today scenario") == shown(96, 96 - 24 + 4)
    assert sum("stays on the bill wherever it runs" in text for text in answer.findings) == 2


def test_work_of_options() -> None:
    work = "--nodes 4 --hours 100 --wait-minutes 0"
    answer = ask("move", f"{work} --spot-price 12 --place 'gcp us-east1=7' --place b=9")
    assert [row["is_worth_it"] for row in answer["places"]] == [True, False]
    per_gpu = ask("move", f"{work} --spot-price 1.5 --price-per gpu --place x=0.5")
    assert [figures(one, "today scenario") for one in (answer, per_gpu)] == ["4800 2800", "4800 1600"]


# Once 100 GB at 0.09, and 100 GB kept for 720 of 730 hours at 0.30
def test_hundred_gb_on_fifty_nodes_for_thirty_days() -> None:
    answer = ask("move", "--gb-per-start 100 --nodes 50 --days 30 --price-per-gb 0.09")
    assert figures(answer, "today starts downloaded_gb") == "13500 1500 150000"
    assert answer["scenario"]["cost"] == pytest.approx(9 + 30 * 720 / 730, abs=1e-6)
    assert ask("move", "--gb-per-start 100 --starts-per-day 50 --price-per-gb 0.09")["today"]["cost"] == 13500


# Sets of 100 GB for 9 dollars a download, kept for 30 a month; 1 a GB is read from the cache at `read`, versions are fetched anew
CACHES = """
    sets           | starts | versions | read | hours | today | scenario | cached | break-even
    what pays      | 10 1   |        1 |    0 |   730 |    99 |       48 |    100 | 4.333333
    all of them    | 10 20  |        1 |    0 |   730 |   270 |       78 |    200 | 4.333333
    half a month   | 10     |        1 |    0 |   365 |    90 |       24 |    100 | 2.666667
    three versions | 100    |        3 | 0.01 |   730 |   900 |      157 |    100 | 7.125
    costly reads   | 100    |        1 | 0.09 |   730 |   900 |      900 |      0 | None
"""


def cached(starts: str, hours: float = 730, **changes: Any) -> Answer:
    return loaded([Downloads(f"set {count}", int(count)) for count in starts.split()], hours, **changes)


def loaded(sets: list[Downloads], hours: float = 730, **changes: Any) -> Answer:
    transfer = Transfer(Decimal(100), **changes)
    return downloads.answer(sets, transfer, USE, hours=hours, currency="USD", period="a test")


@pytest.mark.parametrize("case", table(CACHES), ids=lambda case: case["sets"])
def test_a_cache_is_for_what_pays(case: dict[str, str]) -> None:
    reads = Decimal(case["read"])
    answer = cached(
        case["starts"], float(case["hours"]), changes=int(case["versions"]), cache_read_price_per_gb=reads
    )
    expected = " ".join(case[name] for name in ("today", "scenario", "cached", "break-even"))
    assert figures(answer, "today scenario cached_gb break_even_starts") == expected


def test_time_of_downloads_and_what_says_so() -> None:
    answer = loaded([Downloads("often", 10, 4), Downloads("once", 1, 8)])
    # 800 s a download, 80 s from the cache
    names = "gpu_hours_waiting gpu_hours_waiting_with_cache"
    assert figures(answer, names) == shown(round(48 * 800 / 3600, 6), round((40 * 80 + 8 * 800) / 3600, 6))
    assert "1 of 2 sets" in answer.findings[0]
    both = cached("10 20")
    assert both.figures["starts"] == 30 and len(both.findings) == 1 and "are free" in both.findings[0]


def test_starts_are_pods_that_began_in_the_period() -> None:
    # of pod 3 two parts, around time that was not collected
    there = on_nodes(
        "n | 1 | on_demand | A100 | 0-24\nm | 1 | on_demand | A100 | 0-24",
        """n | Job/a | 2 | 0-5 | before | default
        n | Job/a | 2 | 1-2 | 1 | default
        n | Job/a | 4 | 1-2 | 2 | default
        n | Job/b | 1 | 1-2 | 3 | other
        m | Job/b | 1 | 3-4 | 3 | other""",
    )
    found = {same: listed(starts_of(there, PERIOD, same), "name starts gpus") for same in SameData}
    assert found[SameData.workload] == "default/Job/a 2 3; other/Job/b 1 1"
    assert found[SameData.namespace] == "default 2 3; other 1 1"
    assert listed(starts_of(there, PERIOD, SameData.all), "starts") == "3"
