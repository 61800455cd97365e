"""Missing or contradictory metrics are named in the report, so incomplete figures never look complete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpucost.collect.prometheus.queries import selectors
from gpucost.config.model import Activity, Config
from gpucost.render.view import ReportView
from gpucost.store.connection import Store
from tests.replay.cases.words import busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape
from tests.side_by_side import Scene, Scenes, asked_names
from tests.text_tables import words
from tests.unit.test_resource_shares import HOURS, answer, messages

L4 = "g6.12xlarge"
Answer = tuple[dict[str, float], ReportView, list[tuple[str, str]]]
scene, scaled = Scenes(), Scenes()


def look(config: Config, store: Store, cluster: str) -> Answer:
    """GPU-hours by pod, the report, and nodes with their capacity types."""
    with store.read() as con:
        found = con.execute(
            "SELECT node, capacity_type FROM nodes WHERE cluster = $1 ORDER BY ALL", [cluster]
        ).fetchall()
    return *answer(config, store, cluster), found


@pytest.fixture(scope="module")
def scenes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Scene, Answer]]]:
    names = asked_names(request)
    with (
        scene.start(tmp_path_factory.mktemp("scenes"), look, HOURS, names) as answers,
        scaled.start(tmp_path_factory.mktemp("scaled"), look, HOURS, names) as more,
    ):
        yield answers | more


def sliced(*held: Any) -> Fleet:
    """Pods on GPU 0 of an L4 node shared by HAMi, for 4 h; each requests a part of it."""
    pods = [pod(name, "n", [0], 0, 4, asks=asks) for name, asks in held]
    offers = {"nvidia_com_gpu": 40}
    return fleet(HOURS, [node("n", L4, 0, HOURS, offers=offers)], pods, busy("n", [0], 0, 4))


def scaled_memory(scaling: float, hours: float, warned: int) -> Scene:
    """Three pods, each with 0.6 of the GPU's 24,576 MiB: 1.8 times its memory."""
    described = sliced(*((f"part-{n}", {"nvidia_com_gpumem": 14746}) for n in range(3)))
    figures, view, _ = yield described, scrape(described, lean=True), f"[hami]\nmemory_scaling = {scaling}\n"
    assert figures == pytest.approx({f"part-{n}": hours for n in range(3)}, abs=0.01)
    texts = messages(view, "scaled_memory")
    assert ["node n hold more memory" in text and "7.2 GPU-hours of 3 pods" in text for text in texts] == [
        True
    ] * warned
    fixes = [note.fix for note in view.coverage.warnings if "memory_scaling" in (note.fix or "")]
    assert fixes == ["set memory_scaling under [hami] in gpucost.toml to HAMi's deviceMemoryScaling"] * warned


@scene()
def test_oversubscribed_hami_memory_gives_a_warning() -> Scene:
    yield from scaled_memory(1.0, 2.4, 1)


@scaled()
def test_oversubscribed_hami_memory_is_divided_by_its_setting() -> Scene:
    yield from scaled_memory(2.0, 1.2, 0)


@scene()
def test_cores_and_memory_of_one_gpu_may_exceed_it_in_sum() -> Scene:
    """One pod has 80 % of the cores and 20 % of the memory, the other the reverse: not scaled memory."""
    described = sliced(
        ("cores", {"nvidia_com_gpucores": 80, "nvidia_com_gpumem_percentage": 20}),
        ("memory", {"nvidia_com_gpucores": 20, "nvidia_com_gpumem_percentage": 80}),
    )
    figures, view, _ = yield described, scrape(described, lean=True)
    assert figures == pytest.approx({"cores": 3.2, "memory": 3.2}, abs=0.01)
    assert not messages(view, "scaled_memory")


LABELS = '[team_labels]\npod = "cost-center"\nnamespace = "team"\n'


