"""A fleet made by hand for each kind of waste: only the expected hours are in its bucket, to the second and the cent."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.collect.progress.files import import_files
from gpucost.config.model import Config, WasteSettings
from gpucost.periods import Period
from gpucost.questions.report.query import Query
from gpucost.questions.waste import anatomy as waste
from gpucost.questions.waste.anatomy import Waste, WasteRow, _most_expensive_first
from gpucost.store.connection import Store
from tests.fleets.shares import allocated
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.edits import move
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.waste import anatomy, check_waste
from tests.replay.work import counter, put
from tests.text_tables import table
from tests.unit.command import answer, check_end
from tests.unit.whatif_costs import figures

PRICE = Decimal("1.20")

# One pod per row, on a node with one GPU (g5.xlarge, $1.20) or four (g6.12xlarge, $4.80) that is up for some hours.
PODS = """
    fleet                           | node        | hours | owner                    | gpus  | held  | runs from | busy
    active                          | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 0-4   |           | 0-4
    data_stall                      | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 0-4   |           |
    data_stall_of_batch             | g5.xlarge   | 4     | CronJob/nightly          | 0     | 0-4   |           |
    failed_restarted                | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 0-4   |           | 0-4
    failed_while_stalled            | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 0-4   |           | 0-1
    failed_inference_is_active      | g5.xlarge   | 4     | ReplicaSet/chat-5d8      | 0     | 0-4   |           | 0-4
    off_peak_idle                   | g5.xlarge   | 6     | ReplicaSet/chat-5d8      | 0     | 0-6   |           |
    off_peak_beside_a_peak          | g5.xlarge   | 6     | ReplicaSet/chat-5d8      | 0     | 0-6   |           | 1-3
    over_provisioned                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 0     | 0-6   |           | 0-6 at 30
    over_provisioned                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 1     | 0-6   |           | 0-6 at 30
    over_provisioned                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 2     | 0-6   |           | 0-6 at 30
    over_provisioned                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 3     | 0-6   |           | 0-6 at 30
    over_provisioned_idle_first     | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 0     | 0-6   |           | 0-6 at 100
    over_provisioned_idle_first     | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 1     | 0-6   |           |
    over_provisioned_idle_first     | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 2     | 0-6   |           |
    over_provisioned_idle_first     | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 3     | 0-6   |           |
    off_peak_of_many                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 0     | 0-6   |           | 0-1 at 100
    off_peak_of_many                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 1     | 0-6   |           | 0-1 at 100
    off_peak_of_many                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 2     | 0-6   |           | 0-1 at 100
    off_peak_of_many                | g6.12xlarge | 6     | ReplicaSet/chat-5d8      | 3     | 0-6   |           | 0-1 at 100
    user_away                       | g5.xlarge   | 10    | StatefulSet/ann-notebook | 0     | 0-10  |           |
    forgotten                       | g5.xlarge   | 40    | StatefulSet/ann-notebook | 0     | 0-40  |           | 0-2
    not_forgotten_by_who_comes_back | g5.xlarge   | 40    | StatefulSet/ann-notebook | 0     | 0-40  |           | 0-2, 39-40
    idle                            | g5.xlarge   | 4     | StatefulSet/db           | 0     | 0-4   |           |
    starting                        | g5.xlarge   | 6     | PyTorchJob/bert          | 0     | 0-6   | 6         |
    starting_then_active            | g5.xlarge   | 6     | ReplicaSet/chat-5d8      | 0     | 0-6   | 2         | 2-6
    starting_unmeasured             | g5.xlarge   | 6     | PyTorchJob/bert          | 0     | 0-6   | 2         |
    unmeasured                      | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 0-4   |           |
    between_jobs                    | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 0-2   |           | 0-4
    between_jobs                    | g5.xlarge   | 4     | PyTorchJob/bert          | 0     | 2.5-4 |           |
    between_jobs_beside_one         | g6.12xlarge | 4     | PyTorchJob/bert          | 0     | 0-4   |           | 0-4
    empty_node                      | g5.xlarge   | 4     |                          |       |       |           |
    unavailable                     | g5.xlarge   | 4     |                          |       |       |           |
    broken                          | g6.12xlarge | 4     |                          |       |       |           |
    fragmentation                   | g6.12xlarge | 4     | PyTorchJob/bert          | 0 1 2 | 0-4   |           | 0-4
    fragmentation_for_who_waits     | g6.12xlarge | 6     | PyTorchJob/bert          | 0     | 0-6   |           | 0-6
    fragmentation_for_who_waits     | g6.12xlarge | 6     | PyTorchJob/bert          | 1     | 0-6   |           | 0-6
    fragmentation_of_slices         | p5.48xlarge | 7     |                          |       |       |           |
    short limits                    | g5.xlarge   | 10    | StatefulSet/ann-notebook | 0     | 0-10  |           |
    short limits of a node          | g5.xlarge   | 4     |                          |       |       |           |
    ranks                           | g6.12xlarge | 4     | PyTorchJob/bert          | 0     | 0-4   |           | 0-4
    ranks                           | g6.12xlarge | 4     | PyTorchJob/bert          | 1     | 0-4   |           | 0-4
    wide                            | g6.12xlarge | 4     | PyTorchJob/bert          | 0 1 2 | 0-4   |           |
    wide                            | g6.12xlarge | 4     | Job/narrow               | 3     | 0-4   |           |
    named                           | g6.12xlarge | 4     | PyTorchJob/bert          | 0     | 0-4   |           | 0-3
    named                           | g6.12xlarge | 4     | StatefulSet/ann-notebook | 1     | 0-4   |           |
    claims                          | g5.xlarge   | 6     |                          |       |       |           | 0-6
