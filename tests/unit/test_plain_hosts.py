"""Machines without Kubernetes or Slurm: what [[hosts]] makes of them, who holds their GPUs, and when they are up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.edits import drop, relabel
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.plain import BOOK, PRICES, USERS, UTIL, boxes, dcgm, machine, smi, uuid
from tests.replay.result import by_pod, total
from tests.replay.scrape import scrape
from tests.side_by_side import Scene, Scenes

HOURS = 24
SPAN = (at(0) * 1000, at(HOURS) * 1000)
#: A cluster of no nodes but hosts.
PLAIN: Fleet = fleet(HOURS, [node("unused", "g5.xlarge", 0, HOURS)], [], {})
RULE = '[[hosts]]\nname = "box-*"\ncluster = "CLUSTER"\ninstance_type = "box-2"\nregion = "berlin"\nzone = "room-2"\n'
BY_USER = RULE + 'user_label = "user"\n'


class Answers:
    """What the product says of one cluster."""

    def __init__(self, _: Config, store: Store, cluster: str) -> None:
        self.store, self.cluster = store, cluster

    def users(self) -> dict[tuple[str, str], tuple[float, ...]]:
        """By namespace and pod: GPU-hours held, active, idle, unmeasured, and what they cost."""
        found: dict[tuple[str, str], tuple[float, ...]] = {}
        for (_, namespace, name, _), one in by_pod(self.store, *SPAN, self.cluster).items():
            figures = (one.allocated_gpu_hours, one.active_gpu_hours, one.idle_gpu_hours, one.unmeasured_gpu_hours, one.cost)
            before = found.get((namespace, name), (0,) * 5)
            found[namespace, name] = tuple(round(float(a + b), 6) for a, b in zip(before, figures, strict=True))
        return found

    def total(self, *measures: str) -> tuple[float, ...]:
        figures = total(self.store, *SPAN, self.cluster)
        return tuple(float(getattr(figures, measure)) for measure in measures)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a statement in which $cluster stands."""
        with self.store.read() as con:
            return con.execute(sql, {"cluster": self.cluster}).fetchall()

    def nodes(self) -> list[tuple[Any, ...]]:
        return self.rows("SELECT node, gpu_model, gpu_count, capacity_type FROM nodes WHERE cluster = $cluster ORDER BY node")

    def warnings(self) -> dict[str, list[tuple[str, str]]]:
        """By code: messages and fixes."""
        found: dict[str, list[tuple[str, str]]] = {}
        for code, message, fix in self.rows("SELECT code, message, fix FROM warnings WHERE cluster = $cluster ORDER BY ALL"):
            found.setdefault(code, []).append((message, fix))
        return found


scene = Scenes()
CAPACITY = ("capacity_gpu_hours", "unallocated_gpu_hours", "node_cost", "unallocated_cost", "over_allocated_gpu_hours")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Scene, Answers]]]:
    with scene.start(tmp_path_factory.mktemp("scenes"), Answers, BOOK, HOURS) as answers:
        yield answers


@scene()
def test_hosts_without_a_user_label_are_unallocated_and_the_report_says_how_busy() -> Scene:
    """Two boxes at $4 for 24 h; of 96 GPU-hours 6 + 1 + 24 were busy: 32.3 %."""
    answers = yield PLAIN, boxes(), RULE
    assert answers.nodes() == [(f"box-{n}", "A100-SXM4-80GB", 2, "on_demand") for n in (1, 2)]
    assert answers.rows("SELECT DISTINCT instance_type, region, zone, provider FROM nodes WHERE cluster = $cluster") == [
        ("box-2", "berlin", "room-2", None)
    ]
    assert answers.total(*CAPACITY) == (96, 96, 192, 192, 0)
    assert answers.users() == {}
    assert list(answers.warnings()) == ["host_without_users"]
    ((message, fix),) = answers.warnings()["host_without_users"]
    assert message.endswith(
        "(box-1, box-2): this time is unallocated, but never counts as empty; the GPUs were active in 32.3 % of their samples"
    )
    assert fix == "set [[hosts]] user_label to the label of activity metrics that names the user"


