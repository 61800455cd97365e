"""Random fleets and bills: a lake gives the figures of the store, however days are grouped into tasks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from tests.lakes import unlike_the_store
from tests.property.fleets import books, by_basis, fleets, lived_in, many, priced
from tests.property.test_random_bills import bills
from tests.property.test_random_exact import SETTINGS
from tests.replay.bill_files import aws_cur
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape

#: (GPU, hour) pairs of a task: from one day to all days.
PAIRS = st.sampled_from([24, 100, 10**6])


def _check(data: st.DataObject, fleet: Fleet, pairs: int, told: list[Any]) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        store = load(fleet, scrape(fleet, lean=True), config, 3)
        if told:
            export = config.store.with_name("bill.csv")
            export.write_text(aws_cur(told))
            assert not collect_bills(store, [LocalTree(export)], "aws").errors
        wrong = unlike_the_store(config, store, pairs)
        assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@settings(SETTINGS, max_examples=4)
@given(data=st.data(), fleet=fleets().flatmap(lived_in), pairs=PAIRS)
def test_a_lake_has_the_figures_of_the_store(data: st.DataObject, fleet: Fleet, pairs: int) -> None:
    _check(data, fleet, pairs, [])


@pytest.mark.slow
@settings(SETTINGS, max_examples=4)
@given(data=st.data(), fleet=fleets(), pairs=PAIRS)
def test_a_lake_with_a_bill_has_the_figures_of_the_store(data: st.DataObject, fleet: Fleet, pairs: int) -> None:
    _check(data, fleet, pairs, data.draw(bills(fleet)))


test_many_more_lakes_by_cost_basis = many(
    test_a_lake_has_the_figures_of_the_store, given(data=st.data(), fleet=fleets().flatmap(by_basis), pairs=PAIRS), SETTINGS, 4
)
