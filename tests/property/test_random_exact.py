"""Random fleets with whole hours, partly idle ones, sharing, gaps and labels that change: every cell is the exact bill's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from tests.oracle.exact.compare import unequal
from tests.property.fleets import ONE, books, fleets, lived_in, period, priced
from tests.replay.cases.words import MORNING
from tests.replay.edits import relabel, revalue
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.series import Series

# A failure names cells, hours and pods: to look for a smaller fleet takes minutes, and says no more.
FOUND = (Phase.explicit, Phase.reuse, Phase.generate)
SETTINGS = settings(ONE, phases=FOUND)
FLEETS = fleets().flatmap(lived_in)
WINDOWS = st.sampled_from([1, 3, 24])


@pytest.mark.ci
@settings(SETTINGS, max_examples=15)
@given(data=st.data(), fleet=FLEETS, hours_per_window=WINDOWS)
def test_every_cell_is_that_of_the_exact_bill(
    data: st.DataObject, fleet: Fleet, hours_per_window: int
) -> None:
    with priced(fleet, data.draw(books(fleet))) as config:
        fleet["report"] = [
            MORNING + data.draw(st.integers(0, 3599)),
            fleet["end"] - data.draw(st.integers(0, 3599)),
        ]
        series = _unsettled(data, fleet)
        store = load(fleet, series, config, hours_per_window)
        pipeline.attribute(config, store, period(*fleet["report"]))
        wrong = unequal(fleet, series, config, store)
        assert not wrong, "\n".join(wrong[:40])


def _unsettled(data: st.DataObject, fleet: Fleet) -> list[Series]:
    """The fleet's scrapes, with labels and capacities that change at moments that are drawn.

    Namespaces change hands, in the hour of local midnight or another one; of one node no label tells the replicas, and what it
    offers catches up with them later.
    """
    series = scrape(fleet, lean=True)
    # the exporter goes on to tell the label of a namespace, so that others lost theirs
    for one in {
        one.labels["instance"]: one for one in series if one.labels["__name__"] == "kube_namespace_labels"
    }.values():
        times = np.unique(
            np.concatenate([
                other.times for other in series
                if other.labels["__name__"].startswith("kube_") and other.labels["instance"] == one.labels["instance"]
            ])
        )  # fmt: skip
        labels = {**one.labels, "namespace": "kept", "label_team": "kept"}
        series.append(replace(one, labels=labels, times=times, values=np.ones(len(times))))
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