@scene()
def test_users_by_label_hold_the_gpus_whose_series_carry_them() -> Scene:
    """Alice 12 h of GPU 0 and 4.5 h of GPU 1, Bob 4 h, at $2 a GPU-hour; Alice's are busy for 6 h and 1 h."""
    answers = yield PLAIN, boxes(USERS), BY_USER
    assert answers.users() == {("alice", "box-1"): (16.5, 7, 9.5, 0, 33), ("bob", "box-1"): (4, 0, 4, 0, 8)}
    assert answers.total(*CAPACITY) == (96, 75.5, 192, 151, 0)
    assert list(answers.warnings()) == ["host_without_users"]
    ((message, fix),) = answers.warnings()["host_without_users"]
    assert "(box-2)" in message and "50.0 %" in message
    assert fix == "no activity metric of theirs has the label user: correct [[hosts]] user_label"
    workloads = answers.rows(
        "SELECT DISTINCT namespace, workload_kind, workload, gpus FROM allocations WHERE cluster = $cluster ORDER BY ALL"
    )
    assert workloads == [("alice", "Host", "Host/box-1", 1), ("bob", "Host", "Host/box-1", 1)]
    uids = answers.rows("SELECT DISTINCT uid FROM allocations WHERE cluster = $cluster AND namespace = 'bob'")
    ((uid,),) = uids
    assert uid.startswith(f"box-1/bob/GPU-{uuid('box-1', 0)}")


@scene()
def test_a_host_that_is_silent_for_long_costs_nothing_then() -> Scene:
    """Box 2 is down for 1 h, which is bridged, and for 5.5 h, which are not: $4 x 18.5 h; its user held on through the hour.

    One GPU of box 1 is lost for 6 h: its user did not hold it then, though the box was up.
    """
    first = machine([smi("box-1", 0), smi("box-1", 1)], users=[(1, 6, 16, "gil")])
    series = [
        *drop(first, ".*", {"uuid": uuid("box-1", 1)}, hours=(8, 14)),
        *machine([smi("box-2", 0), smi("box-2", 1)], [], [(0, 4, 7, "carol"), (0, 10, 20, "carol")], down=[(5, 6), (12, 17.5)]),
    ]
    answers = yield PLAIN, series, BY_USER
    assert answers.total(*CAPACITY[:3]) == (85, 73.5, 170)
    assert answers.users() == {("carol", "box-2"): (7.5, 0, 6.5, 1, 15), ("gil", "box-1"): (4, 0, 4, 0, 8)}
    assert answers.warnings()["stopped_node"] == [("5.5 h of node box-2 are not charged: no exporter reported its GPUs", None)]


@scene()
def test_hosts_that_are_all_silent_are_a_gap() -> Scene:
    answers = yield PLAIN, machine([smi("box-1", 0), smi("box-1", 1)], down=[(8, 12)]), RULE
    assert answers.total(*CAPACITY[:3]) == (40, 40, 80)
    gaps = answers.rows(
        "SELECT kind, reason FROM coverage_gaps WHERE cluster = $cluster AND from_ms > 0 AND to_ms < 9223372036854775807"
    )
    assert gaps == [("not_collected", "its exporters were silent")]
    assert "stopped_node" not in answers.warnings()


def _kube(**more: Any) -> Fleet:
    pods = [pod("a", "kube-1", [0], 2, 10, uid="a")]
    return fleet(HOURS, [node("kube-1", "g5.xlarge", 0, HOURS)], pods, {}, **more)


