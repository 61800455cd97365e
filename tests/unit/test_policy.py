"""Rules of `gpucost policy`: a fleet that breaks each of them once, and one that keeps them all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.collect.prometheus.queries import selectors
from gpucost.config.model import Activity
from gpucost.errors import DataError
from gpucost.questions.policy.rules import read_rules, shipped_rules
from tests.replay.cases.words import BOOK, HEADER, at, fleet, node, pod
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series

H = 30
BATCH, TRAIN, NOTEBOOK, SERVE = (
    ["Job", "embed-1"],
    ["PyTorchJob", "bert"],
    ["StatefulSet", "ann-notebook"],
    ["ReplicaSet", "chat-5d8"],
)
L4 = "g6.12xlarge"


def told(metric: str, value: float = 1, **labels: str) -> Series:
    """A series of a sample every five minutes."""
    times = np.arange(at(0), at(H), 300, dtype=np.int64) * 1000
    own = {
        "__name__": metric,
        "job": "kube-state-metrics",
        "instance": "10.4.0.30:8080",
        "cluster": "main",
        **labels,
    }
    return Series(own, times, np.full(len(times), float(value)))


def quota(namespace: str, resource: str) -> Series:
    return told(
        "kube_resourcequota", 8, namespace=namespace, resourcequota="q", resource=resource, type="hard"
    )


def limit_range(namespace: str) -> Series:
    return told(
        "kube_limitrange",
        2,
        namespace=namespace,
        resource="nvidia.com/gpu",
        type="Container",
        constraint="max",
    )


def asked(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(
        app, ["policy", "check", "--month", "2026-03", "--config", str(folder / "gpucost.toml"), *words]
    )


def answer(folder: Path, *words: str) -> dict[str, Any]:
    result = asked(folder, *words, "--format", "json")
    found: dict[str, Any] = json.loads(result.stdout)
    return found | {"exit_code": result.exit_code}


def make(
    folder: Path,
    more: list[Series],
    priority: str | None,
    pods: list[dict[str, Any]],
    capacity: str = "on_demand",
) -> Path:
    there = fleet(H, [node("a", L4, 0, H, capacity)], pods, {"GPU-a-3": [[at(0), at(H), 0]]})
    series = scrape(there)
    for one in series:
        if one.labels["__name__"] == "kube_node_labels":
            one.labels["label_karpenter_sh_nodepool"] = "gpus"
        if one.labels["__name__"] == "kube_pod_info" and priority:
            one.labels["priority_class"] = priority
    book = folder / "prices.csv"
    book.write_text("\n".join([HEADER, *BOOK]) + "\n")
    load(there, [*series, *more], write_config(there, folder, book))
    return folder


PODS = [
    pod("embed-1", "a", [0], 0, 5, "jobs", owner=BATCH),
    pod("embed-2", "a", [0], 6, 8, "main-prod", owner=["Job", "embed-2"]),
    pod("bert-0", "a", [1], 0, 26, "ml", owner=TRAIN),
    pod("chat", "a", [2], 0, H, "web", owner=SERVE),
    pod("ann-0", "a", [3], 0, H, "ml", owner=NOTEBOOK),
]


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    more = [
        quota("web", "requests.nvidia.com/gpu"), quota("ml", "requests.cpu"),
        limit_range("jobs"),
        told("karpenter_nodepools_usage", 1, nodepool="gpus", resource_type="nodes"),
    ]  # fmt: skip
    return make(tmp_path_factory.mktemp("broken"), more, None, PODS)


def test_who_breaks_which_rule(broken: Path) -> None:
    found = answer(broken)
    rules = {rule["name"]: rule for rule in found["rules"]}
    told_of = ("namespace", "subject", "evidence")
    who = {
        name: [tuple(one[key] for key in told_of) for one in rule["violations"]]
        for name, rule in rules.items()
    }
    assert who["batch-on-spot"] == [("jobs", "Job/embed-1", "batch work on demand")]
    assert {space for space, _, _ in who["gpu-quotas"]} == {"jobs", "main-prod", "ml"}
    assert {space for space, _, _ in who["gpu-limits-of-pods"]} == {"web", "main-prod", "ml"}
    assert who["idle-notebooks"] == [("ml", "StatefulSet/ann-notebook", f"idle for {H:.1f} h at a stretch")]
    assert who["node-pool-limits"] == [(None, "NodePool/gpus", "has GPU nodes, and no limits")]
    assert who["long-training-on-demand"] == [("ml", "PyTorchJob/bert", "a pod was on demand for 26.0 h")]
    assert rules["priority-classes"]["status"] == "unknown"
    assert "kube_pod_info tells no priority_class" in rules["priority-classes"]["missing"]
    (batch,) = rules["batch-on-spot"]["violations"]
    assert (batch["gpu_hours"], batch["cost"]) == (5, 5 * 1.2)
    assert (found["kept"], found["broken"], found["unknown"], found["exit_code"]) == (0, 6, 1, 3)
    assert (rules["batch-on-spot"]["checked"], rules["gpu-quotas"]["checked"]) == (1, 4)


def test_a_part_of_the_fleet_and_what_makes_it_fail(broken: Path) -> None:
    web = answer(broken, "--namespace", "web")
    assert {rule["name"]: rule["status"] for rule in web["rules"]} == {
        "batch-on-spot": "kept", "gpu-quotas": "kept", "gpu-limits-of-pods": "broken", "idle-notebooks": "kept",
        "node-pool-limits": "broken", "priority-classes": "unknown", "long-training-on-demand": "kept",
    }  # fmt: skip
    (broken / "few.toml").write_text('[[rules]]\nname = "q"\nkind = "quota"\nexcept = ["jobs", "m*"]\n')
    assert answer(broken, "--rules", str(broken / "few.toml"))["exit_code"] == 0
    (broken / "few.toml").write_text('[[rules]]\nname = "p"\nkind = "priority_class"\nseverity = "warning"\n')
    words = ("--rules", str(broken / "few.toml"))
    assert [answer(broken, *words, "--fail-on", one)["exit_code"] for one in ("error", "warning")] == [0, 3]


def test_a_fleet_that_keeps_every_rule(tmp_path: Path) -> None:
    spaces = {one["namespace"] for one in PODS}
    more = [
        *(quota(space, "requests.nvidia.com/gpu") for space in spaces),
        *map(limit_range, spaces),
        told("karpenter_nodepools_usage", 1, nodepool="gpus", resource_type="nodes"),
        told("karpenter_nodepools_limit", 8, nodepool="gpus", resource_type="nvidia.com/gpu"),
    ]
    folder = make(tmp_path, more, "gold", [one for one in PODS if one["name"] != "ann-0"], "spot")
    found = answer(folder)
    assert (found["kept"], found["broken"], found["unknown"], found["exit_code"]) == (7, 0, 0, 0)


def test_metrics_of_rules_are_collected() -> None:
    asked_for = {selector.metric for selector in selectors(Activity())}
    assert {
        "kube_resourcequota",
        "kube_limitrange",
        "karpenter_nodepools_limit",
        "karpenter_nodepools_usage",
    } <= asked_for


@pytest.mark.slow
def test_these_metrics_change_no_figure(broken: Path, tmp_path: Path) -> None:
    plain = make(tmp_path, [], None, PODS)
    words = ["report", "--month", "2026-03", "--by", "workload,node,day", "--format", "json", "--config"]
    one, other = (
        CliRunner().invoke(app, [*words, str(folder / "gpucost.toml")]).stdout for folder in (broken, plain)
    )
    assert one == other and '"cost"' in one


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.toml"
    file.write_text(shipped_rules())
    return file


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('kind = "quota" ', 'kind = "quotas"', "line 13: 'quotas' is no kind of rule"),
        ("hours = 4", "hour = 4", "line 25: unknown key 'hour'"),
        ("hours = 4", "hours = 0", "line 25: hours: should be greater than 0, got 0"),
        ("hours = 4\n", "", "idle_notebooks needs hours"),
        ('"gpu-quotas"', '"batch-on-spot"', "two rules called 'batch-on-spot'"),
        ("[[rules]]", "[[rule]]", "unknown key 'rule'"),
        ("[[rules]]", "[[rules]", "is no TOML"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(
    rules: Path, old: str, new: str, message: str
) -> None:
    text = rules.read_text()
    assert old in text
    rules.write_text(text.replace(old, new, 1))
    with pytest.raises(DataError, match=message):
        read_rules(rules)


def test_rules_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot read"):
        read_rules(tmp_path / "none.toml")
    assert CliRunner().invoke(app, ["policy", "rules"]).stdout == shipped_rules()
    assert len(read_rules(None)) == 7
