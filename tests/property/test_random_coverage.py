"""Random notebooks: time with samples of every metric family is collected, regardless of pods."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from gpucost import pipeline
from gpucost.engine import dicts
from tests.property.fleets import RARELY_SLOW, period, priced
from tests.replay.cases.words import at, fleet, pod
from tests.replay.edits import drop, move
from tests.replay.fleet import Fleet
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.series import Series

HOURS = 30
BOOK = [",,,g5.xlarge,,1.00,USD,"]


@st.composite
def notebooks(draw: st.DrawFn) -> Fleet:
    """Draw one or two permanent nodes with notebooks that reuse a name after pauses of minutes to most of a day."""
    nodes, pods, util = [], [], {}
    for name in ("n0", "n1")[: draw(st.integers(1, 2))]:
        nodes.append(f"{name} | g5.xlarge | 0 | {HOURS}")
        hour = draw(st.sampled_from([0.0, 0.5, 9.0]))
        spans = []
        while hour < HOURS - 1 and len(spans) < 4:
            end = min(hour + draw(st.sampled_from([0.1, 0.4, 1.0, 2.5, 8.0])), float(HOURS))
            owner, listed = ["StatefulSet", f"jupyter-{name}"], draw(st.sampled_from([0, 420]))
            pods.append(pod(owner[1], name, [0], hour, end, keep_until=at(end) + listed, owner=owner))
            spans.append([at(hour), at(end), draw(st.sampled_from([0, 3, 60]))])
            hour = end + draw(st.sampled_from([0.15, 0.3, 0.6, 1.5, 3.0, 16.0]))
        util[f"GPU-{name}-0"] = spans
    return fleet(HOURS, nodes, pods, util, scrape=draw(st.sampled_from([60, 300])))


def gaps(described: Fleet, series: list[Series]) -> list[dict[str, Any]]:
    """Return the fleet's time that counts as not collected or bridged."""
    with priced(described, BOOK) as config:
        store = load(described, series, config)
        pipeline.attribute(config, store, period(described["start"], described["end"]))
        inside = "FROM coverage_gaps WHERE from_ms > $start AND to_ms < $end"
        with store.read() as con:
            return dicts(con.execute(inside, {edge: described[edge] * 1000 for edge in ("start", "end")}))


def notebook(*spans: tuple[float, float], **more: Any) -> Fleet:
    """Return one node with a notebook that returns to its GPU under its old name."""
    pods = [f"jupyter | n0 | 0 | {start} | {end}" for start, end in spans]
    busy = {"GPU-n0-0": [[at(start), at(end), 3] for start, end in spans]}
    return fleet(HOURS, [f"n0 | g5.xlarge | 0 | {HOURS}"], pods, busy, **more)


PAUSES = {
    "overnight": notebook((0, 1), (17, 20), (28, 30)),
    "within an hour": notebook((0, 0.1), (0.7, 1)),
    "over an hour's edge": notebook((2, 2.2), (2.5, 2.6), (3.4, 3.9)),
    "one sample on each side": notebook((0, 1.05), (1.9, 3), scrape=300),
}
#: The exporter names a pod until its end at hour 15; the next pod starts at 22.
NAMED = notebook((0, 15), (22, 26))
LOST = r"kube_pod_(info|status_phase|(init_)?container_resource_(requests|limits))"


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[str, list[str]]]]:
    """Return the kind and families of each fleet's gaps; each fleet is a cluster of one store."""
    series = {name: scrape(described, lean=True) for name, described in PAUSES.items()}
    series["named"] = drop(scrape(NAMED, lean=True), LOST, hours=(10, 20))
    rows = gaps(NAMED, [one for name, own in series.items() for one in move(own, name)])
    return {
        name: [(row["kind"], row["families"]) for row in rows if row["cluster"] == name] for name in series
    }


@pytest.mark.parametrize("name", PAUSES)
def test_pause_of_a_notebook_is_collected(name: str, found: Any) -> None:
    assert found[name] == []


def test_pod_named_by_exporter_proves_missing_metrics(found: Any) -> None:
    assert found["named"] == [("not_collected", ["pods", "requests"])]


@pytest.mark.slow
@settings(RARELY_SLOW, max_examples=20)
@given(described=notebooks())
def test_time_with_samples_of_every_family_is_collected(described: Fleet) -> None:
    assert gaps(described, scrape(described, lean=True)) == []
