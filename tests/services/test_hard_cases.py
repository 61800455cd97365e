"""What metrics say when a fleet changes under them, or when those who export them err: each a scenario with its true figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.edits import drop, relabel, revalue, switch, thin
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape
from tests.services.hard_scenes import _MESSAGES, HOURS, PLAIN, REQUESTS, Answers, near, of_team
from tests.side_by_side import Scene, Scenes

scene = Scenes()


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[Scene, Answers]]]:
    with scene.start(tmp_path_factory.mktemp("scenes"), Answers, hours=HOURS) as answers:
        yield answers


@scene()
def test_a_pod_of_a_node_that_was_never_seen_is_not_on_the_next_one_of_its_name() -> Scene:
    """The first node w ended at 02:00, its pod stayed listed; collected is from 03:00 on, when the second w was an hour old."""
    nodes = [node("w", "g6.12xlarge", 0, 2), node("w", "g6.12xlarge", 2, HOURS)]
    pods = [
        pod("orphan", "w", [0, 1], 0.5, 2, uid="orphan", keep_until=at(4.5)),
        pod("b", "w", [2], 2.5, 5, uid="b"),
    ]
    described = fleet(HOURS, nodes, pods, busy("w", [2], 2, HOURS))
    series = drop(
        scrape(described, lean=True), "kube_pod_status_phase|kube_pod_completion_time", {"pod": "orphan"}
    )
    answers = yield (described, drop(series, ".*", hours=(-1, 3)))
    assert answers.total("allocated_gpu_hours") == near(2)


@scene()
def test_slots_begin_in_the_middle_of_a_nodes_life() -> Scene:
    """Four replicas from 02:00 on: 00:30-01:30 was a whole GPU, 1 GPU-hour; 03:00-05:00 is a slot, 2 h / 4."""
    pods = [pod("a", "w", [0], 0.5, 1.5, uid="a"), pod("b", "w", [0], 3, 5, uid="b")]
    described = fleet(HOURS, [node("w", "g5.xlarge", 0, HOURS)], pods, busy("w", [0], 0, HOURS))
    series = relabel(
        scrape(described, lean=True),
        "kube_node_labels",
        {"label_nvidia_com_gpu_replicas": "4"},
        hours=(2, HOURS),
    )
    answers = yield (described, revalue(series, "kube_node_status_.*", 4, PLAIN, (2, HOURS)))
    assert answers.pod("a", "allocated_gpu_hours", "active_gpu_hours") == near(1, 1)
    assert answers.pod("b", "allocated_gpu_hours", "active_gpu_hours") == near(0.5, 0.5)


@scene()
def test_mig_is_switched_off() -> Scene:
    """Plain GPUs are 1g slices until 02:00, then whole: 1.75 h x 1/7 = 1/4 GPU-hour before, 2 h x 1 after."""
    kind = "Standard_NC24ads_A100_v4"
    pods = [pod("a", "w", [(0, 7)], 0, 1.75, uid="a"), pod("b", "w", [0], 3, 5, uid="b")]
    util = {**busy("w", [(0, 7)], 0, 2), **busy("w", [0], 2, 5)}
    slices = [{"gi": 7 + i, "profile": "1g.10gb"} for i in range(7)]
    cut = fleet(HOURS, [node("w", kind, 0, HOURS, mig={"GPU-w-0": slices}, mig_single="1g.10gb")], pods, util)
    whole = fleet(HOURS, [node("w", kind, 0, HOURS)], pods, util)
    answers = yield (whole, switch(scrape(cut, lean=True), scrape(whole, lean=True), 2))
    assert answers.pod("a", "allocated_gpu_hours", "active_gpu_hours") == near(0.25, 0.25)
    assert answers.pod("b", "allocated_gpu_hours", "active_gpu_hours") == near(2, 2)


@scene()
def test_an_exporter_still_names_the_last_pod_of_that_name() -> Scene:
    """A second pod of one name runs 02:00:05-05:00 on GPU 1; one sample still puts the name on GPU 0: it was active all 3 h."""
    pods = [
        pod("db-0", "w", [0], 0, 2, uid="first", keep_until=at(2)),
        pod("db-0", "w", [1], 2 + 5 / 3600, 5, uid="second"),
    ]
    util = {**busy("w", [0], 0, 2), **busy("w", [1], 2, 5)}
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, util, offset=10)
    stale = {"namespace": "train", "pod": "db-0", "container": "worker"}
    answers = yield (
        described,
        relabel(scrape(described, lean=True), "DCGM_.*", stale, {"UUID": "GPU-w-0"}, (2, 2.01)),
    )
    assert answers.pod("second", "allocated_gpu_hours", "active_gpu_hours", "idle_gpu_hours") == near(3, 3, 0)


@scene()
def test_a_gpu_is_replaced_where_the_exporter_names_no_pods() -> Scene:
    """GPU 2 of 4 gets another UUID at 02:00; who holds all four needs no label: 8 GPU-hours, then 4 x 2.75 h, all active."""
    everything = list(range(4))
    pods = [pod("a", "w", everything, 0, 2, uid="a"), pod("b", "w", everything, 2.25, 5, uid="b")]
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, busy("w", everything, 0, HOURS))
    nobody = {"namespace": None, "pod": None, "container": None}
    series = relabel(scrape(described, lean=True), "DCGM_.*", nobody)
    answers = yield (
        described,
        relabel(series, "DCGM_.*", {"UUID": "GPU-w-new"}, {"UUID": "GPU-w-2"}, (2, HOURS)),
    )
    # a GPU that stands in for another at that very scrape is seen one scrape late, or the old one early
    assert answers.pod("a", "allocated_gpu_hours", "active_gpu_hours") == pytest.approx([8, 8], abs=0.07)
    assert answers.pod("b", "allocated_gpu_hours", "active_gpu_hours") == pytest.approx([11, 11], abs=0.07)


@scene()
def test_claims_of_two_pods_of_one_name() -> Scene:
    """One after the other, on GPU 0 for 1 h and on GPU 1 for 2 h: each has its own, 1 and 2 GPU-hours."""
    pods = [pod("a", "w", [0], 0, 1, uid="first"), pod("a", "w", [1], 2, 4, uid="second")]
    described = fleet(HOURS, [node("w", "a2-highgpu-2g", 0, HOURS)], pods, busy("w", [0, 1], 0, HOURS))
    series = relabel(
        drop(scrape(described, lean=True), REQUESTS), "DCGM_.*", {"dra_claim_name": "c"}, {"pod": "a"}
    )
    answers = yield (described, series)
    assert answers.pod("first", "allocated_gpu_hours", "active_gpu_hours") == near(1, 1)
    assert answers.pod("second", "allocated_gpu_hours", "active_gpu_hours") == near(2, 2)


@scene()
def test_a_namespace_is_another_teams_for_ten_minutes() -> Scene:
    """Labels apply as of each hour: y from 01:55 to 02:05 pays the hour that begins in between, x the other four."""
    described = of_team("x")
    series = relabel(
        scrape(described, lean=True),
        "kube_namespace_labels",
        {"label_team": "y"},
        hours=(2 - 1 / 12, 2 + 1 / 12),
    )
    answers = yield described, series
    assert answers.teams() == {"x": 4, "y": 1}


def of_two_teams() -> Fleet:
    """A GPU each is held all the time in two labeled namespaces."""
    pods = [pod("a", "w", [0], 0, HOURS), pod("b", "w", [1], 0, HOURS, "serve")]
    namespaces = {"train": {"team": "x"}, "serve": {"team": "y"}}
    return fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, {}, namespaces=namespaces)


@scene(
    ({"label_team": None}, (2, 4)),
    ({"label_team": None}, (2, HOURS)),
    ({"label_team": None, "instance": "10.4.0.77:8080"}, (2, HOURS)),
    (None, (2, 4)),
    (None, (2, HOURS)),
)
def test_labels_that_all_namespaces_lose_at_once_hold(
    changes: dict[str, str | None] | None, hours: tuple[float, float]
) -> Scene:
    """kube-state-metrics tells no labels for hours, or for good, also as another target; or nothing of namespaces."""
    described = of_two_teams()
    series, metric = scrape(described, lean=True), "kube_namespace_labels"
    lost = (
        drop(series, metric, hours=hours)
        if changes is None
        else relabel(series, metric, changes, hours=hours)
    )
    answers = yield described, lost
    assert answers.teams() == {"x": 5, "y": 5}


@scene()
def test_label_that_is_removed_from_one_namespace_is_gone() -> Scene:
    described = of_two_teams()
    removed = relabel(
        scrape(described, lean=True),
        "kube_namespace_labels",
        {"label_team": None},
        {"namespace": "serve"},
        (2, 4),
    )
    answers = yield described, removed
    assert answers.teams() == {"x": 5, "y": 3, "unassigned": 2}


@scene((True, {"x": 5}), (False, {"x": 2, "unassigned": 3}))
def test_label_of_the_only_namespace_holds_if_the_name_that_all_have_is_lost_too(
    is_named: bool, teams: dict[str, float]
) -> Scene:
    described = of_team("x")
    series = relabel(
        scrape(described, lean=True),
        "kube_namespace_labels",
        {"label_kubernetes_io_metadata_name": "train" if is_named else None},
    )
    lost = {"label_team": None, "label_kubernetes_io_metadata_name": None}
    answers = yield described, relabel(series, "kube_namespace_labels", lost, hours=(2, HOURS))
    assert answers.teams() == teams


@scene()
def test_label_that_is_removed_while_labels_are_lost_holds_until_they_are_back() -> Scene:
    described = of_two_teams()
    series, metric = scrape(described, lean=True), "kube_namespace_labels"
    removed = relabel(series, metric, {"label_team": None}, {"namespace": "serve"}, (2, HOURS))
    answers = yield described, relabel(removed, metric, {"label_team": None}, hours=(2, 3))
    assert answers.teams() == {"x": 5, "y": 3, "unassigned": 2}


@scene()
def test_a_second_kube_state_metrics_exports_other_labels() -> Scene:
    """That one exporter leaves the team's label out takes it from nobody: x has all 5 hours."""
    described = of_team("x", ksm_replicas=2)
    other = {"label_team": None, "label_kubernetes_io_metadata_name": "train"}
    series = relabel(
        scrape(described, lean=True), "kube_namespace_labels", other, {"instance": r"10\.4\.0\.31:8080"}
    )
    answers = yield described, series
    assert answers.teams() == {"x": 5}


