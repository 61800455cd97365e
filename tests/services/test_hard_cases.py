"""Metrics of changing fleets and faulty exporters: scenarios with true figures."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.edits import drop, relabel, revalue, switch, thin
from tests.replay.load import write_config
from tests.replay.result import unpaid
from tests.replay.scrape import scrape
from tests.services.hard_scenes import HOURS, Answers, held, lean, of_team, on_w, own_store
from tests.side_by_side import Scene, Scenes, asked_names
from tests.text_tables import text_rows, words

scene = Scenes()

ALL_HOURS = (0, HOURS)
LABELS, PODS, REQUESTS = "kube_namespace_labels", "kube_pod_.*", "kube_pod_container_resource_.*"
TIMES = "kube_pod_(start_time|status_scheduled_time|completion_time)"
NO_POD = {"namespace": None, "pod": None, "container": None}
GPU_LABELS = "product count replicas sharing_strategy"


@pytest.fixture(scope="module")
def scenes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, tuple[Scene, Answers]]]:
    with scene.start(tmp_path_factory.mktemp("scenes"), Answers, HOURS, asked_names(request)) as answers:
        yield answers


@scene()
def test_pod_of_an_earlier_node_is_not_on_the_next_node_of_that_name() -> Scene:
    """The first node w ended at 02:00, and its pod stayed listed; data begins at 03:00, when the second w was an hour old."""
    nodes = ["w | g6.12xlarge | 0 | 2", "w | g6.12xlarge | 2 | 5"]
    orphan = pod("orphan", "w", [0, 1], 0.5, 2, uid="orphan", keep_until=at(4.5))
    pods = [orphan, *held("b | w | 2 | 2.5 | 5")]
    described = fleet(HOURS, nodes, pods, "w | 2 | 2 | 5")
    series = drop(lean(described), "kube_pod_status_phase|kube_pod_completion_time", {"pod": "orphan"})
    (yield described, drop(series, ".*", hours=(-1, 3))).shows("total allocated 2")


@scene()
def test_slots_begin_within_a_nodes_lifetime() -> Scene:
    """Four replicas from 02:00 on: 00:30-01:30 is a whole GPU, 1 GPU-hour; 03:00-05:00 is a slot, 2 h / 4."""
    pods = held("""
        a | w | 0 | 0.5 | 1.5
        b | w | 0 | 3   | 5""")
    described = on_w(pods, "w | 0 | 0 | 5", "g5.xlarge")
    four, later = {"label_nvidia_com_gpu_replicas": "4"}, (2, HOURS)
    series = relabel(lean(described), "kube_node_labels", four, hours=later)
    series = revalue(series, "kube_node_status_.*", 4, {"resource": "nvidia_com_gpu"}, later)
    (yield described, series).shows("""
        a allocated 1   active 1
        b allocated 0.5 active 0.5""")


@scene()
def test_gpus_are_whole_after_mig_is_switched_off() -> Scene:
    """Plain GPUs are 1g slices until 02:00, then whole: 1.75 h x 1/7 = 1/4 GPU-hour before, 2 h x 1 after."""
    kind = "Standard_NC24ads_A100_v4"
    pods = [pod("a", "w", [(0, 7)], 0, 1.75, uid="a"), pod("b", "w", [0], 3, 5, uid="b")]
    util = {**busy("w", [(0, 7)], 0, 2), **busy("w", [0], 2, 5)}
    slices = [{"gi": 7 + i, "profile": "1g.10gb"} for i in range(7)]
    cut = fleet(HOURS, [node("w", kind, 0, HOURS, mig={"GPU-w-0": slices}, mig_single="1g.10gb")], pods, util)
    whole = on_w(pods, util, kind)
    (yield whole, switch(lean(cut), lean(whole), 2)).shows("""
        a allocated 0.25 active 0.25
        b allocated 2    active 2""")


def of_one_name(gap: float, first: str = "w", keep: float = 2) -> tuple[list[Any], dict[str, Any]]:
    """Return two pods of one name with their activity: 00:00-02:00 on GPU 0, and from `gap` hours later on GPU 1 of w."""
    pods = [
        pod("db-0", first, [0], 0, 2, uid="first", keep_until=at(keep)),
        pod("db-0", "w", [1], 2 + gap, 5, uid="second"),
    ]
    return pods, {**busy(first, [0], 0, 2), **busy("w", [1], 2, 5)}


@scene()
def test_stale_exporter_label_of_the_previous_pod_has_no_effect() -> Scene:
    """A second pod of one name runs 02:00:05-05:00 on GPU 1; one sample still has the name on GPU 0. It was active for 3 h."""
    described = on_w(*of_one_name(5 / 3600), offset=10)
    stale = {"namespace": "train", "pod": "db-0", "container": "worker"}
    series = relabel(lean(described), "DCGM_.*", stale, {"UUID": "GPU-w-0"}, (2, 2.01))
    (yield described, series).shows("second allocated 3 active 3 idle 0")


@scene()
def test_replaced_gpu_without_pod_labels() -> Scene:
    """GPU 2 of 4 gets another UUID at 02:00; pods with all four need no label: 8 GPU-hours, then 4 x 2.75 h, all active."""
    everything = list(range(4))
    pods = held("""
        a | w | 0 1 2 3 | 0    | 2
        b | w | 0 1 2 3 | 2.25 | 5""")
    described = on_w(pods, busy("w", everything, 0, HOURS))
    series = relabel(lean(described), "DCGM_.*", NO_POD)
    series = relabel(series, "DCGM_.*", {"UUID": "GPU-w-new"}, {"UUID": "GPU-w-2"}, (2, HOURS))
    # the replacement may appear one scrape late, or the old GPU disappear one early
    (yield described, series).shows("a allocated 8 active 8\nb allocated 11 active 11", within=0.07)


@scene()
def test_claims_of_two_pods_of_one_name_are_separate() -> Scene:
    """In sequence, on GPU 0 for 1 h and on GPU 1 for 2 h: each has its own claim, 1 and 2 GPU-hours."""
    pods = [pod("a", "w", [0], 0, 1, uid="first"), pod("a", "w", [1], 2, 4, uid="second")]
    described = on_w(pods, "w | 0 1 | 0 | 5", "a2-highgpu-2g")
    series = drop(lean(described), "kube_pod_container_resource_requests.*")
    (yield described, relabel(series, "DCGM_.*", {"dra_claim_name": "c"}, {"pod": "a"})).shows("""
        first  allocated 1 active 1
        second allocated 2 active 2""")


#: One GPU always held in a namespace of team x; two in namespaces of teams x and y; one with two exporters.
FLEETS = {
    "x": of_team("x"),
    "x and y": on_w(
        ["a | w | 0 | 0 | 5", "b | w | 1 | 0 | 5 | serve"],
        {},
        namespaces={"train": {"team": "x"}, "serve": {"team": "y"}},
    ),
    "twice": of_team("x", ksm_replicas=2),
}
# Case, fleet, changed labels (none: all are lost), their namespaces or exporters, from hour, to hour, GPU-hours.
# 0: y pays the hour that begins within its ten minutes. 1: the first label afterwards decides hours that begin while labels are
# lost. 2-6: no labels for hours or for good, also as another target; or no series of namespaces. 7, 8: one namespace loses its
# label, also while labels are lost. 9, 10: the only namespace loses it, with or without the label of names. 11: one of two
# exporters omits the team's label.
CHANGED = """
0  | x       | label_team=y                                        |                         | 1.9 | 2.1 | x 4 y 1
1  | x       | label_team=y                                        |                         | 2.5 | 5   |
1  | x       |                                                     |                         | 1.5 | 2.5 | x 2 y 3
2  | x and y | label_team=                                         |                         | 2   | 4   | x 5 y 5
3  | x and y | label_team=                                         |                         | 2   | 5   | x 5 y 5
4  | x and y | label_team= instance=10.4.0.77:8080                 |                         | 2   | 5   | x 5 y 5
5  | x and y |                                                     |                         | 2   | 4   | x 5 y 5
6  | x and y |                                                     |                         | 2   | 5   | x 5 y 5
7  | x and y | label_team=                                         | namespace=serve         | 2   | 4   | x 5 y 3 unassigned 2
8  | x and y | label_team=                                         | namespace=serve         | 2   | 5   |
8  | x and y | label_team=                                         |                         | 2   | 3   | x 5 y 3 unassigned 2
9  | x       | label_kubernetes_io_metadata_name=train             |                         | 0   | 5   |
9  | x       | label_team= label_kubernetes_io_metadata_name=      |                         | 2   | 5   | x 5
10 | x       | label_kubernetes_io_metadata_name=                  |                         | 0   | 5   |
10 | x       | label_team= label_kubernetes_io_metadata_name=      |                         | 2   | 5   | x 2 unassigned 3
11 | twice   | label_team= label_kubernetes_io_metadata_name=train | instance=10.4.0.31:8080 | 0   | 5   | x 5
"""


@scene(*((list(rows),) for _, rows in groupby(text_rows(CHANGED), itemgetter(0))))
def test_changed_and_lost_namespace_labels(rows: list[tuple[str, ...]]) -> Scene:
    """Labels apply as of each hour; labels that all namespaces lose at once stay valid, a single removed label does not."""
    described = FLEETS[rows[0][1]]
    series = lean(described)
    for *_, labels, where, start, end, _ in rows:
        hours, changes = (
            (float(start), float(end)),
            {name: value or None for name, value in words(labels).items()},
        )
        series = (
            relabel(series, LABELS, changes, words(where), hours)
            if changes
            else drop(series, LABELS, words(where), hours)
        )
    (yield described, series).shows(f"teams {rows[-1][-1]}")


@scene()
def test_implausible_samples_are_unmeasured() -> Scene:
    """One minute in five is valid: a fifth of five hours is active, the rest unmeasured, despite valid samples every 5 min."""
    nonsense = [[at(0) + 300 * k + 60, at(0) + 300 * k + 300, 2147483632] for k in range(12 * HOURS)]
    util = "w | 0 | 0 | 5"
    described = on_w(held("a | w | 0 | 0 | 5"), util, "p4de.24xlarge", invalid={"GPU-w-0": nonsense})
    (yield described, lean(described)).shows("a active 1 idle 0 unmeasured 4")


@scene()
def test_pods_bound_before_their_nodes_labels_are_scraped() -> Scene:
    """The slots of 02:00-04:00 are quarters by the first labels that describe GPUs: 2 pods x 2 h / 4."""
    pods = held("""
        a | w | 0 | 2 | 4
        b | w | 0 | 2 | 4""")
    described = fleet(HOURS, [node("w", "g5.xlarge", 1.9, HOURS, replicas=4)], pods, "w | 0 | 0 | 5")
    none = {f"label_nvidia_com_gpu_{name}": None for name in GPU_LABELS.split()}
    (yield described, relabel(lean(described), "kube_node_labels", none, hours=(0, 2.2))).shows("""
        a     allocated 0.5 active 0.5
        total capacity 3.1 allocated 1 over_allocated 0""")


@scene()
def test_node_keeps_facts_after_losing_all_labels() -> Scene:
    """From 02:00 on, kube_node_labels is not exported: the node keeps its facts, and a slot bound later is still a quarter."""
    nodes = [node("w", "g5.xlarge", 0, HOURS, "spot", replicas=4)]
    described = fleet(HOURS, nodes, held("a | w | 0 | 3 | 5"), "w | 0 | 0 | 5")
    series = drop(lean(described), "kube_node_labels", hours=(2, HOURS))
    (yield described, series).shows("a allocated 0.5 spot 0.5 cost 0.24")


@scene(*((metrics, hours) for metrics in (PODS, REQUESTS) for hours in (ALL_HOURS, (1, HOURS), (1, 3))))
def test_pods_without_uid_are_distinct(metrics: str, hours: tuple[float, float]) -> Scene:
    """Two pods of one name and node, three minutes apart, still count as two, each once: 2 + 2.95 GPU-hours."""
    described = on_w(*of_one_name(0.05))
    answers = yield described, relabel(lean(described), metrics, {"uid": None}, hours=hours)
    assert answers.held() == pytest.approx([2, 2.95], abs=0.035)
    answers.shows("total allocated 4.95 active 4.95")
    warnings = answers.query("FROM warnings WHERE code = 'no_uid' AND subject = $cluster")
    assert bool(warnings) == (metrics == PODS and hours[1] == HOURS)


@scene((0.1, [4.9]), (0.5, [2, 2.5]))
def test_pods_without_uid_and_start_are_split_at_a_gap(gap: float, expected: list[float]) -> Scene:
    """Ten minutes without samples separate two pods of one name on one node."""
    pods = [pod("a", "w", [0], 0, 2, uid="a", keep_until=at(2)), pod("a", "w", [0], 2 + gap, 5, uid="b")]
    described = on_w(pods, "w | 0 | 0 | 5")
    answers = yield described, relabel(drop(lean(described), TIMES), PODS, {"uid": None})
    assert answers.held() == pytest.approx(expected, abs=0.11)


@scene()
def test_pod_without_uid_on_another_node_is_another_pod() -> Scene:
    """Without uid and start, another node means another pod: 2 GPU-hours on v, 2.95 on w."""
    nodes = [f"{name} | g6.12xlarge | 0 | 5" for name in ("v", "w")]
    described = fleet(HOURS, nodes, *of_one_name(0.05, "v"))
    series = relabel(drop(lean(described), TIMES), PODS, {"uid": None})
    (yield described, series).shows("total allocated 4.95 active 4.95")


@scene()
def test_scrape_interval_changes_within_an_hour() -> Scene:
    """Every 15 s until 02:30, then every minute: 4 h, 2 of them idle, all measured except a gap of 30 min."""
    silent = [["w", at(3), at(3.5)]]
    described = on_w(held("a | w | 0 | 0 | 4"), "w | 0 | 2 | 4", scrape=15, silent=silent)
    (yield described, thin(lean(described), 60, (2.5, HOURS))).shows("a active 1.5 idle 2 unmeasured 0.5")


ABSURD = ("nan", "inf", "-2", "1e300", "9" * 400, "many")


LABELS_OF_NUMBERS = """
label_nvidia_com_gpu_replicas
label_nvidia_com_gpu_count
label_gpu_intel_com_device_count
label_cloud_google_com_gke_max_shared_clients_per_gpu
label_cloud_google_com_gke_gpu_partition_size
label_nvidia_com_gpu_product
"""


@scene(*text_rows(LABELS_OF_NUMBERS))
def test_labels_without_a_number_are_ignored(label: str) -> Scene:
    """One GPU of four for five hours, with each label invalid in turn: 5 GPU-hours, 5 x $1.20."""
    nodes = [node(f"w{i}", "g6.12xlarge", 0, HOURS) for i in range(len(ABSURD))]
    pods = held("\n".join(f"p{i} | w{i} | 0 | 0 | 5" for i in range(len(ABSURD))))
    described = fleet(HOURS, nodes, pods, {})
    series = lean(described)
    for i, text in enumerate(ABSURD):
        value = f"NVIDIA-L4-MIG-{text}g.5gb" if label.endswith("product") else text
        series = relabel(series, "kube_node_labels", {label: value}, {"node": f"w{i}"})
    answers = yield described, series
    answers.shows("\n".join(f"p{i} allocated 5 cost 6" for i in range(len(ABSURD))), within=0.1)


MOMENTS = """
    kube_node_created kube_pod_status_scheduled_time kube_pod_start_time kube_pod_completion_time
    kube_state_metrics_(total_shards|shard_ordinal)"""


@scene(*((metric, value) for value in (1e300, 4e9) for metric in MOMENTS.split()))
def test_implausible_values_are_ignored(metric: str, value: float) -> Scene:
    described = on_w(held("a | w | 0 | 1 | 3"), {})
    answers = yield described, revalue(lean(described), metric, value)
    answers.shows("a allocated 2\ntotal capacity 20", within=0.1)


TOO_MANY = "up to {} USD between 2026-03-10T0{}:00Z and "


@scene(
    ("kube_pod_status_phase", [TOO_MANY.format("2.0 GPU-hours and 2.40", 2)]),
    ("kube_pod_(status_phase|completion_time)", [TOO_MANY.format("8.0 GPU-hours and 9.60", 0)]),
    ("kube_pod_completion_time", []),
)
def test_missing_phases_are_warned_about(metrics: str, expected: list[str]) -> Scene:
    """Pod a ended at 02:00 and is listed until 04:00, pod b runs from 01:00 on: 2 GPU-hours are surplus, up to 8 may be."""
    pods = [pod("a", "w", [0], 0, 2, uid="a", keep_until=at(4)), *held("b | w | 1 | 1 | 5")]
    described = on_w(pods, "w | 0 1 | 0 | 5")
    answers = yield described, drop(lean(described), metrics)
    messages = answers.warnings("unproven_end")
    assert len(messages) == len(answers.warnings("missing_kube_pod_status_phase")) == len(expected)
    assert all(words in message for words, message in zip(expected, messages, strict=True))


@scene(
    ("kube_pod_owner", ALL_HOURS, "has no kube_pod_owner: workloads show as single pods"),
    ("kube_pod_owner", (0, 2), "has no kube_pod_owner between 2026-03-10T00:00Z and 2026-03-10T02:00Z: "),
    (
        "kube_node_labels",
        (3, HOURS),
        "between 2026-03-10T02:59Z and 2026-03-10T04:59Z: spot, instance type, region",
    ),
    (REQUESTS, ALL_HOURS, "no pod has ever requested a GPU"),
    ("kube_.*", ALL_HOURS, "has no samples of kube-state-metrics"),
)
def test_missing_metrics_are_stored_warnings(metric: str, hours: tuple[float, float], expected: str) -> Scene:
    """The text equals the warning of `collect`, for the affected time."""
    described = on_w(held("a | w | 0 | 0 | 5"), "w | 0 | 0 | 5")
    answers = yield described, drop(scrape(described), metric, hours=hours)
    messages = answers.query("SELECT message FROM warnings WHERE cluster = $cluster")
    assert len([message for (message,) in messages if expected in message]) == 1


def test_report_of_an_odd_period_does_not_change_other_reports(tmp_path: Path) -> None:
    """The label is y from 02:10 on, so y pays from 03:00 on, also after a report of 02:15-04:00."""
    described, later = of_team("x"), (2 + 1 / 6, HOURS)
    series = relabel(lean(described), "kube_namespace_labels", {"label_team": "y"}, hours=later)
    config, store = own_store(tmp_path, described, series)
    for hours in ((2.25, 4), (0, HOURS)):
        pipeline.attribute(config, store, Period(*(datetime.fromtimestamp(at(h), UTC) for h in hours)))
        assert not unpaid(store)
        Answers(config, store).shows("teams x 3 y 2")


@pytest.mark.slow
def test_missing_activity_is_a_stored_warning(tmp_path: Path) -> None:
    """In its own store: invalid samples are known by server, not by cluster."""
    described = on_w(held("a | w | 0 | 0 | 5"), "w | 0 | 0 | 5")
    config, store = own_store(tmp_path, described, drop(scrape(described), "DCGM_.*"))
    pipeline.attribute(config, store)
    (message,) = Answers(config, store).warnings("no_activity")
    assert "has no DCGM_FI_DEV_GPU_UTIL: all GPU time is unmeasured" in message


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(120, 60), (60, 120)])
def test_changed_scraping_on_the_third_day_does_not_change_the_first(
    tmp_path: Path, before: int, after: int
) -> None:
    """Rows and fingerprint of the first day stay unchanged, with a gap, a node and a pod that end in it."""
    pods = [
        pod("a", "w", [0], 0.5, 20.01, uid="a", keep_until=at(20.01)),
        *held("b | w | 1 | 3.3 | 70"),
        pod("c", "v", [0], 1.2, 9.99, uid="c", timestamps=False),
    ]
    nodes = ["w | g6.12xlarge | 0 | 72", "v | g6.12xlarge | 0 | 10.01"]
    silent = [["w", at(5.1), at(5.4)], ["w", at(11.99), at(13.2)]]
    util = """
        w | 0 1 | 0 | 72
        v | 0   | 0 | 72"""
    described = fleet(72, nodes, pods, util, silent=silent)
    series = thin(thin(lean(described), before, (0, 48)), after, (48, 72))
    states: list[Any] = []

    def attribute(store: Store) -> None:
        pipeline.attribute(write_config(described, tmp_path, tmp_path / "prices.csv"), store)
        days = ("FROM cost_hourly SELECT from_ms, *", "SELECT from_ms, fingerprint FROM attributed_days")
        first = [[row for row in store.query(text)[1] if int(str(row[0])) < at(24) * 1000] for text in days]
        states.append([sorted(rows, key=str) for rows in first])

    own_store(tmp_path, described, series, attribute)
    assert len(states) == 3 and states[0][0]
    assert states[1] == states[2]