@scene(("cc-42", {"cc-42": 12}, LABELS), ("cc-7", {"cc-42": 6, "unassigned": 6}, ""))
def test_conflicting_labels_count_only_if_they_agree(
    other: str, expected: dict[str, float], settings: str
) -> Scene:
    """kube-state-metrics renames the labels cost-center and cost_center of a pod; the namespace label is not a fallback."""
    both = {"cost_center_conflict1": "cc-42", "cost_center_conflict2": other}
    nodes = [node("n", L4, 0, HOURS)]
    held = [
        pod("plain", "n", [0], 0, 6, labels={"cost_center": "cc-42"}),
        pod("both", "n", [1], 0, 6, labels=both),
    ]
    described = fleet(HOURS, nodes, held, {}, namespaces={"train": {"team": "all"}})
    _, view, _ = yield described, scrape(described, lean=True), settings
    held_by = {
        row.keys["team"]: row.measures.allocated_gpu_hours for row in view.rows if row.kind == "allocated"
    }
    assert held_by == pytest.approx(expected)
    message = (
        "label_cost_center_conflict1 = cc-42 and label_cost_center_conflict2 = cc-7 on 1 pods of namespace train: "
        "Prometheus reads two labels as one, shown as unassigned"
    )
    assert messages(view, "label_conflict") == [message] * ("unassigned" in expected)


@scene(
    # AKS labels only spot nodes: one such node shows that the label is exported
    ("aks", "on_demand", True),
    ("aks", "spot", False),
    ("karpenter", "on_demand", False),
    # on-premises machines need no spot label
    ("onprem", "on_demand", False),
)
def test_node_without_spot_label_is_on_demand_if_another_node_has_one(
    provider: str, second: str, unknown: bool
) -> Scene:
    cloud, own = ("gke", {"provider_id": "metal"}) if provider == "onprem" else (provider, {})
    nodes = [
        node(f"n{number}", L4, 0, HOURS, capacity_type=capacity, provider=cloud) | own
        for number, capacity in enumerate(("on_demand", second))
    ]
    described = fleet(HOURS, nodes, [pod("p", "n0", [0], 0, 6)], {})
    _, view, _ = yield described, scrape(described, lean=True)
    assert view.coverage.unknown_capacity_gpu_hours == (6 if unknown else 0)
    assert view.totals.spot_ratio == (None if unknown else 0)
    texts = messages(view, "no_capacity_label")
    assert [
        text.startswith("no node of cluster ") and " has a capacity type label" in text for text in texts
    ] == [True] * unknown


AKS_SPOT = "kubernetes.azure.com/scalesetpriority"


@scene((True, "on_demand"), (False, "unknown"))
def test_aks_taint_marks_spot_nodes(node_labels: bool, capacity: str) -> Scene:
    """n1 is tainted; n0 is on-demand if labels are exported, because the cluster marks its spot nodes."""
    nodes = [node(name, L4, 0, HOURS, provider="aks", capacity_type="on_demand") for name in ("n0", "n1")]
    pods = [pod("p", "n0", [0], 0, 6), pod("q", "n1", [0], 0, 3)]
    described = fleet(HOURS, nodes, pods, {}) | {"node_labels": node_labels}
    (selector,) = [one for one in selectors(Activity()) if one.metric == "kube_node_spec_taint"]
    assert selector.text(selector.metric) == f'kube_node_spec_taint{{key="{AKS_SPOT}"}}'
    taint = words(f"__name__=kube_node_spec_taint key={AKS_SPOT} value=spot effect=NoSchedule")
    series = scrape(described, lean=True)
    created = words("__name__=kube_node_created node=n1").items()
    tainted = [
        replace(one, labels={**one.labels, **taint}, values=np.ones(len(one.values)))
        for one in series
        if created <= one.labels.items()
    ]
    _, view, found = yield described, [*series, *tainted]
    assert found == [("n0", capacity), ("n1", "spot")]
    assert view.coverage.unknown_capacity_gpu_hours == (0 if node_labels else 6)
    assert view.totals.spot_ratio == pytest.approx(1 / 3 if node_labels else 1)
    assert not messages(view, "no_capacity_label")