@scene()
def test_four_of_five_samples_make_no_sense() -> Scene:
    """One minute of five is told: a fifth of five hours is active, the rest unmeasured, though valid samples lie 5 min apart."""
    nonsense = [[at(0) + 300 * k + 60, at(0) + 300 * k + 300, 2147483632] for k in range(12 * HOURS)]
    described = fleet(
        HOURS,
        [node("w", "p4de.24xlarge", 0, HOURS)],
        [pod("a", "w", [0], 0, HOURS, uid="a")],
        busy("w", [0], 0, HOURS),
        invalid={"GPU-w-0": nonsense},
    )
    answers = yield (described, scrape(described, lean=True))
    assert answers.pod("a", "active_gpu_hours", "idle_gpu_hours", "unmeasured_gpu_hours") == near(1, 0, 4)


GPU_LABELS = {
    f"label_nvidia_com_gpu_{name}": None for name in ("product", "count", "replicas", "sharing_strategy")
}


@scene()
def test_pods_are_bound_before_their_nodes_labels_are_scraped() -> Scene:
    """The slots of 02:00-04:00 are quarters, as the first labels say that tell of GPUs: 2 pods x 2 h / 4."""
    pods = [pod(name, "w", [0], 2, 4, uid=name) for name in ("a", "b")]
    described = fleet(HOURS, [node("w", "g5.xlarge", 1.9, HOURS, replicas=4)], pods, busy("w", [0], 0, HOURS))
    answers = yield (
        described,
        relabel(scrape(described, lean=True), "kube_node_labels", GPU_LABELS, hours=(0, 2.2)),
    )
    assert answers.pod("a", "allocated_gpu_hours", "active_gpu_hours") == near(0.5, 0.5)
    assert answers.total("capacity_gpu_hours", "allocated_gpu_hours", "over_allocated_gpu_hours") == near(
        3.1, 1, 0
    )