"""
# GPU-hours
BUCKETS = """
    fleet                           | buckets
    active                          | active 4
    data_stall                      | data_stall 4
    data_stall_of_batch             | data_stall 4
    failed_restarted                | failed_restarted 4
    failed_while_stalled            | failed_restarted 1, data_stall 3
    failed_inference_is_active      | active 4
    off_peak_idle                   | off_peak_idle 6
    off_peak_beside_a_peak          | active 2, off_peak_idle 4
    over_provisioned                | active 12, over_provisioned 12
    over_provisioned_idle_first     | active 6, off_peak_idle 6, over_provisioned 12
    off_peak_of_many                | active 4, off_peak_idle 20
    user_away                       | user_away 10
    forgotten                       | active 2, user_away 24, forgotten 14
    not_forgotten_by_who_comes_back | active 3, user_away 37
    idle                            | idle 4
    starting                        | starting 6
    starting_then_active            | starting 2, active 4
    starting_unmeasured             | starting 2, unmeasured 4
    unmeasured                      | unmeasured 4
    between_jobs                    | active 3.5, between_jobs 0.5
    between_jobs_beside_one         | active 4, between_jobs 12
    empty_node                      | empty_node 4
    unavailable                     | unavailable 4
    broken                          | unavailable 4, empty_node 12
    fragmentation                   | active 12, fragmentation 4
    fragmentation_for_who_waits     | active 12, fragmentation 12
    fragmentation_of_slices         | fragmentation 8, empty_node 48