@scene()
def test_a_plain_host_in_a_cluster_of_kubernetes_is_a_node_if_it_is_named() -> Scene:
    """kube-1 is $1, box-1 $4 with four GPUs. What names kube-1 in a label is on it, and so is what names its pod."""
    described = _kube()
    series = [
        *drop(scrape(described, lean=True), "DCGM_.*"),
        *machine([dcgm("box-1", 0), dcgm("box-1", 1)], users=[(0, 0, 24, "carol")]),
        *machine([dcgm("other", 0)]),
        *machine([{**dcgm("box-kube-1.local", 0), "node": "kube-1"}]),
        *drop(
            machine([{**dcgm("10.0.0.7", 0), "exported_namespace": "train", "exported_pod": "a"}], hours=8), ".*", hours=(-1, 2)
        ),
    ]
    rules = (
        '[[hosts]]\nname = "10.*"\ncluster = "CLUSTER"\n' + BY_USER + 'gpus = 4\nprovider = "lab"\ncapacity_type = "reserved"\n'
    )
    answers = yield described, series, rules
    assert answers.nodes() == [("box-1", "A100-SXM4-80GB", 4, "reserved"), ("kube-1", "A10G", 1, "on_demand")]
    assert answers.rows("SELECT provider FROM nodes WHERE cluster = $cluster AND node = 'box-1'") == [("lab",)]
    assert answers.total(*CAPACITY) == (120, 88, 120, 88, 0)
    assert answers.users() == {("train", "a"): (8, 0, 6, 2, 8), ("carol", "box-1"): (24, 0, 24, 0, 24)}
    ((message, _),) = answers.warnings()["unplaced_device"]
    assert message == "1 GPUs measured on host other belong to no known node"


@scene()
def test_hosts_cover_nothing_of_a_cluster_of_kubernetes() -> Scene:
    """kube-state-metrics is silent from 14 to 18 h: nobody knows what pods did, whatever a host's exporter says."""
    described = _kube(ksm_silent=[[at(14), at(18)]])
    series = [*drop(scrape(described, lean=True), "DCGM_.*"), *machine([smi("box-1", 0), smi("box-1", 1)])]
    answers = yield described, series, RULE
    assert answers.total("capacity_gpu_hours", "node_cost") == pytest.approx((60, 100), abs=0.15)
    gaps = answers.rows("SELECT kind FROM coverage_gaps WHERE cluster = $cluster AND from_ms > 0 AND to_ms < 9223372036854775807")
    assert gaps == [("not_collected",)]


@scene()
def test_two_exporters_on_a_machine_are_one_machine() -> Scene:
    """One names the host, the other its address and the user. A third measures a GPU of kube-1 under an address."""
    described = _kube()
    other = [{**smi("box-1", gpu), "instance": "10.0.0.5:9835"} for gpu in (0, 1)]
    third = relabel(machine([smi("kube-1", 0)]), ".*", {"instance": "10.0.0.9:9835"})
    series = [
        *drop(scrape(described, lean=True), "DCGM_.*"),
        *machine([dcgm("box-1", 0), dcgm("box-1", 1)]),
        *machine(other, users=[(1, 0, 12, "dan")]),
        *machine([dcgm("kube-1", 0)]),
        *third,
    ]
    rules = '[[hosts]]\nname = "*"\ncluster = "CLUSTER"\ninstance_type = "box-2"\nuser_label = "user"\n'
    answers = yield described, series, rules
    assert [row[::2] for row in answers.nodes()] == [("box-1", 2), ("kube-1", 1)]
    assert answers.total("node_cost") == (120,)
    assert answers.users()["dan", "box-1"] == (12, 0, 12, 0, 24)
    assert answers.warnings() == {}


@scene()
def test_the_first_of_the_settings_that_names_a_host_wins() -> Scene:
    rules = RULE.replace("*", "1") + 'capacity_type = "flex_start"\n' + RULE + 'capacity_type = "capacity_block"\ngpus = 8\n'
    answers = yield PLAIN, boxes(), rules
    assert [row[::2] + row[3:] for row in answers.nodes()] == [("box-1", 2, "flex_start"), ("box-2", 8, "capacity_block")]


@scene()
def test_a_slice_of_a_plain_host_is_a_part_of_its_gpu() -> Scene:
    slices = machine([{**dcgm("box-1", 0), "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb"}], [(0, 0, 12, 0.9)], [(0, 0, 24, "eve")])
    answers = yield PLAIN, relabel(slices, UTIL, {"__name__": "DCGM_FI_PROF_GR_ENGINE_ACTIVE"}), BY_USER
    assert answers.users()["eve", "box-1"] == pytest.approx((24 / 7, 12 / 7, 12 / 7, 0, 96 / 7), abs=1e-6)