@scene()
def test_a_node_loses_all_its_labels_for_good() -> Scene:
    """From 02:00 on kube_node_labels is not exported: the node stays what it was, a slot bound later is a quarter still."""
    pods = [pod("a", "w", [0], 3, 5, uid="a")]
    described = fleet(
        HOURS, [node("w", "g5.xlarge", 0, HOURS, "spot", replicas=4)], pods, busy("w", [0], 0, HOURS)
    )
    answers = yield (described, drop(scrape(described, lean=True), "kube_node_labels", hours=(2, HOURS)))
    assert answers.pod("a", "allocated_gpu_hours", "spot_gpu_hours") == near(0.5, 0.5)
    assert answers.pod("a", "cost") == near(0.5 * 0.48)


@scene()
def test_a_team_label_is_not_scraped_for_an_hour() -> Scene:
    """x until 01:30, nothing until 02:30, then y: of the hours that begin in between the first label after decides."""
    described = of_team("x")
    series = relabel(
        scrape(described, lean=True), "kube_namespace_labels", {"label_team": "y"}, hours=(2.5, HOURS)
    )
    answers = yield described, drop(series, "kube_namespace_labels", hours=(1.5, 2.5))
    assert answers.teams() == {"x": 2, "y": 3}


def reused_name() -> Fleet:
    """A pod of a StatefulSet, 00:00-02:00 on GPU 0 and, three minutes later, of the same name and node until 05:00 on GPU 1."""
    pods = [
        pod("db-0", "w", [0], 0, 2, uid="first", keep_until=at(2)),
        pod("db-0", "w", [1], 2.05, 5, uid="second"),
    ]
    return fleet(
        HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, {**busy("w", [0], 0, 2), **busy("w", [1], 2, 5)}
    )


