"""Families of metrics through a real Prometheus: a time without GPU pods is collected, a family that stops is a gap.

Each fleet is a cluster of one server. kube-state-metrics is scraped all the time, and a DaemonSet's pod runs on a CPU node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
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

HOURS = 48
REQUESTS = "kube_pod_container_resource_(requests|limits)"
FAMILIES = {
    "nodes": "kube_node_.*",
    "pods": "kube_pod_info",
    "phases": "kube_pod_status_phase",
    "requests": REQUESTS,
}
Gap = tuple[float, float, list[str]]


@dataclass(frozen=True)
class Case:
    """A fleet's series, the gaps that they have, and the GPU-hours that pods are known to have held."""

    name: str
    series: list[Series]
    gaps: list[Gap]
    held: float


def scraped(pods: list[dict[str, Any]], nodes: list[dict[str, Any]] | None = None) -> list[Series]:
    """Return the series of pods on n0, beside a CPU node with a DaemonSet's pod."""
    proxy = pod(
        "proxy",
        "cpu",
        [],
        0,
        HOURS,
        "kube-system",
        keep_until=at(HOURS),
        cpu=0.1,
        owner=["DaemonSet", "proxy"],
    )
    nodes = nodes or [node("n0", "g5.xlarge", 0, HOURS)]
    util = {"GPU-n0-0": [[one["from"], one["to"], 3] for one in pods]}
    described = fleet(
        HOURS, [*nodes, node("cpu", "g5.xlarge", 0, HOURS, gpus=[])], [*pods, proxy], util, cluster_label=True
    )
    return scrape(described, lean=True)


def notebook(*spans: tuple[float, float], namespace: str = "train") -> list[dict[str, Any]]:
    """A notebook that comes back under its name."""
    return [pod("jupyter", "n0", [0], start, end, namespace, keep_until=at(end)) for start, end in spans]


def dead_shard_of_two() -> list[Series]:
    """One shard tells of a notebook and of a DaemonSet's pod, and dies; another tells of a pod that goes on."""
    other = [pod("serve", "n1", [0], 0, HOURS, "serve", keep_until=at(HOURS)), *notebook((3, 7))]
    series = scraped(other, [node("n0", "g5.xlarge", 0, HOURS), node("n1", "g5.xlarge", 0, HOURS)])
    first = relabel(series, "kube_pod_.*", {"instance": "10.4.0.2:8080"}, {"pod": "jupyter|proxy"})
    return drop(first, "kube_pod_.*", {"instance": "10.4.0.2:8080"}, (5, 99))


def cases() -> list[Case]:
    """All cases; what is dropped is dropped by the server, while kube-state-metrics is scraped all the time."""
    working = scraped(notebook((3, 7), (9, 17), (28, HOURS)))
    early = scraped(notebook((1, 3)))
    came_back = [node("n0", "g5.xlarge", 0, 6), node("n0", "g5.xlarge", 24, HOURS)]
    others = [pod("serve", "n0", [0], 10, HOURS, "serve", keep_until=at(HOURS))]
    end = float(HOURS)
    shards = relabel(scraped(notebook((3, 7))), "kube_pod_.*", {"instance": "10.4.0.2:8080"})
    return [
        Case("small-shard", shards, [], 4),
        Case(
            "dead-shard",
            drop(shards, "kube_pod_.*", hours=(5, 99)),
            [(5, end, ["nodes", "phases", "pods", "requests"])],
            2,
        ),
        Case("dead-shard-of-two", dead_shard_of_two(), [(5, end, ["nodes", "pods"])], 7),
        Case("notebook", working, [], 32),
        Case("scaled-to-zero", scraped(notebook((0, 6), (24, 30)), came_back), [], 12),
        Case("namespace-deleted", scraped(notebook((1, 9)) + others), [], 46),
        Case("short-pauses", scraped(notebook((0, 1), (1.25, 2), (2.6, 3), (4.9, 6))), [], 3.25),
        Case(
            "one-namespace-from-the-start", drop(working, "kube_pod_.*", {"namespace": "kube-system"}), [], 32
        ),
        Case("pods-dropped", drop(working, "kube_pod_info", hours=(12, 99)), [(12, end, ["pods"])], 7),
        Case("requests-dropped", drop(working, REQUESTS, hours=(12, 20)), [(12, 20, ["requests"])], 27),
        Case(
            "phases-dropped", drop(early, "kube_pod_status_phase", hours=(12, 99)), [(12, end, ["phases"])], 2
        ),
        Case(
            "all-of-pods-lost",
            drop(early, "kube_pod_.*", hours=(12, 24)),
            [(12, 24, ["phases", "pods", "requests"])],
            2,
        ),
        Case(
            "another-namespace-alone",
            drop(working, "kube_pod_.*", {"namespace": "train"}, (12, 99)),
            [(12, 17, ["pods"]), (28, end, ["pods"])],
            7,
        ),
    ]


