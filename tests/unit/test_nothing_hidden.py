"""What a server does not tell, or tells twice, is named in the report: never a figure that looks whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpucost.collect.prometheus.queries import selectors
from gpucost.config.load import load_config
from gpucost.config.model import Activity
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.replay.cases.words import BOOK, HEADER, busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.unit.test_resource_shares import HOURS, answer, messages


def reported(
    described: Fleet, folder: Path, settings: str = "", more: tuple[Series, ...] = ()
) -> tuple[dict[str, float], ReportView]:
    """GPU-hours by pod and the report of a fleet, with more settings than a configuration has."""
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    path = write_config(described, folder, folder / "prices.csv").path
    assert path is not None
    path.write_text(path.read_text() + settings)
    config = load_config(path, environ={}, cwd=folder)
    return answer(config, load(described, [*scrape(described, lean=True), *more], config), "main")


@pytest.mark.parametrize(("scaling", "hours", "warned"), [(1.0, 2.4, 1), (2.0, 1.2, 0)])
def test_memory_that_hami_scales_is_divided_by_it(scaling: float, hours: float, warned: int, tmp_path: Path) -> None:
    """Three pods on GPU 0 of an L4 node for 4 h, each with 0.6 of its 24,576 MiB: 1.8 of what is there once."""
    asks = {"nvidia_com_gpumem": 14746}
    held = [pod(f"part-{n}", "n", [0], 0, 4, asks=asks) for n in range(3)]
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS, offers={"nvidia_com_gpu": 40})], held, busy("n", [0], 0, 4))
    figures, view = reported(described, tmp_path, f"[hami]\nmemory_scaling = {scaling}\n")
    assert figures == pytest.approx({f"part-{n}": hours for n in range(3)}, abs=0.01)
    told = messages(view, "scaled_memory")
    assert ["node n hold more memory" in text and "7.2 GPU-hours of 3 pods" in text for text in told] == [True] * warned
    assert [note.fix for note in view.coverage.warnings if "memory_scaling" in (note.fix or "")] == [
        "set memory_scaling under [hami] in gpucost.toml to HAMi's deviceMemoryScaling"
    ] * warned


def test_cores_and_memory_of_one_gpu_may_add_up_to_more_than_it(tmp_path: Path) -> None:
    """80 % of the cores with 20 % of the memory, and the other way around: no scaling."""
    asked = {"cores": (80, 20), "memory": (20, 80)}
    held = [
        pod(name, "n", [0], 0, 4, asks={"nvidia_com_gpucores": cores, "nvidia_com_gpumem_percentage": memory})
        for name, (cores, memory) in asked.items()
    ]
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS, offers={"nvidia_com_gpu": 40})], held, busy("n", [0], 0, 4))
    figures, view = reported(described, tmp_path)
    assert figures == pytest.approx({"cores": 3.2, "memory": 3.2}, abs=0.01)
    assert not messages(view, "scaled_memory")


@pytest.mark.parametrize(("other", "team"), [("cc-42", "cc-42"), ("cc-7", "unassigned")])
def test_a_label_in_conflict_with_itself_counts_where_it_agrees(other: str, team: str, tmp_path: Path) -> None:
    """kube-state-metrics renames cost-center and cost_center of one pod; the namespace's label decides nothing then."""
    both = {"cost_center_conflict1": "cc-42", "cost_center_conflict2": other}
    held = [
        pod("plain", "n", [0], 0, 6, labels={"cost_center": "cc-42"}),
        pod("both", "n", [1], 0, 6, labels=both),
    ]
    described = fleet(HOURS, [node("n", "g6.12xlarge", 0, HOURS)], held, {}, namespaces={"train": {"team": "all"}})
    _, view = reported(described, tmp_path, '[team_labels]\npod = "cost-center"\nnamespace = "team"\n')
    held_by = {row.keys["team"]: row.measures.allocated_gpu_hours for row in view.rows if row.kind == "allocated"}
    assert held_by == pytest.approx({"cc-42": 12} if team == "cc-42" else {"cc-42": 6, team: 6})
    assert messages(view, "label_conflict") == (
        []
        if team == "cc-42"
        else [
            "label_cost_center_conflict1 = cc-42 and label_cost_center_conflict2 = cc-7 on 1 pods of namespace train: "
            "two labels of one name to Prometheus, shown as unassigned"
        ]
    )


@pytest.mark.parametrize(
    ("providers", "unknown"),
    [
        # AKS labels spot nodes alone: one of them shows that the label is exported
        ([("aks", "on_demand"), ("aks", "on_demand")], True),
        ([("aks", "on_demand"), ("aks", "spot")], False),
        ([("karpenter", "on_demand"), ("karpenter", "on_demand")], False),
        # own machines are not bought by the hour
        ([("onprem", "on_demand"), ("onprem", "on_demand")], False),
    ],
)
def test_a_node_without_a_spot_label_is_on_demand_if_the_cluster_shows_one(
    providers: list[tuple[str, str]], unknown: bool, tmp_path: Path
) -> None:
    nodes = [
        node(f"n{number}", "g6.12xlarge", 0, HOURS, provider="gke" if name == "onprem" else name, capacity_type=capacity)
        | ({"provider_id": "metal"} if name == "onprem" else {})
        for number, (name, capacity) in enumerate(providers)
    ]
    _, view = reported(fleet(HOURS, nodes, [pod("p", "n0", [0], 0, 6)], {}), tmp_path)
    assert view.coverage.unknown_capacity_gpu_hours == (6 if unknown else 0)
    assert view.totals.spot_ratio == (None if unknown else 0)
    told = messages(view, "no_capacity_label")
    assert ["no node of cluster main has a label" in text for text in told] == [True] * unknown


@pytest.mark.parametrize(("node_labels", "capacity"), [(True, "on_demand"), (False, "unknown")])
def test_the_taint_of_aks_marks_spot_nodes(node_labels: bool, capacity: str, tmp_path: Path) -> None:
    """n1 is tainted; n0 is on demand if labels are exported, since the cluster marks its spot nodes."""
    nodes = [node(name, "g6.12xlarge", 0, HOURS, provider="aks", capacity_type="on_demand") for name in ("n0", "n1")]
    described = fleet(HOURS, nodes, [pod("p", "n0", [0], 0, 6), pod("q", "n1", [0], 0, 3)], {}) | {"node_labels": node_labels}
    key = "kubernetes.azure.com/scalesetpriority"
    (selector,) = [one for one in selectors(Activity()) if one.metric == "kube_node_spec_taint"]
    assert selector.text(selector.metric) == f'kube_node_spec_taint{{key="{key}"}}'
    taint = {"__name__": selector.metric, "key": key, "value": "spot", "effect": "NoSchedule"}
    tainted = tuple(
        replace(one, labels={**one.labels, **taint}, values=np.ones(len(one.values)))
        for one in scrape(described, lean=True)
        if one.labels["__name__"] == "kube_node_created" and one.labels["node"] == "n1"
    )
    _, view = reported(described, tmp_path, more=tainted)
    with Store(tmp_path / "gpucost.duckdb").read() as con:
        found = con.execute("SELECT node, capacity_type FROM nodes ORDER BY ALL").fetchall()
    assert found == [("n0", capacity), ("n1", "spot")]
    assert view.coverage.unknown_capacity_gpu_hours == (0 if node_labels else 6)
    assert view.totals.spot_ratio == pytest.approx(1 / 3 if node_labels else 1)
    assert not messages(view, "no_capacity_label")