@scene(
    *(
        (metrics, hours)
        for metrics in ("kube_pod_.*", "kube_pod_container_resource_.*")
        for hours in ((0, HOURS), (1, HOURS), (1, 3))
    )
)
def test_uid_is_dropped(metrics: str, hours: tuple[float, float]) -> Scene:
    """Two pods of one name and node are two all the same, each once: 2 + 2.95 GPU-hours."""
    described = reused_name()
    answers = yield described, relabel(scrape(described, lean=True), metrics, {"uid": None}, hours=hours)
    figures = sorted(f.allocated_gpu_hours for f in answers.pods().values() if f.allocated_gpu_hours)
    assert [float(hours) for hours in figures] == near(2, 2.95)
    assert answers.total("allocated_gpu_hours", "active_gpu_hours") == near(4.95, 4.95)
    warnings = answers.query("FROM warnings WHERE code = 'no_uid' AND subject = $cluster")
    assert bool(warnings) == (metrics == "kube_pod_.*" and hours[1] == HOURS)


@scene((0.1, [4.9]), (0.5, [2, 2.5]))
def test_neither_uid_nor_start_is_exported(gap: float, expected: list[float]) -> Scene:
    """Of one name on one node, ten minutes of silence part two pods."""
    pods = [pod("a", "w", [0], 0, 2, uid="a", keep_until=at(2)), pod("a", "w", [0], 2 + gap, 5, uid="b")]
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, busy("w", [0], 0, HOURS))
    series = drop(scrape(described, lean=True), "kube_pod_(start_time|status_scheduled_time|completion_time)")
    answers = yield described, relabel(series, "kube_pod_.*", {"uid": None})
    figures = sorted(f.allocated_gpu_hours for f in answers.pods().values() if f.allocated_gpu_hours)
    assert [float(hours) for hours in figures] == pytest.approx(expected, abs=0.11)


@scene()
def test_a_name_without_uid_moves_to_another_node() -> Scene:
    """Without uid and start another node is another pod: 2 GPU-hours on v, 2.95 on w."""
    nodes = [node(name, "g6.12xlarge", 0, HOURS) for name in ("v", "w")]
    pods = [pod("a", "v", [0], 0, 2, uid="a", keep_until=at(2)), pod("a", "w", [0], 2.05, 5, uid="b")]
    described = fleet(HOURS, nodes, pods, {**busy("v", [0], 0, 2), **busy("w", [0], 2, 5)})
    series = drop(scrape(described, lean=True), "kube_pod_(start_time|status_scheduled_time|completion_time)")
    answers = yield (described, relabel(series, "kube_pod_.*", {"uid": None}))
    assert answers.total("allocated_gpu_hours", "active_gpu_hours") == near(4.95, 4.95)


@scene()
def test_the_scrape_interval_changes_in_the_middle_of_an_hour() -> Scene:
    """Every 15 s until 02:30, then every minute: 4 h, 2 of them idle, all measured; a silence of 30 min is not."""
    described = fleet(
        HOURS,
        [node("w", "g6.12xlarge", 0, HOURS)],
        [pod("a", "w", [0], 0, 4, uid="a")],
        busy("w", [0], 2, 4),
        scrape=15,
        silent=[["w", at(3), at(3.5)]],
    )
    answers = yield (described, thin(scrape(described, lean=True), 60, (2.5, HOURS)))
    assert answers.pod("a", "active_gpu_hours", "idle_gpu_hours", "unmeasured_gpu_hours") == near(1.5, 2, 0.5)


ABSURD = ("nan", "inf", "-2", "1e300", "9" * 400, "many")


