"""Metric families in a real Prometheus: time without GPU pods is collected, a family that stops is a gap.

Each fleet is a cluster of one server. kube-state-metrics is always scraped, and a DaemonSet's pod runs on a CPU node.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.base import CollectResult
from gpucost.periods import MS_PER_HOUR, Period, from_ms
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.edits import drop, move, relabel
from tests.replay.load import write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Series
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.text_tables import text_rows, words

HOURS = 48
SHARD = {"instance": "10.4.0.2:8080"}
#: Cases: collected families, families lost with a dead shard, families that stop (also without GPU pods, or for one namespace).
QUICK = ("small-shard", "dead-shard-of-two", "pods-dropped", "all-of-pods-lost", "another-namespace-alone")
#: By name: series, their gaps, and the known GPU-hours of pods.
Case = tuple[list[Series], list[tuple[float, float, list[str]]], float]


def scraped(pods: list[dict[str, Any]], nodes: list[dict[str, Any]] | None = None) -> list[Series]:
    """Return the series of pods on n0, with a CPU node and a DaemonSet's pod."""
    owner = ["DaemonSet", "proxy"]
    proxy = pod("proxy", "cpu", [], 0, HOURS, "kube-system", keep_until=at(HOURS), cpu=0.1, owner=owner)
    nodes = [*(nodes or [node("n0", "g5.xlarge", 0, HOURS)]), node("cpu", "g5.xlarge", 0, HOURS, gpus=[])]
    util = {"GPU-n0-0": [[one["from"], one["to"], 3] for one in pods]}
    return scrape(fleet(HOURS, nodes, [*pods, proxy], util, cluster_label=True), lean=True)


def notebook(*spans: tuple[float, float]) -> list[dict[str, Any]]:
    """Return a notebook that returns under its name."""
    return [pod("jupyter", "n0", [0], start, end, keep_until=at(end)) for start, end in spans]


#: Name, series, dropped metrics of which objects in which hours, the gaps, and the GPU-hours of pods. The server drops the
#: samples, while kube-state-metrics is always scraped.
TABLE = """
small-shard                  | shard     |                                |                        |       |                                 | 4
dead-shard                   | shard     | kube_pod_.*                    |                        | 5 99  | 5 48 nodes phases pods requests | 2
dead-shard-of-two            | two       | kube_pod_.*                    | instance=10.4.0.2:8080 | 5 99  | 5 48 nodes pods                 | 7
notebook                     | working   |                                |                        |       |                                 | 32
scaled-to-zero               | came back |                                |                        |       |                                 | 12
namespace-deleted            | deleted   |                                |                        |       |                                 | 46
short-pauses                 | pauses    |                                |                        |       |                                 | 3.25
one-namespace-from-the-start | working   | kube_pod_.*                    | namespace=kube-system  | -1 99 |                                 | 32
pods-dropped                 | working   | kube_pod_info                  |                        | 12 99 | 12 48 pods                      | 7
requests-dropped             | working   | kube_pod_container_resource_.* |                        | 12 20 | 12 20 requests                  | 27
phases-dropped               | early     | kube_pod_status_phase          |                        | 12 99 | 12 48 phases                    | 2
all-of-pods-lost             | early     | kube_pod_.*                    |                        | 12 24 | 12 24 phases pods requests      | 2
another-namespace-alone      | working   | kube_pod_.*                    | namespace=train        | 12 99 | 12 17 pods, 28 48 pods          | 7
"""  # noqa: E501


def cases() -> dict[str, Case]:
    """Return all cases."""
    other = pod("serve", "n0", [0], 10, HOURS, "serve", keep_until=at(HOURS))
    # one shard reports a notebook and a DaemonSet's pod, then dies; another reports a pod that continues
    goes_on = pod("serve", "n1", [0], 0, HOURS, "serve", keep_until=at(HOURS))
    nodes = [node(name, "g5.xlarge", 0, HOURS) for name in ("n0", "n1")]
    both = scraped([goes_on, *notebook((3, 7))], nodes)
    came_back = [node("n0", "g5.xlarge", 0, 6), node("n0", "g5.xlarge", 24, HOURS)]
    bases = {
        "working": scraped(notebook((3, 7), (9, 17), (28, HOURS))),
        "early": scraped(notebook((1, 3))),
        "shard": relabel(scraped(notebook((3, 7))), "kube_pod_.*", SHARD),
        "two": relabel(both, "kube_pod_.*", SHARD, {"pod": "jupyter|proxy"}),
        "came back": scraped(notebook((0, 6), (24, 30)), came_back),
        "deleted": scraped([*notebook((1, 9)), other]),
        "pauses": scraped(notebook((0, 1), (1.25, 2), (2.6, 3), (4.9, 6))),
    }
    found = {}
    for name, base, metrics, where, hours, gaps, held in text_rows(TABLE):
        start, end = map(float, hours.split() or (0, 0))
        series = drop(bases[base], metrics, words(where), (start, end))
        spans = [gap.split() for gap in gaps.split(",") if gap]
        found[name] = (series, [(float(since), float(to), names) for since, to, *names in spans], float(held))
    return found


CASES = cases()


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], tuple[Store, CollectResult]]:
    """Collect the quick cases, or all others, from one server, each as a cluster, and attribute them."""

    def collect(quick: bool) -> tuple[Store, CollectResult]:
        require_prometheus()
        folder, series = tmp_path_factory.mktemp("families"), []
        (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
        for name, (scrapes, *_) in CASES.items():
            series += move(scrapes, name) if (name in QUICK) == quick else []
        period = Period(from_ms(at(0) * 1000), from_ms(at(HOURS) * 1000))
        with prometheus_over_text(lambda out: write_openmetrics(series, out), folder / "data") as url:
            config = write_config(fleet(HOURS, [], [], {}), folder, folder / "prices.csv", url)
            store = Store(config.store)
            (result,), errors = pipeline.collect(config, store, period)
            pipeline.attribute(config, store)
        assert not errors and not result.failed_windows
        return store, result

    return cache(collect)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in CASES]
)
def test_family_is_collected_while_the_server_has_samples_of_any_object(
    name: str, collected: Callable[[bool], tuple[Store, CollectResult]]
) -> None:
    """The gaps and GPU-hours of a case are right, and `collect` names exactly these gaps."""
    store, result = collected(name in QUICK)
    _, gaps, hours = CASES[name]
    with store.read() as con:
        rows = con.execute(
            "SELECT from_ms, to_ms, families, kind FROM coverage_gaps"
            " WHERE cluster = $1 AND from_ms >= $2 AND to_ms <= $3 ORDER BY from_ms",
            [name, at(0) * 1000, at(HOURS) * 1000],
        ).fetchall()
        held = "SELECT sum(allocated_gpu_ms) FROM cost_hourly JOIN nodes USING (node_id) WHERE cluster = $1"
        ((held_ms,),) = con.execute(held, [name]).fetchall()
    # other objects are queried every two minutes
    assert [row[2:] for row in rows] == [(families, "not_collected") for *_, families in gaps], rows
    found = [(ms / 1000 - at(0)) / 3600 for start, end, *_ in rows for ms in (start, end)]
    assert found == pytest.approx([hour for start, end, _ in gaps for hour in (start, end)], abs=0.035)
    assert held_ms / MS_PER_HOUR == pytest.approx(hours, abs=0.035)
    missing = [(gap.period.start_ms, gap.period.end_ms) for gap in result.incomplete if gap.cluster == name]
    assert missing == [row[:2] for row in rows]