@scene()
def test_hosts_that_nobody_describes_are_nodes_of_a_cluster_without_others() -> Scene:
    answers = yield PLAIN, boxes(labels=("bare-1", "bare-2"))
    assert [row[::3] for row in answers.nodes()] == [("bare-1", "unknown"), ("bare-2", "unknown")]
    fixes = {fix for _, fix in answers.warnings()["unknown_capacity_type"]}
    assert fixes == {"name it in [[hosts]], if it is a machine without Kubernetes"}
    assert "host_without_users" not in answers.warnings()


@pytest.mark.parametrize(("bridge", "hours"), [("20m", 23.5), ("2h", 24)])
def test_a_pause_within_an_hour_is_bridged_as_far_as_the_settings_say(bridge: str, hours: float, tmp_path: Path) -> None:
    """Box 1 is down from 05:15 to 05:45; its user holds a GPU before and after."""
    (tmp_path / "prices.csv").write_text(PRICES)
    config = write_config(PLAIN, tmp_path, tmp_path / "prices.csv")
    assert config.path is not None
    rules = BY_USER.replace("CLUSTER", "*") + f'[coverage]\nmax_bridge = "{bridge}"\n'
    config.path.write_text(config.path.read_text() + rules)
    config = load_config(config.path, environ={}, cwd=tmp_path)
    box = machine([smi("box-1", 0), smi("box-1", 1)], users=[(0, 0, 24, "fay")], down=[(5.25, 5.75)])
    store = load(PLAIN, [*box, *machine([smi("box-2", 0)])], config)
    pipeline.attribute(config, store)
    answers = Answers(config, store, "main")
    assert answers.users()["fay", "box-1"][0] == hours
    assert answers.total("node_cost") == ((24 + hours) * 4,)


def test_hosts_without_users_are_no_empty_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Box 1 has a user for 3 of 24 h: 21 h of it are empty. No label names who uses box 2, at $4 an hour."""
    (tmp_path / "prices.csv").write_text(PRICES)
    config = write_config(PLAIN, tmp_path, tmp_path / "prices.csv")
    assert config.path is not None
    config.path.write_text(config.path.read_text() + BY_USER.replace("CLUSTER", "*"))
    config = load_config(config.path, environ={}, cwd=tmp_path)
    series = [
        *machine([smi("box-1", 0), smi("box-1", 1)], users=[(0, 2, 5, "ann")]),
        *machine([smi("box-2", 0), smi("box-2", 1)]),
    ]
    load(PLAIN, series, config)
    monkeypatch.chdir(tmp_path)
    span = ["--from", "2026-03-10", "--to", "2026-03-11", "--config", str(config.path), "--format", "json"]

    def told(*words: str) -> tuple[Any, str]:
        result = CliRunner().invoke(app, [*words, *span])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout), result.stderr

    waste, _ = told("waste")
    buckets = {row["bucket"]: (row["gpu_hours"], row["cost"]) for row in waste["buckets"] if row["gpu_hours"]}
    assert buckets == {"idle": (3, 6), "between_jobs": (51, 102), "empty_node": (42, 84)}
    assert "(box-2): this time is unallocated, but never counts as empty" in waste["coverage"]["warnings"][0]["message"]
    findings, notes = told("findings")
    (empty,) = [one for one in findings["savings"] + findings["upper_bounds"] if one["kind"] == "empty_nodes"]
    assert (empty["evidence"], empty["waste_gpu_hours"]) == (
        "42.0 GPU-hours on 1 node that nobody held for long, most on box-1",
        42,
    )
    assert "(box-2): this time is unallocated, but never counts as empty" in notes
    answer, _ = told("whatif", "schedule", "--empty-minutes", "10")
    # 20 h 40 min of box 1 at $4
    assert (answer["removed_node_hours"], answer["saving"]) == (20.666667, 82.666666666)
    assert answer["findings"] == ["1 plain hosts stay: nothing reports who uses their GPUs. Set [[hosts]] user_label."]
