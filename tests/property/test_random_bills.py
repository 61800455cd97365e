"""Random fleets with random bills: every cell is that of an exact calculation from the bill."""

from __future__ import annotations

import random
from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.store.connection import Store
from tests.oracle import read_book
from tests.oracle.billed import billed_book
from tests.oracle.exact.compare import unequal
from tests.property.fleets import ONE, books, fleets, involved, many, period, priced
from tests.replay.bill_files import aws_cur, focus
from tests.replay.billing import Charge, Rate, charges
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.result import unpaid
from tests.replay.scrape import scrape


def rates(seed: int, billed_to: float) -> Rate:
    """Prices that vary by hour and node; commitments by lot; some hours, and all after `billed_to`, are not billed yet."""

    def rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal] | None:
        dice = random.Random(f"{seed} {node['name']} {node['from']} {hour}")
        if hour >= billed_to or dice.random() < 0.1:
            return None
        price = Decimal(dice.randint(1, 9_999_999)) / 100_000
        options = (
            ["spot"] if node["capacity_type"] == "spot" else ["on_demand", "savings_plan", "reservation"]
        )
        return dice.choice(options), price

    return rate


@st.composite
def bills(draw: st.DrawFn, fleet: Fleet) -> list[Charge]:
    """A bill for the fleet's machines, which may have run for some time before they were nodes."""
    until = draw(st.integers(fleet["start"], fleet["end"] + 3600))
    return list(
        charges(fleet, rates(draw(st.integers(0, 10**6)), until), draw(st.sampled_from([0, 77, 1800])))
    )


WAYS = {"pooled": st.booleans(), "write": st.sampled_from([aws_cur, focus])}


@ONE
@given(data=st.data(), fleet=involved(fleets()), **WAYS)
def test_costs_are_those_of_an_exact_calculation_from_the_bill(
    data: st.DataObject, fleet: Fleet, pooled: bool, write: Any
) -> None:
    told = data.draw(bills(fleet))
    with priced(fleet, data.draw(books(fleet))) as config:
        series = scrape(fleet, lean=True)
        shared = config.prices.model_copy(update={"commitment_sharing": "pooled" if pooled else "as_billed"})
        config = config.model_copy(update={"prices": shared})
        store = load(fleet, series, config)
        if told:
            export = config.store.with_name("bill.csv")
            export.write_text(write(told))
            assert not collect_bills(store, [LocalTree(export)], None if write is focus else "aws").errors
        pipeline.attribute(config, store, period(fleet["start"], fleet["end"]))
        assert not unpaid(store)
        assert config.prices.book is not None
        listed = read_book(config.prices.book)
        dearest = max(
            [float(row["price_per_hour"]) for row in listed]
            + [float(Fraction(one.cost) / one.hours) for one in told]
        )
        # times are exact; money is to a few scrapes, within which a bill and its metrics may disagree on when a machine ran
        slack = Decimal(4 * fleet["scrape"] / 3600 * dearest)
        book = billed_book(told, listed, pooled=pooled)
        wrong = unequal(fleet, series, config, store, book, slack)
        assert not wrong, "\n".join(wrong[:40])
        _check_hours(store, told, pooled)


DRAWN = given(data=st.data(), fleet=fleets(), **WAYS)
test_many_more_bills = many(test_costs_are_those_of_an_exact_calculation_from_the_bill, DRAWN, ONE)

_POOLS = """
    SELECT sum(instance_hours * price_per_hour), sum(effective_cost) FROM billed_hours
    GROUP BY region, instance_type, capacity_type, from_ms
"""
_MACHINES = "SELECT instance_hours * price_per_hour, effective_cost FROM billed_hours"


def _check_hours(store: Store, told: list[Charge], pooled: bool) -> None:
    """Price x billed hours is the bill's effective cost: per machine as billed, over each pool where machines share."""
    rows = store.query(_POOLS if pooled else _MACHINES)[1]
    assert all(abs(float(cost) - float(calculated)) < 1e-6 for calculated, cost in rows)
    assert sum(cost for _, cost in rows) == sum(charge.cost for charge in told)
