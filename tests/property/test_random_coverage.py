"""Random notebooks: time in which every family was exported is collected, whatever pods do; a family that stops is a gap."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpucost import pipeline
from gpucost.engine import dicts
from tests.property.fleets import RARELY_SLOW, period, priced
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.series import Series

HOURS = 30
BOOK = [",,,g5.xlarge,,1.00,USD,"]
FAMILIES = {
    "nodes": r"kube_node_.*",
    "pods": r"kube_pod_info",
    "phases": r"kube_pod_status_phase",
    "requests": r"kube_pod_(init_)?container_resource_(requests|limits)",
}


@st.composite
def notebooks(draw: st.DrawFn) -> Fleet:
    """One or two nodes that stay up; on each, notebooks under one name come and go, with pauses of minutes to most of a day."""
    nodes, pods, util = [], [], {}
    for name in ("n0", "n1")[: draw(st.integers(1, 2))]:
        nodes.append(node(name, "g5.xlarge", 0, HOURS))
        hour = draw(st.sampled_from([0.0, 0.5, 9.0]))
        spans = []
        while hour < HOURS - 1 and len(spans) < 4:
            end = min(hour + draw(st.sampled_from([0.1, 0.4, 1.0, 2.5, 8.0])), float(HOURS))
            restarts_at_once = draw(st.booleans())
            pods.append(
                pod(f"jupyter-{name}", name, [0], hour, end, keep_until=at(end) + (0 if restarts_at_once else 420))
                | {"owner": ["StatefulSet", f"jupyter-{name}"]}
            )
            spans.append([at(hour), at(end), draw(st.sampled_from([0, 3, 60]))])
            hour = end + draw(st.sampled_from([0.15, 0.3, 0.6, 1.5, 3.0, 16.0]))
        util[f"GPU-{name}-0"] = spans
    found: Fleet = fleet(HOURS, nodes, pods, util, scrape=draw(st.sampled_from([60, 300])))
    return found


def gaps(described: Fleet, series: list[Series]) -> list[dict[str, Any]]:
    """Return what of the fleet's time counts as not collected or bridged."""
    with priced(described, BOOK) as config:
        store = load(described, series, config)
        pipeline.attribute(config, store, period(described["start"], described["end"]))
        with store.read() as con:
            return dicts(
                con.execute(
                    "FROM coverage_gaps WHERE from_ms > $start AND to_ms < $end",
                    {"start": described["start"] * 1000, "end": described["end"] * 1000},
                )
            )


def notebook(*spans: tuple[float, float], **more: Any) -> Fleet:
    """One node, and a notebook that comes back to its GPU under its old name."""
    pods = [pod("jupyter", "n0", [0], start, end) for start, end in spans]
    busy = {"GPU-n0-0": [[at(start), at(end), 3] for start, end in spans]}
    return fleet(HOURS, [node("n0", "g5.xlarge", 0, HOURS)], pods, busy, **more)


@pytest.mark.parametrize(
    "described",
    [
        notebook((0, 1), (17, 20), (28, 30)),
        notebook((0, 0.1), (0.7, 1)),
        notebook((2, 2.2), (2.5, 2.6), (3.4, 3.9)),
        notebook((0, 1.05), (1.9, 3), scrape=300),
    ],
    ids=["overnight", "within an hour", "over an hour's edge", "one sample on each side"],
)
def test_pause_of_a_notebook_is_collected(described: Fleet) -> None:
    assert gaps(described, scrape(described, lean=True)) == []


@pytest.mark.slow
@settings(RARELY_SLOW, max_examples=20)
@given(described=notebooks())
def test_time_in_which_every_family_is_exported_is_collected(described: Fleet) -> None:
    assert gaps(described, scrape(described, lean=True)) == []


@pytest.mark.parametrize("family", FAMILIES)
def test_family_that_stops_for_hours_is_not_collected(family: str) -> None:
    whole = fleet(
        HOURS, [node("n0", "g5.xlarge", 0, HOURS)], [pod("train", "n0", [0], 0, HOURS)], {"GPU-n0-0": [[at(0), at(HOURS), 60]]}
    )
    first, last = at(10) * 1000, at(20) * 1000
    series = [
        one if not re.fullmatch(FAMILIES[family], one.labels["__name__"]) else without(one, first, last)
        for one in scrape(whole, lean=True)
    ]
    (gap,) = gaps(whole, series)
    assert (gap["kind"], gap["families"]) == ("not_collected", [family])
    assert abs(gap["from_ms"] - first) <= 120_000 and abs(gap["to_ms"] - last) <= 120_000


def test_exporter_that_names_a_pod_proves_that_its_metrics_are_missing() -> None:
    """All metrics of pods stop at hour 10; the exporter names the pod until it ends at hour 15, and the next one starts at 22."""
    whole = notebook((0, 15), (22, 26))
    lost = "|".join(FAMILIES[family] for family in ("pods", "phases", "requests"))
    first, last = at(10) * 1000, at(20) * 1000
    series = [
        without(one, first, last) if re.fullmatch(lost, one.labels["__name__"]) else one for one in scrape(whole, lean=True)
    ]
    found = [(gap["kind"], gap["families"]) for gap in gaps(whole, series)]
    assert found == [("not_collected", ["pods", "requests"])]


def without(series: Series, first_ms: int, last_ms: int) -> Series:
    """Return the series without its samples of a span."""
    keep = (series.times < first_ms) | (series.times >= last_ms)
    return Series(series.labels, series.times[keep], np.asarray(series.values)[keep])
