"""Discounts on random fleets: every cost shrinks by the percentage, GPUs included, and nothing is lost on the way."""

from __future__ import annotations

import shutil
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.config.model import Config, Discount, Prices
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.property.fleets import books, fleets
from tests.replay.cases.words import HEADER
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.result import unpaid
from tests.replay.scrape import scrape

COSTS = """
    SELECT node_id, allocation_id, from_ms, cost, idle_cost, unallocated_cost FROM cost_hourly
    UNION ALL SELECT node_id, NULL, from_ms, node_cost, 0, 0 FROM node_hourly
    ORDER BY ALL
"""
# Each figure is rounded once to nine decimals before the discount and once after; of a node's, the largest takes the rest.
ROUNDING = Decimal("0.00000001")


SETTINGS = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
PERCENTS = st.sampled_from(["30", "12.5", "99.99", "0.01"])


@pytest.mark.slow
@settings(SETTINGS, max_examples=30)
@given(data=st.data(), fleet=fleets(), percent=PERCENTS, later=st.booleans())
def test_a_discount_takes_its_percentage_off_every_cost(data: st.DataObject, fleet: Fleet, percent: str, later: bool) -> None:
    _check(data, fleet, percent, later)


def _check(data: st.DataObject, fleet: Fleet, percent: str, later: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="fleet-"))
    try:
        prices = folder / "prices.csv"
        prices.write_text("\n".join([HEADER, *data.draw(books(fleet))]) + "\n")
        config = write_config(fleet, folder, prices)
        store = load(fleet, scrape(fleet, lean=True), config)
        before = costs(fleet, config, store)
        begins = datetime.fromtimestamp(fleet["start"], UTC).date() if later else None
        discounts = [Discount(percent=Decimal(percent)), Discount(percent=Decimal(50), effective_start=begins)]
        after = costs(fleet, with_discounts(config, discounts), store)
        kept = (1 - Decimal(percent) / 100) / 2
        assert [row[:3] for row in before] == [row[:3] for row in after]
        for full, less in zip(before, after, strict=True):
            for value, discounted in zip(full[3:], less[3:], strict=True):
                assert abs(discounted - value * kept) <= ROUNDING
    finally:
        shutil.rmtree(folder)


def costs(fleet: Fleet, config: Config, store: Store) -> list[tuple[Any, ...]]:
    """All costs there are, once attribution is up to date; conserved to the last decimal."""
    pipeline.attribute(config, store, Period(*(datetime.fromtimestamp(s, UTC) for s in (fleet["start"], fleet["end"]))))
    assert not unpaid(store)
    with store.read() as con:
        return con.execute(COSTS).fetchall()


def with_discounts(config: Config, discounts: list[Discount]) -> Config:
    return config.model_copy(update={"prices": Prices(book=config.prices.book, discounts=discounts)})
