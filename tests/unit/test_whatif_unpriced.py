"""Nodes that nothing prices: they cost nothing, as in the report, and no scenario takes that for a price."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from gpucost.errors import GpucostError
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.whatif.fleet import Fleet, Node, Price, fleet_of
from gpucost.whatif.reserve import Existing, families_of
from gpucost.whatif.rightsize import fleet_offers
from gpucost.whatif.spot import answer as stored
from gpucost.whatif.spot.interruptions import Rate
from gpucost.whatif.spot.market import Market
from gpucost.whatif.spot.simulate import SimulationOptions, SimulationQuery
from tests.unit.whatif_costs import answered, stage_cost

HOUR = MS_PER_HOUR
ROW = {
    "node_id": 1, "cluster": "c", "node": "a", "gpu_count": 8.0, "from_ms": 0, "to_ms": 10 * HOUR, "capacity_type": "on_demand",
    "provider": "aws", "region": "us-east-1", "zone": None, "zone_id": None, "instance_type": "p4d.24xlarge",
    "gpu_model": "A100-SXM4-40GB",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("stages_together")


def priced(from_hour: int, to_hour: int, price: str = "20") -> dict[str, Any]:
    return {
        "node_id": 1, "from_ms": from_hour * HOUR, "to_ms": to_hour * HOUR, "price_per_hour": Decimal(price),
        "price_source": "price_book", "price_as_of": None,
    }  # fmt: skip


def fleet(*segments: dict[str, Any]) -> Fleet:
    return fleet_of([ROW], segments, [])


@pytest.mark.parametrize(
    ("segments", "cost"),
    [
        ([priced(0, 10)], 200),
        ([priced(0, 4), priced(6, 10)], 160),
        ([priced(2, 5)], 60),
        ([priced(-5, 3), priced(3, 20, "10")], 130),
        ([], 0),
    ],
)
def test_a_stretch_without_a_price_costs_nothing(segments: list[dict[str, Any]], cost: int) -> None:
    found = fleet(*segments)
    assert stage_cost(found).node_cost == cost
    assert found.nodes[0].is_priced == (cost in (200, 130))


def question(found: Fleet) -> SimulationQuery:
    return SimulationQuery(found, "a period", "all", False, Market("USD"), Rate(0.1, "test"), None, Decimal(5))


def test_what_is_not_priced_does_not_move_to_spot() -> None:
    known = fleet(priced(0, 10)).nodes[0]
    answer = answered(stored.answer(SimulationOptions(runs=100), question(Fleet((known, replace(fleet().nodes[0], name="b"))))))
    assert 0 < answer.saving < answer.today.cost == 200
    assert any("what p4d.24xlarge cost now is not known" in finding for finding in answer.findings)
    with pytest.raises(GpucostError, match="not known"):
        answered(stored.answer(SimulationOptions(runs=100), question(fleet())))


def test_what_is_not_priced_is_no_offer() -> None:
    assert fleet_offers(fleet().nodes) == []
    assert fleet_offers([Node("a", 8, 0, HOUR, (Price(Decimal(8), "price_book"),), gpu_model="H100")])[0].price_per_gpu_hour == 1


def test_commitments_fall_back_on_the_list_price() -> None:
    listed = Price(Decimal(32), "catalog")
    families = families_of(
        fleet(), Period(from_ms(0), from_ms(10 * HOUR)), Existing(False), lambda *_: (listed, {}), is_narrowed=False
    )
    assert families[0].uses[0].on_demand == listed