Collected = tuple[dict[str, Case], Store, CollectResult]


def collect(folder: Path, known: list[Case]) -> Collected:
    """Collect the cases from one server, each as a cluster of its own, and attribute them."""
    require_prometheus()
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    series = [one for case in known for one in move(case.series, case.name)]
    period = Period(from_ms(at(0) * 1000), from_ms(at(HOURS) * 1000))
    with prometheus_over_text(lambda out: write_openmetrics(series, out), folder / "data") as url:
        config = write_config(fleet(HOURS, [], [], {}), folder, folder / "prices.csv", url)
        store = Store(config.store)
        (result,), errors = pipeline.collect(config, store, period)
        pipeline.attribute(config, store)
    assert not errors and not result.failed_windows
    return {case.name: case for case in known}, store, result


def check(name: str, collected: Collected, slack: float = 0.035) -> None:
    """The gaps of a case and its GPU-hours are right, and `collect` names the same gaps, as no others."""
    known, store, result = collected
    with store.read() as con:
        rows = con.execute(
            "SELECT from_ms, to_ms, families, kind FROM coverage_gaps"
            " WHERE cluster = $1 AND from_ms >= $2 AND to_ms <= $3 ORDER BY from_ms",
            [name, at(0) * 1000, at(HOURS) * 1000],
        ).fetchall()
        held = con.execute(
            "SELECT sum(allocated_gpu_ms) FROM cost_hourly JOIN nodes USING (node_id) WHERE cluster = $1",
            [name],
        ).fetchall()[0][0]
    gaps, hours = known[name].gaps, known[name].held
    # other objects are asked for every two minutes
    assert [(families, kind) for *_, families, kind in rows] == [
        (families, "not_collected") for *_, families in gaps
    ], rows
    found = [(ms / 1000 - at(0)) / 3600 for start, end, *_ in rows for ms in (start, end)]
    assert found == pytest.approx([hour for start, end, _ in gaps for hour in (start, end)], abs=0.035)
    assert held / MS_PER_HOUR == pytest.approx(hours, abs=slack)
    missing = [(gap.period.start_ms, gap.period.end_ms) for gap in result.incomplete if gap.cluster == name]
    assert missing == [(start, end) for start, end, *_ in rows]


#: Families that are collected, that a dead shard takes along, that stop (also while no GPU pod runs, or for one namespace).
QUICK = ("small-shard", "dead-shard-of-two", "pods-dropped", "all-of-pods-lost", "another-namespace-alone")


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Collected]:
    """Collect the quick cases, or all the others."""
    known = cases()
    return cache(
        lambda quick: collect(
            tmp_path_factory.mktemp("families"), [case for case in known if (case.name in QUICK) == quick]
        )
    )


@pytest.mark.parametrize(
    "name",
    [
        *QUICK,
        *(pytest.param(case.name, marks=pytest.mark.slow) for case in cases() if case.name not in QUICK),
    ],
)
def test_family_is_collected_while_the_server_has_samples_of_any_object(
    name: str, collected: Callable[[bool], Collected]
) -> None:
    check(name, collected(name in QUICK))


def random_case(seed: int) -> Case:
    """A notebook with pauses of minutes to half a day; in every other case a family is dropped for good in mid-period."""
    random = Random(seed)
    hour, spans = random.uniform(0, 3), list[tuple[float, float]]()
    while hour < HOURS - 3:
        end = min(hour + random.choice([0.3, 1, 4, 9]), HOURS)
        spans.append((round(hour, 2), round(end, 2)))
        hour = end + random.choice([0.1, 0.3, 0.9, 1.9, 5, 14])
    series, dropped = scraped(notebook(*spans)), random.choice(list(FAMILIES))
    if seed % 2:
        return Case(f"whole-{seed}", series, [], sum(end - start for start, end in spans))
    at_hour = round(random.uniform(10, 40), 2)
    held = sum(min(end, at_hour) - start for start, end in spans if start < at_hour)
    series = drop(series, FAMILIES[dropped], hours=(at_hour, 99))
    return Case(f"{dropped}-{seed}", series, [(at_hour, float(HOURS), [dropped])], held)


@pytest.mark.slow
def test_random_fleet_has_gaps_where_a_family_stops_and_nowhere_else(tmp_path: Path) -> None:
    collected = collect(tmp_path, [random_case(seed) for seed in range(24)])
    for name in collected[0]:
        check(name, collected, slack=0.3)  # each pod's end is known to a scrape
