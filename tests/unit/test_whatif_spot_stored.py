"""Usage moved to spot and back, on described fleets, of which some is not priced; cost comes from the real attribution stages."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import partial

import pytest

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.whatif.answer import Answer
from gpucost.whatif.fleet import Fleet, Node, Pod, Price, Usage, fleet_of
from gpucost.whatif.reserve import Existing, families_of
from gpucost.whatif.rightsize import fleet_offers
from gpucost.whatif.spot import answer as stored
from gpucost.whatif.spot.answer import advise
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market, Place, PriceChanges
from gpucost.whatif.spot.simulate import SimulationOptions, SimulationQuery, Target, Work, exact, gangs
from tests.unit.whatif_costs import answered, stage_cost

HOUR = MS_PER_HOUR
TYPICAL = Rate(0.1, "test")


pytestmark = pytest.mark.usefixtures("stages_together")


def node(name: str, hours: int, price: str, capacity_type: str = "on_demand", gpus: int = 8) -> Node:
    return Node(
        name, gpus, 0, hours * HOUR, (Price(Decimal(price), "price_book"),), capacity_type, provider="aws", region="us-east-1",
        zone="us-east-1a", instance_type="p4d.24xlarge",
    )  # fmt: skip


def moved(
    fleet: Fleet, market: Market | None = None, *, is_narrowed: bool = False, price: str | None = None, to: Target = Target.spot
) -> Answer:
    amount = Decimal(price) if price else None
    usage = Usage(fleet, "USD", "a period", "a team", is_narrowed)
    query = SimulationQuery(usage, market or Market("USD"), TYPICAL, None, amount)
    return answered(stored.answer(SimulationOptions(runs=100, to=to), query))


def test_spot_steps_of_the_nodes_own_zone_times_what_interruptions_cost() -> None:
    fleet = Fleet((node("a", 10, "20"),), (Pod("a", "Job/train", 8, 0, 10 * HOUR, uid="1"),))
    own = PriceChanges("us-east-1", "us-east-1a", (-HOUR, 4 * HOUR), (Decimal(6), Decimal(9)), 100 * HOUR)
    other = PriceChanges("us-east-1", "us-east-1b", (-HOUR,), (Decimal(1),), 100 * HOUR)
    market = Market("USD", history={"p4d.24xlarge": [("aws", other), ("aws", own)]})
    answer = moved(fleet, market)
    assert answer.today.cost == 200
    assert float(answer.scenario.cost) == pytest.approx((4 * 6 + 6 * 9) * exact(Work(0.1, 0.5)), rel=1e-9)
    assert answer.figures["spot_price"] == pytest.approx(7.8)
    assert answer.figures["effective_price_per_gpu_hour_exact"] == pytest.approx(7.8 * exact(Work(0.1, 0.5)) / 8, abs=1e-6)


def test_a_price_of_the_option_comes_first_then_history_own_nodes_and_the_list() -> None:
    fleet = Fleet((node("a", 10, "20"),))
    listed = {("p4d.24xlarge", "spot"): [("aws", "us-east-1", "*", Price(Decimal(3), "catalog", "2025-01-01"))]}
    own = {("p4d.24xlarge", "spot"): Decimal(4)}
    history = {"p4d.24xlarge": [("aws", PriceChanges("us-east-1", "us-east-1a", (0,), (Decimal(5),), 100 * HOUR))]}
    late = {"p4d.24xlarge": [("aws", PriceChanges("us-east-1", "us-east-1a", (1,), (Decimal(5),), 100 * HOUR))]}
    for market, price, expected in (
        (Market("USD", listed), None, 30),
        (Market("USD", listed, late, own), None, 40),  # history that begins too late prices nothing
        (Market("USD", listed, history, own), None, 50),
        (Market("USD", listed, history, own), "6", 60),
    ):
        # nobody holds a GPU, so no work is lost
        assert moved(fleet, market, price=price).scenario.cost == expected


def test_reserved_nodes_stay_and_the_reverse_takes_spot_nodes_back() -> None:
    fleet = Fleet((node("a", 10, "20"), node("b", 10, "11", "reserved"), node("c", 10, "7", "spot")))
    there = moved(fleet, price="6")
    assert there.today.cost == 380
    assert there.scenario.cost == 240
    assert there.figures["moved_nodes"] == 1
    back = moved(fleet, price="20", to=Target.on_demand)
    assert back.scenario.cost == 510
    with pytest.raises(GpucostError, match="bought as reserved"):
        moved(Fleet((node("b", 10, "11", "reserved"),)), price="6")


def test_a_team_pays_its_share_of_nodes_that_others_hold_too() -> None:
    fleet = Fleet((node("a", 10, "20"),), (Pod("a", "Job/train", 2, 0, 5 * HOUR, uid="1"),))
    answer = moved(fleet, price="10", is_narrowed=True)
    assert answer.today.cost == 25
    assert answer.today.node_hours == pytest.approx(1.25)
    assert answer.figures["moved_gpu_hours"] == 10
    # an eighth of the node's time is held, and stretched
    assert float(answer.scenario.cost) == pytest.approx(12.5 * (1 + (exact(Work(0.1, 0.5)) - 1) / 8), rel=1e-9)


def test_a_workload_over_several_nodes_stops_when_any_of_them_does() -> None:
    nodes = tuple(node(name, 10, "20") for name in "abc")
    pods = (
        Pod("a", "Job/gang", 8, 0, 10 * HOUR, uid="1"),
        Pod("b", "Job/gang", 8, 0, 10 * HOUR, uid="2"),
        Pod("c", "Job/one", 4, 0, 5 * HOUR, uid="3"),
        Pod("c", "Job/one", 4, 5 * HOUR, 10 * HOUR, uid="4"),
    )
    fleet = Fleet(nodes, pods)
    assert gangs(fleet) == {("default", "default", "Job/gang"): 2, ("default", "default", "Job/one"): 1}
    answer = moved(fleet, price="10")
    one = 1 + (exact(Work(0.1, 0.5)) - 1) / 2
    assert float(answer.scenario.cost) == pytest.approx(100 * (2 * exact(Work(0.1, 0.5, nodes=2)) + one), rel=1e-9)


def test_savings_add_up_by_suitability() -> None:
    pods = (
        Pod("a", "Job/train-1", 4, 0, 10 * HOUR, uid="1"),
        Pod("a", "Deployment/api", 2, 0, 10 * HOUR, uid="2"),
        Pod("a", "StatefulSet/jupyter-ann", 1, 0, 10 * HOUR, uid="3"),
    )
    answer = moved(Fleet((node("a", 10, "20"),), pods), price="10")
    savings = answer.figures["saving_by_suitability"]
    assert set(savings) == {"yes", "no", "risky", "unallocated"}
    assert sum(savings.values()) == answer.saving
    assert savings["yes"] > savings["no"] > savings["risky"] > 0


@pytest.mark.parametrize(
    ("workload", "suits"),
    [
        ("Job/llama-sft-03", "yes"), ("PyTorchJob/pretrain", "yes"), ("Job/lr-sweep-7", "yes"), ("CronJob/scoring", "yes"),
        ("Deployment/chat-api", "no"), ("InferenceService/bert", "no"), ("StatefulSet/jupyter-ann", "risky"),
        ("Notebook/ann", "risky"), ("Pod/try", "risky"), ("Widget/x", "risky"),
    ],
)  # fmt: skip
def test_advice(workload: str, suits: str) -> None:
    assert advise(workload).suits == suits


def test_list_price_of_a_zone_else_the_lower_median_of_its_regions() -> None:
    def price(amount: int) -> Price:
        return Price(Decimal(amount), "catalog", "2025-01-01")

    rows = [("aws", "r1", f"z{amount}", price(amount)) for amount in (1, 2, 3, 4)] + [("aws", "r2", "", price(9))]
    rows += [("aws", "r1", "*", price(2))]  # as list_prices.sql has it
    market = Market("USD", {("t", "spot"): rows})
    find = partial(market.list_price, option="spot")
    for place, amount in (
        (Place("T", "aws", "r1", "z3"), 3),
        (Place("t", "aws", "r1", "elsewhere"), 2),
        (Place("t", "aws", "r1", "z1", "z4"), 4),
        (Place("t", None, "R2"), 9),
    ):
        listed_price = find(place)
        assert listed_price is not None and listed_price.per_node_hour == amount
    assert find(Place("t")) is None  # regions differ
    assert find(Place("t", "gcp", "r1")) is None


ROW = {
    "node_id": 1, "cluster": "c", "node": "a", "gpu_count": 8.0, "from_ms": 0, "to_ms": 10 * HOUR, "capacity_type": "on_demand",
    "provider": "aws", "region": "us-east-1", "zone": None, "zone_id": None, "instance_type": "p4d.24xlarge",
    "gpu_model": "A100-SXM4-40GB",
}  # fmt: skip


def priced(*segments: tuple[int, int, int]) -> Fleet:
    """A node of the store with these (from hour, to hour, price)."""
    keys = ("from_ms", "to_ms", "price_per_hour", "node_id", "price_source", "price_as_of")
    values = ((start * HOUR, end * HOUR, Decimal(price), 1, "price_book", None) for start, end, price in segments)
    return fleet_of([ROW], [dict(zip(keys, row, strict=True)) for row in values], [])


@pytest.mark.parametrize(
    ("segments", "cost", "is_priced"),
    [
        ([(0, 10, 20)], 200, True),
        ([(0, 4, 20), (6, 10, 20)], 160, False),
        ([(2, 5, 20)], 60, False),
        ([(-5, 3, 20), (3, 20, 10)], 130, True),
        ([], 0, False),
    ],
)
def test_a_stretch_without_a_price_costs_nothing(segments: list[tuple[int, int, int]], cost: int, is_priced: bool) -> None:
    fleet = priced(*segments)
    assert (stage_cost(fleet).node_cost, fleet.nodes[0].is_priced) == (cost, is_priced)


def test_what_is_not_priced_does_not_move_and_is_no_offer() -> None:
    known, unknown = priced((0, 10, 20)), priced()
    answer = moved(Fleet((known.nodes[0], replace(unknown.nodes[0], name="b"))), price="5")
    assert 0 < answer.saving < answer.today.cost == 200
    assert any("what p4d.24xlarge cost now is not known" in finding for finding in answer.findings)
    with pytest.raises(GpucostError, match="not known"):
        moved(unknown, price="5")
    assert fleet_offers(unknown.nodes) == []
    assert [one.price_per_gpu_hour for one in fleet_offers(known.nodes)] == [2.5]
    # commitments fall back on the list price
    listed, period = Price(Decimal(32), "catalog"), Period(from_ms(0), from_ms(10 * HOUR))
    (family,) = families_of(unknown, period, Existing(False), lambda *_: (listed, {}), is_narrowed=False)
    assert family.uses[0].on_demand == listed