"""
ROWS: dict[str, list[dict[str, str]]] = defaultdict(list)
for row in table(PODS):
    ROWS[row["fleet"]].append(row)
FAILED = {"failed_restarted", "failed_while_stalled", "failed_inference_is_active", "ranks"}
# of slices with 1, 2 and 3 of 7 parts, one is left over on each GPU; one of four GPUs is broken
SLICES = [{"gi": 7, "profile": "1g.10gb"}, {"gi": 3, "profile": "2g.20gb"}, {"gi": 1, "profile": "3g.40gb"}]
NODES: dict[str, dict[str, Any]] = {
    "starting_unmeasured": {"dcgm": False}, "unmeasured": {"dcgm": False}, "unavailable": {"cordoned": [[at(0), at(4)]]},
    "broken": {"allocatable": [[at(0), at(4), 3]]}, "fragmentation_of_slices": {"mig": {f"GPU-a-{i}": SLICES for i in range(8)}},
}  # fmt: skip
SPACES = {"StatefulSet/ann-notebook": "labs", "Job/narrow": "other"}
CLAIM = {"count": 0, "claims": ["shared"], "owner": ["PyTorchJob", "bert"]}
OTHER_PODS: dict[str, list[dict[str, Any]]] = {
    # two GPUs are held, and the only waiting pod needs four
    "fragmentation_for_who_waits": [
        pod("big", None, [], 0, 6, "queue", count=4, keep_until=at(6), owner=["Job", "big"])
    ],
    "claims": [
        pod("p-0", "a", [], 0, 6, **CLAIM, end_phase="Failed"), pod("q-0", "a", [], 2, 3, **CLAIM)
    ],
}  # fmt: skip
Stored = tuple[Config, Store, Period]


def described(name: str, rows: list[dict[str, str]]) -> Fleet:
    """The fleet of these rows, one hour longer than its node."""
    pods, util = list(OTHER_PODS.get(name, [])), dict[str, list[list[float]]]()
    for number, row in enumerate(rows):
        gpus = [int(gpu) for gpu in row.get("gpus", "").split()]
        for span in row.get("busy", "").split(", "):
            times, _, percent = span.partition(" at ")
            for gpu in (gpus or [0]) if times else ():
                start, end = map(float, times.split("-"))
                util.setdefault(f"GPU-a-{gpu}", []).append([at(start), at(end), float(percent or 77)])
        if gpus:
            more = {"from": at(float(row["runs from"]))} if "runs from" in row else {}
            if name in FAILED and row is rows[-1]:
                more["end_phase"] = "Failed"
            start, end = map(float, row["held"].split("-"))
            space = SPACES.get(row["owner"], "train")
            made = pod(f"p-{number}", "a", gpus, start, end, space, owner=row["owner"].split("/"), **more)
            pods.append(made)
    hours = int(rows[0]["hours"])
    seldom = {"scrape": 300} if hours == 40 else {}
    nodes = [node("a", rows[0]["node"], 0, hours, **NODES.get(name, {}))]
    return fleet(hours + 1, nodes, pods, WIDE if name == "wide" else util, **seldom)


WIDE = {**busy("a", [0], 0, 4, 80), **busy("a", [1], 0, 2, 40)}


def cluster(name: str, described: Fleet) -> Fleet:
    """The fleet with a cluster name, so that one store can have several."""
    named = {key: [{**one, "cluster": name} for one in described[key]] for key in ("nodes", "pods")}
    return {**described, **named, "cluster_label": True}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """All these fleets in one attributed store, each as its own cluster."""
    folder = tmp_path_factory.mktemp("waste")
    prices = folder / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    fleets = [cluster(name, described(name, rows)) for name, rows in ROWS.items()]
    whole = max(fleets, key=lambda each: each["end"])
    config = write_config(whole, folder, prices)
    series = [one for each in fleets for one in move(scrape(each, lean=True), each["nodes"][0]["cluster"])]
    claim = allocated("shared", "gpu-0", pool="a")
    claim.labels["cluster"] = "claims"
    store = load(whole, [*series, claim], config, hours_per_window=100)
    period = Period(*(datetime.fromtimestamp(whole[key], UTC) for key in ("start", "end")))
    pipeline.attribute(config, store, period)
    return config, store, period


@pytest.fixture
def copied(everything: Stored, tmp_path: Path) -> Stored:
    """A copy of the store that a test may change."""
    config, store, period = everything
    return config, Store(Path(copyfile(store.path, tmp_path / "gpucost.duckdb"))), period


@pytest.fixture(scope="module")
def found(everything: Stored) -> Waste:
    return anatomy(*everything, "cluster")


def hours(found: Waste, name: str) -> dict[str, float]:
    return {
        row.bucket: row.gpu_hours
        for row in found.rows
        if row.keys["cluster"] == name and (row.gpu_hours or row.cost)
    }


@pytest.mark.parametrize("case", table(BUCKETS), ids=lambda case: case["fleet"])
def test_each_fleet_has_its_bucket(case: dict[str, str], found: Waste) -> None:
    name, times = case["fleet"], [part.split() for part in case["buckets"].split(", ")]
    expected = {bucket: float(time) for bucket, time in times}
    assert hours(found, name) == pytest.approx(expected, abs=1e-6)
    rate = Decimal(8) if name == "fragmentation_of_slices" else PRICE
    cost = {row.bucket: row.cost for row in found.rows if row.cost and row.keys["cluster"] == name}
    assert cost == pytest.approx(
        {bucket: Decimal(str(time)) * rate for bucket, time in expected.items()}, abs=Decimal("1e-6")
    )


def test_buckets_add_up_to_cost_and_time(everything: Stored) -> None:
    check_waste(*everything)


def test_configured_limits_apply(everything: Stored) -> None:
    config, store, period = everything
    limits = config.model_copy(
        update={"waste": WasteSettings(forgotten_after="2h", empty_after="1d", target_utilization=1.0)}
    )
    found = anatomy(limits, store, period, "cluster")
    assert hours(found, "short limits") == {"user_away": 2.0, "forgotten": 8.0}
    assert hours(found, "short limits of a node") == {"between_jobs": 4.0}


def test_pods_just_outside_the_period_count(copied: Stored) -> None:
    """Half an hour between two pods is not an empty node, even if one of the pods is outside the period."""
    config, store, _ = copied
    found = {}
    for edge, span in (("just before", (2.25, 4)), ("just after", (0, 2.25))):
        period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in span))
        pipeline.attribute(config, store, period)
        free = hours(anatomy(config, store, period, "cluster"), "between_jobs")
        found[edge] = (free.get("between_jobs"), free.get("empty_node"))
    assert found == dict.fromkeys(("just before", "just after"), (pytest.approx(0.25, abs=1e-6), None))


def test_work_is_lost_since_the_last_known_epoch(copied: Stored) -> None:
    _, store, _ = copied
    # Failed at 04:00, its last epoch ended at 03:00
    failed = counter("epoch", "p-0")._replace(cluster="failed_restarted")
    # Failed at 06:00, its last epoch ended at 05:00; another pod shared its GPU from 02:00 to 03:00: it is one pod
    claims = counter("epoch", "p-0")._replace(cluster="claims")
    # the first rank counts epochs for the others
    ranks = counter("epoch", "p-0")._replace(cluster="ranks")
    series = [
        (failed, [(0.5, 0), (1, 1), (3, 2), (3.9, 2)]), (claims, [(0.5, 0), (1, 1), (5, 2), (5.9, 2)]),
        (ranks, [(0.1, 0), (1, 1), (3, 2), (3.9, 2)]),
    ]  # fmt: skip
    put(store, series, 40)
    found = anatomy(*copied, "cluster")
    assert hours(found, "failed_restarted") == {"active": 3.0, "failed_restarted": 1.0}
    assert hours(found, "claims")["failed_restarted"] == 1.0
    ranks = {"active": 7.0, "failed_restarted": 1.0, "between_jobs": 8.0}
    assert hours(found, "ranks") == ranks
    # but a rank's own counter has priority
    own = counter("epoch", "p-1")._replace(cluster="ranks")
    put(store, [(own, [(0.1, 0), (1, 1), (3.9, 1)])], 40, source="other")
    better = ranks | {"active": 5.0, "failed_restarted": 3.0}
    assert hours(anatomy(*copied, "cluster"), "ranks") == better
    check_waste(*copied)


def test_first_log_entry_is_a_completed_epoch(copied: Stored, tmp_path: Path) -> None:
    config, store, _ = copied
    path = tmp_path / "epochs.csv"
    path.write_text(f"workload,cluster,pod,time,unit,value\n,failed_restarted,p-0,{at(2)},epoch,0\n")
    import_files(store, [path], config.tz)
    assert hours(anatomy(*copied, "cluster"), "failed_restarted") == {"active": 2.0, "failed_restarted": 2.0}


def test_never_used_gpus_of_a_pod_are_counted(everything: Stored) -> None:
    config, store, period = everything
    with store.read() as con:
        built = waste.build(con, config, Query(period, str(period), clusters=("wide",)))
    works = {work.namespace: work for work in built.workloads}
    wide, narrow = works["train"], works["other"]
    names = "gpus_requested gpus_measured gpus_never_used"
    # the only GPU of a pod is not one too many, even if idle
    assert [figures(work, names) for work in (wide, narrow)] == ["3 3 1", "1 1 0"]
    assert figures(wide, "workload_type bucket pods") == "training data_stall 1"


def test_command_filters_and_adds_up_to_node_cost(everything: Stored) -> None:
    # the fleet with several namespaces
    where = f"--from 2026-03-10 --to 2026-03-10T04:00Z --cluster named --config {everything[0].path}"
    assert answer(f"waste --workload bert {where}")["totals"]["gpu_hours"] == 4.0
    assert answer(f"waste --namespace labs {where}")["totals"]["cost"] == 4.8
    check_end(f"waste --workload nothing {where}", "1", "no workload 'nothing' held GPUs")
    report, alone = answer(f"report {where}"), answer(f"waste {where}")
    names = "gpu_hours cost wasted_gpu_hours wasted_cost waste_ratio"
    assert figures(alone["totals"], names) == "16 19.2 13 15.6 0.8125"
    assert alone["totals"]["cost"] == report["totals"]["node_cost"]


def test_rows_of_equal_cost_without_a_key_are_last() -> None:
    rows = [WasteRow("idle", {"team": team}, Decimal(1), Decimal(2)) for team in (None, "vision", "ads")]
    assert [row.keys["team"] for row in sorted(rows, key=_most_expensive_first)] == ["ads", "vision", None]