@scene(
    ("label_nvidia_com_gpu_replicas",),
    ("label_nvidia_com_gpu_count",),
    ("label_gpu_intel_com_device_count",),
    ("label_cloud_google_com_gke_max_shared_clients_per_gpu",),
    ("label_cloud_google_com_gke_gpu_partition_size",),
    ("label_nvidia_com_gpu_product",),
)
def test_labels_that_tell_no_number_are_as_if_they_were_not_there(label: str) -> Scene:
    """One GPU of four for five hours, whatever one label says in turn: 5 GPU-hours, 5 x $1.20."""
    nodes = [node(f"w{i}", "g6.12xlarge", 0, HOURS) for i in range(len(ABSURD))]
    pods = [pod(f"p{i}", f"w{i}", [0], 0, 5, uid=f"p{i}") for i in range(len(ABSURD))]
    series = scrape(fleet(HOURS, nodes, pods, {}), lean=True)
    for i, text in enumerate(ABSURD):
        value = f"NVIDIA-L4-MIG-{text}g.5gb" if label.endswith("product") else text
        series = relabel(series, "kube_node_labels", {label: value}, {"node": f"w{i}"})
    answers = yield fleet(HOURS, nodes, pods, {}), series
    for i in range(len(ABSURD)):
        assert answers.pod(f"p{i}", "allocated_gpu_hours", "cost") == [
            pytest.approx(5, abs=0.1),
            pytest.approx(6, abs=0.1),
        ]


@scene(
    *(
        (metric, value)
        for value in (1e300, 4e9)
        for metric in (
            "kube_node_created",
            "kube_pod_status_scheduled_time",
            "kube_pod_start_time",
            "kube_pod_completion_time",
            "kube_state_metrics_(total_shards|shard_ordinal)",
        )
    )
)
def test_values_that_cannot_be_are_as_if_they_were_not_there(metric: str, value: float) -> Scene:
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], [pod("a", "w", [0], 1, 3, uid="a")], {})
    answers = yield described, revalue(scrape(described, lean=True), metric, value)
    assert answers.pod("a", "allocated_gpu_hours") == [pytest.approx(2, abs=0.1)]
    assert answers.total("capacity_gpu_hours") == [pytest.approx(20, abs=0.1)]


@scene(
    ("kube_pod_status_phase", "up to 2.0 GPU-hours and 2.40 USD between 2026-03-10T02:00Z and "),
    (
        "kube_pod_(status_phase|completion_time)",
        "up to 8.0 GPU-hours and 9.60 USD between 2026-03-10T00:00Z and ",
    ),
    ("kube_pod_completion_time", None),
)
def test_phases_are_not_scraped(metrics: str, expected: str | None) -> Scene:
    """Pod a ended at 02:00 and is listed until 04:00, pod b runs from 01:00 on: 2 GPU-hours are too many, up to 8 may be."""
    pods = [pod("a", "w", [0], 0, 2, uid="a", keep_until=at(4)), pod("b", "w", [1], 1, 5, uid="b")]
    described = fleet(HOURS, [node("w", "g6.12xlarge", 0, HOURS)], pods, busy("w", [0, 1], 0, HOURS))
    answers = yield described, drop(scrape(described, lean=True), metrics)
    messages = answers.warnings("unproven_end")
    assert [expected in message for message in messages if expected] == ([True] if expected else [])
    assert bool(messages) is bool(expected)
    assert len(answers.warnings("missing_kube_pod_status_phase")) == (1 if expected else 0)


@scene(
    ("kube_pod_owner", (0, HOURS), "has no kube_pod_owner: workloads show as single pods"),
    ("kube_pod_owner", (0, 2), "has no kube_pod_owner between 2026-03-10T00:00Z and 2026-03-10T02:00Z: "),
    (
        "kube_node_labels",
        (3, HOURS),
        "between 2026-03-10T02:59Z and 2026-03-10T04:59Z: spot, instance type, region",
    ),
    ("kube_pod_container_resource_.*", (0, HOURS), "no pod has ever asked for a GPU"),
    ("kube_.*", (0, HOURS), "holds no sample of kube-state-metrics"),
)
def test_what_is_not_exported_is_a_stored_warning(
    metric: str, hours: tuple[float, float], expected: str
) -> Scene:
    """As `collect` says it, for the time that it concerns."""
    described = fleet(
        HOURS,
        [node("w", "g6.12xlarge", 0, HOURS)],
        [pod("a", "w", [0], 0, 5, uid="a")],
        busy("w", [0], 0, HOURS),
    )
    answers = yield described, drop(scrape(described), metric, hours=hours)
    assert len([message for (message,) in answers.query(_MESSAGES) if expected in message]) == 1
