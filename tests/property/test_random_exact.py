"""Random fleets with whole hours, partly idle ones, sharing, gaps and labels that change: every cell is the exact bill's."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.periods import Period
from tests.oracle.exact.compare import unequal
from tests.property.fleets import books, fleets, lived_in
from tests.replay.cases.words import HEADER, MORNING
from tests.replay.edits import relabel, revalue
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series

# A failure names cells, hours and pods: to look for a smaller fleet takes minutes, and says no more.
FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
RARELY_SLOW = settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True, phases=FOUND)
FLEETS = fleets().flatmap(lived_in)
WINDOWS = st.sampled_from([1, 3, 24])


@RARELY_SLOW
@given(data=st.data(), fleet=FLEETS, hours_per_window=WINDOWS)
def test_every_cell_is_that_of_the_exact_bill(data: st.DataObject, fleet: Fleet, hours_per_window: int) -> None:
    _compare(data, fleet, hours_per_window)


@pytest.mark.slow
@settings(RARELY_SLOW, max_examples=80)
@given(data=st.data(), fleet=FLEETS, hours_per_window=WINDOWS)
def test_every_cell_of_many_more_fleets(data: st.DataObject, fleet: Fleet, hours_per_window: int) -> None:
    _compare(data, fleet, hours_per_window)


def _compare(data: st.DataObject, fleet: Fleet, hours_per_window: int) -> None:
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        folder = Path(name)
        prices = folder / "prices.csv"
        prices.write_text("\n".join([HEADER, *data.draw(books(fleet))]) + "\n")
        fleet["report"] = [MORNING + data.draw(st.integers(0, 3599)), fleet["end"] - data.draw(st.integers(0, 3599))]
        series = _unsettled(data, fleet)
        config = write_config(fleet, folder, prices)
        store = load(fleet, series, config, hours_per_window)
        pipeline.attribute(config, store, Period(*(datetime.fromtimestamp(s, UTC) for s in fleet["report"])))
        wrong = unequal(fleet, series, config, store)
        assert not wrong, "\n".join(wrong[:40])


def _unsettled(data: st.DataObject, fleet: Fleet) -> list[Series]:
    """The fleet's scrapes, with labels and capacities that change at moments that are drawn.

    Namespaces change hands, in the hour of local midnight or another one; of one node no label tells the replicas, and what it
    offers catches up with them later.
    """
    series = scrape(fleet, lean=True)
    for namespace in ("a", "b", "c"):
        moved = data.draw(st.sampled_from([1.0, 2.0])) + data.draw(st.integers(0, 1799)) / 3600
        where = {"namespace": namespace}
        series = relabel(series, "kube_namespace_labels", {"label_team": "first"}, where, (0, moved))
        if data.draw(st.booleans()):
            series = relabel(series, "kube_namespace_labels", {"label_team": "second"}, where, (moved, 24))
    slots = {"node": "slots"}
    if data.draw(st.booleans()):
        series = relabel(series, "kube_node_labels", {"label_nvidia_com_gpu_replicas": None}, slots)
    late = data.draw(st.integers(0, 1200)) / 3600
    return revalue(series, "kube_node_status_.*", 1, {**slots, "resource": "nvidia_com_gpu"}, (0, late))
