"""`gpucost whatif spot` on a store: interruptions of its own spot nodes, and observed checkpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.engine import dicts, run_stage
from gpucost.price.list_prices import load_offers
from gpucost.store.connection import Store
from gpucost.whatif.spot.formulas import Work, exact
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.edits import move
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.replay.work import counter, put
from tests.text_tables import text_rows, words
from tests.unit.whatif_costs import ask

END = 200
RATE, LIVES = 0.15, 24


# pods, their jobs, their start hours, and their counted epochs
RUNS = text_rows("""
    first   | resumed | 1 0 20
    again   | resumed | 50 15 40
    fresh   | anew    | 100 0 20
    fresh-2 | anew    | 150 0 20
""")


class Lives(NamedTuple):
    """Spot nodes with exponential lifetimes, one after the other in their own zone, held to the end."""

    nodes: list[dict[str, Any]]
    pods: list[dict[str, Any]]
    hours: float

    @property
    def ended(self) -> list[dict[str, Any]]:
        return [one for one in self.nodes if one["name"].startswith("taken-")]

    def scraped(self) -> list[Series]:
        return scrape(fleet(END, self.nodes, self.pods, {}, scrape=300), lean=True)


def lives(zone: str) -> Lives:
    nodes, pods, now, hours = [], [], 0.0, 0.0
    for number in range(LIVES):
        # the middle of each equal part of the distribution, rounded to whole scrapes
        length = max(round(-math.log(1 - (number + 0.5) / LIVES) / RATE * 12), 3) / 12
        name = f"taken-{number}"
        nodes.append(node(name, "g5.xlarge", now, now + length, "spot", zone=zone))
        # every second node is drained on notice: its pod ends five minutes before the node
        gone = now + length - (1 / 12 if number % 2 else 0)
        pods.append(pod(name, name, [0], now + 1 / 12, gone, "train", keep_until=at(gone)))
        now, hours = now + length + 0.25, hours + length
    nodes.append(node("stays", "g5.xlarge", now, END, "spot", zone=zone))
    pods.append(pod("stays", "stays", [0], now + 0.1, END, "train", keep_until=at(END)))
    return Lives(nodes, pods, hours + END - now)


class Scene(NamedTuple):
    """Lives in their own cluster and zone: the ends with a running pod, and the witnessed reclaims."""

    lives: Lives
    series: list[Series]
    ends: int
    witnessed: int


def plain(zone: str) -> Scene:
    """No reported interruptions; plus nodes of another family, with ends that do not count, and a job that resumes."""
    found = lives(zone)
    for number in range(20):
        start, name = number * 9.0, f"over-{number}"
        found.nodes.append(node(name, "g6.12xlarge", start, start + 6, "spot", zone=zone))
        # finished just before the end, or long before
        last = start + (5.9 if number % 2 else 5)
        more = {} if number % 2 else {"keep_until": at(last)}
        found.pods.append(pod(name, name, [0, 1, 2, 3], start + 0.1, last, "train", **more))
    found.nodes.append(node("kept", "g5.xlarge", 0, END, zone=zone))
    # two runs of a job: the second resumes from the epoch of the first; runs of the other job start over
    for name, job, numbers in RUNS:
        start = int(numbers.split()[0])
        found.pods.append(pod(name, "kept", [0], start, start + 40, "train", owner=["PyTorchJob", job]))
    return Scene(found, found.scraped(), LIVES, 0)


def sampled(start: float, end: float, values: Callable[[Any], Any], **labels: str) -> Series:
    """A sample every five minutes between two hours; its value is a function of its number since the start."""
    ticks = np.arange(int(start * 12), int(end * 12))
    return Series({"cluster": "main", **labels}, (ticks * 300 + at(0)) * 1000, values(ticks).astype(float))


def handled(zone: str, heard_from: float) -> Scene:
    """A termination handler reports interruptions; before its first report, every end with a running pod counts."""
    found = lives(zone)

    # 14 nodes were reclaimed, and another was drained for maintenance
    ends = [(one["to"] - at(0)) / 3600 - 1 / 60 for one in found.ended[:15]]
    about = words("__name__=actions_node_total job=handler instance=10.4.0.9:9092")
    more = [sampled(heard_from, END, np.zeros_like, **about)]
    for number, (one, end) in enumerate(zip(found.ended, ends, strict=False)):
        event = "spot-itn-1f" if number < 14 else "maintenance-event-2"
        event_labels = words(
            f"node_name={one['name']} node_event_id={event} node_action=cordon-and-drain node_status=success"
        )
        if end >= heard_from:
            more.append(sampled(end, END, np.ones_like, **about, **event_labels))
    unheard = sum(one["to"] < at(heard_from) for one in found.ended)
    assert 0 < unheard < 14 if heard_from else unheard == 0
    ends_after = sum(end >= heard_from for end in ends[:14])
    return Scene(found, [*found.scraped(), *more], unheard + ends_after, ends_after)


def counted(zone: str, metric: str, reason: str) -> Scene:
    """Karpenter counts interruptions only by NodePool; an end in one without an increase of its counter is not a reclaim."""
    found = lives(zone)
    # every second node was reclaimed, one scrape before its end; Karpenter restarts halfway
    taken = [round((one["to"] - at(0)) / 300) - 1 for one in found.ended[3::2]]
    middle = len(taken) // 2

    def counting(ends: list[int], until: int, instance: str) -> Series:
        about = words(
            f"__name__={metric} job=karpenter reason={reason} nodepool=gpu capacity_type=spot instance={instance}"
        )
        return sampled(
            ends[0] / 12, until / 12, lambda ticks: np.searchsorted(ends, ticks, side="right"), **about
        )

    more = [counting(taken[:middle], taken[middle] - 1, "10.4.0.8:8080")]
    more.append(counting(taken[middle:], END * 12, "10.4.0.9:8080"))
    scraped = found.scraped()
    # the first three are in a node group outside Karpenter
    known = {one["name"] for one in found.nodes} - {one["name"] for one in found.ended[:3]}
    for one in scraped:
        if one.labels["__name__"] == "kube_node_labels" and one.labels["node"] in known:
            one.labels["label_karpenter_sh_nodepool"] = "gpu"
    return Scene(found, [*scraped, *more], 3 + len(taken), len(taken))


SCENES: dict[str, Callable[[], Scene]] = {
    "main": lambda: plain("us-west-2b"),
    "heard": lambda: handled("us-west-2h", 0),
    "heard-late": lambda: handled("us-west-2i", 10),
    "spot_interrupted": lambda: counted(
        "us-west-2k", "karpenter_nodeclaims_disrupted_total", "spot_interrupted"
    ),
    "interruption": lambda: counted("us-west-2l", "karpenter_nodeclaims_disrupted_total", "interruption"),
    "terminated": lambda: counted("us-west-2n", "karpenter_nodeclaims_terminated", "interruption"),
}


@cache
def scenes() -> dict[str, Scene]:
    return {name: scene() for name, scene in SCENES.items()}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Store]:
    """A store with all scenes, each as its own cluster."""
    folder = tmp_path_factory.mktemp("lives")
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    nodes = [{**one, "cluster": name} for name, scene in scenes().items() for one in scene.lives.nodes]
    described = fleet(END, nodes, [], {}, scrape=300)
    config = write_config(described, folder, folder / "prices.csv")
    series = [one for name, scene in scenes().items() for one in move(scene.series, name)]
    store = load(described, series, config, hours_per_window=24 * 31)
    reached = []
    for name, _, numbers in RUNS:
        hour, low, high = map(int, numbers.split())
        reached.append((counter("epoch", name), [(hour + 1, low), (hour + 35, high)]))
    put(store, reached, END)
    pipeline.attribute(config, store)
    return config, store


@pytest.fixture(scope="module")
def evidence(loaded: tuple[Config, Store]) -> dict[tuple[str, str], dict[str, float]]:
    """Rows of spot_evidence by instance type and zone, with a half-life so long that all evidence counts fully."""
    config, store = loaded
    with store.read() as con:
        load_offers(con, config)
        run_stage(
            con, "gpucost.whatif.spot", "spot_evidence", {"held_within_ms": 600_000, "half_life_ms": 10**16}
        )
        return {(row["instance_type"], row["zone"]): row for row in dicts(con.execute("FROM spot_evidence"))}


@pytest.mark.parametrize("name", SCENES)
def test_ends_and_reclaims_of_a_pool_are_counted(
    evidence: dict[tuple[str, str], dict[str, float]], name: str
) -> None:
    scene = scenes()[name]
    own = evidence["g5.xlarge", scene.lives.nodes[0]["zone"]]
    assert own["node_hours"] == pytest.approx(scene.lives.hours, rel=0.02)
    assert own["pool_hours"] <= own["node_hours"]
    assert own["reclaims"] == pytest.approx(scene.witnessed)
    assert 0 < own["ends"] <= scene.ends  # ends within 15 minutes count as one


def test_ends_of_nodes_with_finished_pods_do_not_count(
    evidence: dict[tuple[str, str], dict[str, float]],
) -> None:
    assert all(row["ends"] == 0 for (kind, _), row in evidence.items() if kind == "g6.12xlarge")


def test_training_resumed_from_a_checkpoint_is_safe(loaded: tuple[Config, Store]) -> None:
    answer = ask("spot", f"--from 2026-03-10 --to 2026-03-18 --cluster main --config {loaded[0].path}")
    suits = {
        row["workload"]: row["suits spot"] for row in answer["tables"]["Workloads on nodes that could move"]
    }
    assert suits == {"PyTorchJob/resumed": "safe", "PyTorchJob/anew": "needs work", "unallocated": "not"}
    assert "your spot nodes: " in json.dumps(answer["assumptions"])
    # two pods of 40 h at $1.20, then at $0.48 for the longer time with interruptions and checkpoints
    times = exact(Work(answer["interruptions_per_hour"], 0.5, 2.5 / 60, 0.2))
    assert answer["saving"] == pytest.approx(80 * (1.20 - 0.48 * times), abs=0.01)
