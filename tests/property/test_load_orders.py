"""In whatever order a fleet's time is loaded, with attributions and compactions in between: the store ends as if made anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.store import upkeep
from gpucost.store.connection import Store
from gpucost.store.metrics import SampleWindow, load_window
from tests.property.fleets import ONE, books, fleets, priced
from tests.replay.fleet import Fleet
from tests.replay.load import windows
from tests.replay.scrape import scrape

TABLES = (
    "nodes", "allocations", "allocation_traits", "mig_fragmentation", "pending_pods", "collected", "coverage_gaps", "node_prices",
    "warnings", "cost_hourly", "node_hourly", "cost_daily", "node_daily",
)  # fmt: skip


@pytest.mark.slow
@settings(ONE, max_examples=5)
@given(data=st.data(), fleet=fleets())
def test_a_store_filled_in_any_order_is_that_made_from_nothing(data: st.DataObject, fleet: Fleet) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        hourly = list(windows(fleet, scrape(fleet, lean=True), config, 1))
        assume(len(hourly) > 1)
        grown = Store(config.store.with_name("grown.duckdb"))
        # by number: a failure then prints the order, not the samples
        *first, last = data.draw(st.permutations(range(len(hourly))))
        for number in first:
            _load(grown, hourly[number])
            # none: the next window is loaded before anything is attributed
            if threshold := data.draw(st.sampled_from([None, 5, 60])):
                idle = config.idle.model_copy(update={"threshold_percent": threshold})
                teams = data.draw(st.sampled_from([config.teams, []]))
                zone = data.draw(st.sampled_from(["UTC", "Asia/Kolkata"]))
                share = data.draw(st.sampled_from(["compute", "max_compute_memory"]))
                mig = config.mig.model_copy(update={"share": share})
                changed = {"idle": idle, "teams": teams, "timezone": zone, "mig": mig}
                pipeline.attribute(config.model_copy(update=changed), grown)
            if data.draw(st.integers(0, 9)) == 0:
                upkeep.rewrite(grown)
        # A changed threshold makes every day anew: without a change, the last window alone has to.
        pipeline.attribute(config, grown)
        _load(grown, hourly[last])
        anew = Store(config.store.with_name("anew.duckdb"))
        for window in hourly:
            _load(anew, window)
        assert _stored(config, grown) == _stored(config, anew)


def _load(store: Store, window: SampleWindow) -> None:
    with store.write() as con:
        load_window(con, window)


def _stored(config: Config, store: Store) -> dict[str, list[tuple[Any, ...]]]:
    pipeline.attribute(config, store)
    with store.read() as con:
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES}
