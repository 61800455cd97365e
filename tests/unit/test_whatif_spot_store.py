"""`gpucost whatif spot` on a store: its own spot nodes' interruptions, checkpoints that were seen."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from gpucost.whatif.spot.formulas import Work, exact
from gpucost.whatif.spot.market import Place, read_market
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.replay.work import counter, put

END = 400
RATE, LIVES = 0.15, 45


def lives() -> tuple[list[dict[str, Any]], list[dict[str, Any]], float]:
    """Nodes of exponential lives, one after the other, held to the end; of another family ends that are no interruptions."""
    nodes, pods, now, hours = [], [], 0.0, 0.0
    for number in range(LIVES):
        # the middle of each part that so many lives cut the distribution in, on whole scrapes
        length = max(round(-math.log(1 - (number + 0.5) / LIVES) / RATE * 12), 3) / 12
        name = f"taken-{number}"
        nodes.append(node(name, "g5.xlarge", now, now + length, "spot"))
        # every other one is drained on the notice: its pod is gone five minutes before the node
        gone = now + length - (1 / 12 if number % 2 else 0)
        pods.append(pod(name, name, [0], now + 1 / 12, gone, "train", keep_until=at(gone)))
        now, hours = now + length + 0.25, hours + length
    nodes.append(node("stays", "g5.xlarge", now, END, "spot"))
    pods.append(pod("stays", "stays", [0], now + 0.1, END, "train", keep_until=at(END)))
    for number in range(30):
        start = number * 12.0
        name = f"over-{number}"
        nodes.append(node(name, "g6.12xlarge", start, start + 6, "spot"))
        # done just before the end, or gone for long
        last = start + (5.9 if number % 2 else 5)
        more = {} if number % 2 else {"keep_until": at(last)}
        pods.append(pod(name, name, [0, 1, 2, 3], start + 0.1, last, "train", **more))
    return nodes, pods, hours + END - now


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Store, float]:
    folder = tmp_path_factory.mktemp("lives")
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    nodes, pods, hours = lives()
    nodes.append(node("kept", "g5.xlarge", 0, END))
    # two runs of a job: the second goes on from the epoch that the first had reached; those of another begin anew
    runs = (("first", "resumed", 1), ("again", "resumed", 100), ("fresh", "anew", 200), ("fresh-2", "anew", 300))
    pods += [pod(name, "kept", [0], start, start + 90, "train", owner=["PyTorchJob", job]) for name, job, start in runs]
    described = fleet(END, nodes, pods, {}, scrape=300)
    config = write_config(described, folder, folder / "prices.csv")
    store = load(described, scrape(described, lean=True), config, hours_per_window=24 * 31)
    reached = (("first", 1, 0, 20), ("again", 100, 15, 40), ("fresh", 200, 0, 20), ("fresh-2", 300, 0, 20))
    put(store, [(counter("epoch", name), [(hour + 1, low), (hour + 80, high)]) for name, hour, low, high in reached], END)
    pipeline.attribute(config, store)
    return config, store, hours


def test_spot_lives_give_their_own_rate_back(told: tuple[Config, Store, float]) -> None:
    config, store, hours = told
    period = Period(from_ms(at(0) * 1000), from_ms(at(END) * 1000))
    with store.read() as con:
        market = read_market(con, config, ["g5.2xlarge", "g6.12xlarge"], period)
    place = Place("g5.2xlarge", "aws", "us-west-2", "us-west-2b")
    rate = market.rate(place)
    assert rate.per_hour == pytest.approx(LIVES / hours, rel=0.02)
    assert rate.low is not None and rate.high is not None and rate.low < RATE < rate.high
    assert "an upper limit" in rate.source and f"{LIVES} of own spot nodes of g5 in us-west-2b" in rate.source
    assert market.rate(place._replace(zone="us-west-2z")).source.startswith(f"{LIVES} of own spot nodes of g5 in all zones")
    # of the g6 nodes none was taken: their pods were done, or gone for an hour
    assert market.rate(place._replace(instance_type="g6.12xlarge")).source.startswith("measured traces")


@pytest.mark.parametrize("heard_from", [0.0, 60.0])
def test_interruptions_that_a_handler_names_are_those_that_count(tmp_path: Path, heard_from: float) -> None:
    """While the handler is not heard yet, every end under a pod counts."""
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    nodes, pods, hours = lives()
    described = fleet(END, nodes, pods, {}, scrape=300)
    config = write_config(described, tmp_path, tmp_path / "prices.csv")

    def action(start: float, value: float, **labels: str) -> Series:
        times = np.arange(at(start), at(END), 300, dtype=np.int64) * 1000
        own = {"__name__": "actions_node_total", "job": "handler", "instance": "10.4.0.9:9092", "cluster": "main"}
        return Series({**own, **labels}, times, np.full(len(times), value))

    # of the 45 that ended 25 were taken, and another was drained for maintenance
    taken = [one for one in nodes if one["name"].startswith("taken-")][:26]
    ends = [(one["to"] - at(0)) / 3600 - 1 / 60 for one in taken]
    event = ["spot-itn-1f"] * 25 + ["maintenance-event-2"]
    more = [action(heard_from, 0)] + [
        action(end, 1, node_name=one["name"], node_event_id=what, node_action="cordon-and-drain", node_status="success")
        for one, end, what in zip(taken, ends, event, strict=True)
        if end >= heard_from
    ]
    unheard = sum(one["name"].startswith("taken-") and one["to"] < at(heard_from) for one in nodes)
    expected = unheard + sum(end >= heard_from for end in ends[:25])
    assert (unheard > 0) == (heard_from > 0)
    store = load(described, [*scrape(described, lean=True), *more], config, hours_per_window=24 * 31)
    pipeline.attribute(config, store)
    with store.read() as con:
        period = Period(from_ms(at(0) * 1000), from_ms(at(END) * 1000))
        rate = read_market(con, config, ["g5.2xlarge"], period).rate(Place("g5.2xlarge", "aws", "us-west-2", "us-west-2b"))
    assert rate.per_hour == pytest.approx(expected / hours, rel=0.02)
    named = "taken, as Karpenter or the termination handler names them" if not unheard else "ended while"
    assert rate.source.startswith(f"{expected} of own spot nodes of g5 in us-west-2b {named}")
    assert rate.source.endswith("an upper limit") == (unheard > 0)


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        ("karpenter_nodeclaims_disrupted_total", "spot_interrupted"),
        ("karpenter_nodeclaims_disrupted_total", "interruption"),
        ("karpenter_nodeclaims_terminated", "interruption"),
    ],
)
def test_interruptions_that_karpenter_counts_are_those_that_count(tmp_path: Path, metric: str, reason: str) -> None:
    """It names the NodePool alone; what ended without its counter rising was not taken, in NodePools at least."""
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    nodes, pods, hours = lives()
    ended = [one for one in nodes if one["name"].startswith("taken-")]
    described = fleet(END, nodes, pods, {}, scrape=300)
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    # every other one was taken, a scrape before its end; Karpenter begins anew in the middle of them
    taken = [round((one["to"] - at(0)) / 300) - 1 for one in ended[3::2]]
    middle = len(taken) // 2

    def counted(ends: list[int], until: int, instance: str) -> Series:
        ticks = np.arange(ends[0], until)
        labels = {"reason": reason, "nodepool": "gpu", "capacity_type": "spot", "instance": instance}
        own = {"__name__": metric, "job": "karpenter", "cluster": "main", **labels}
        return Series(own, (ticks * 300 + at(0)) * 1000, np.searchsorted(ends, ticks, side="right").astype(float))

    more = [counted(taken[:middle], taken[middle] - 1, "10.4.0.8:8080"), counted(taken[middle:], END * 12, "10.4.0.9:8080")]
    scraped = scrape(described, lean=True)
    # the first three are of a node group that Karpenter does not know
    known = {one["name"] for one in nodes if one["capacity_type"] == "spot"} - {one["name"] for one in ended[:3]}
    for one in scraped:
        if one.labels["__name__"] == "kube_node_labels" and one.labels["node"] in known:
            one.labels["label_karpenter_sh_nodepool"] = "gpu"
    store = load(described, [*scraped, *more], config, hours_per_window=24 * 31)
    pipeline.attribute(config, store)
    with store.read() as con:
        period = Period(from_ms(at(0) * 1000), from_ms(at(END) * 1000))
        rate = read_market(con, config, ["g5.2xlarge"], period).rate(Place("g5.2xlarge", "aws", "us-west-2", "us-west-2b"))
    assert rate.per_hour == pytest.approx((3 + len(taken)) / hours, rel=0.02)


def test_few_ends_are_no_rate(told: tuple[Config, Store, float]) -> None:
    config, store, _ = told
    with store.read() as con:
        market = read_market(con, config, ["g5.xlarge"], Period(from_ms(at(0) * 1000), from_ms(at(30) * 1000)))
    assert not market.own_rates


def test_training_that_went_on_from_a_checkpoint_is_safe(told: tuple[Config, Store, float]) -> None:
    config, _, _ = told
    words = ["whatif", "spot", "--from", "2026-03-10", "--to", "2026-03-26", "--format", "json"]
    result = CliRunner().invoke(app, [*words, "--config", str(config.path)])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    suits = {row["workload"]: row["suits spot"] for row in answer["tables"]["Workloads on nodes that could move"]}
    assert suits == {"PyTorchJob/resumed": "safe", "PyTorchJob/anew": "needs work"}
    assert "own spot nodes of g5" in json.dumps(answer["assumptions"])
    # two pods of 90 h at $1.20, then at $0.48 and as much longer as interruptions and checkpoints make it
    times = exact(Work(answer["interruptions_per_hour"], 0.5, 2.5 / 60, 0.2, 120 / 3600))
    assert answer["saving"] == pytest.approx(180 * (1.20 - 0.48 * times), abs=0.01)
