"""A fleet made by hand for each kind of waste: its hours are there and nowhere else, to the second and the cent."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost import pipeline
from gpucost.cli.app import app
from gpucost.collect.progress.files import import_files
from gpucost.config.model import Config, WasteSettings
from gpucost.periods import Period, time_buckets
from gpucost.questions.waste import anatomy as waste
from gpucost.questions.waste.anatomy import Filters, Waste, WasteRow, _dearest_first
from gpucost.store.connection import Store
from tests.fleets.shares import allocated
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.edits import move
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.waste import anatomy, check_waste
from tests.replay.work import counter, put

A10G, L4 = "g5.xlarge", "g6.12xlarge"  # $1.20 for one GPU, $4.80 for four
PRICE = Decimal("1.20")
TRAIN, SERVE, SLEEP = ["PyTorchJob", "bert"], ["ReplicaSet", "chat-5d8"], ["StatefulSet", "ann-notebook"]


def one(start: float, end: float, owner: list[str], **more: Any) -> dict[str, Any]:
    """A pod on the one GPU of node `a`; what happens to it after is still seen."""
    return pod("p-0", "a", [0], start, end, owner=owner, **more)


def alone(hours: float, *pods: dict[str, Any], util: dict[str, Any] | None = None, **more: Any) -> Fleet:
    """A node of one GPU for so many hours."""
    return fleet(hours, [node("a", A10G, 0, hours, **more)], list(pods), util or {})


def four(hours: float, *pods: dict[str, Any], util: dict[str, Any] | None = None, **more: Any) -> Fleet:
    """A node of four GPUs for so many hours."""
    return fleet(hours, [node("a", L4, 0, hours, **more)], list(pods), util or {})


def replicas(count: int, hours: float) -> list[dict[str, Any]]:
    return [pod(f"chat-5d8-{i}", "a", [i], 0, hours, "web", owner=SERVE, uid=f"c{i}") for i in range(count)]


waiting = pod("big", None, [], 0, 6, "queue", count=4, keep_until=at(6), owner=["Job", "big"])
failed = one(0, 4, TRAIN, end_phase="Failed")
SCRAPED_SELDOM = {"scrape": 300}
SLICES = [{"gi": 7, "profile": "1g.10gb"}, {"gi": 3, "profile": "2g.20gb"}, {"gi": 1, "profile": "3g.40gb"}]

FLEETS: dict[str, tuple[Fleet, dict[str, float]]] = {
    "active": (alone(4, one(0, 4, TRAIN), util=busy("a", [0], 0, 4)), {"active": 4}),
    "data_stall": (alone(4, one(0, 4, TRAIN)), {"data_stall": 4}),
    "data_stall_of_batch": (alone(4, one(0, 4, ["CronJob", "nightly"])), {"data_stall": 4}),
    "failed_restarted": (
        fleet(5, [node("a", A10G, 0, 4)], [failed], busy("a", [0], 0, 4)),
        {"failed_restarted": 4},
    ),
    "failed_while_stalled": (
        fleet(5, [node("a", A10G, 0, 4)], [failed], busy("a", [0], 0, 1)),
        {"failed_restarted": 1, "data_stall": 3},
    ),
    "failed_inference_is_active": (
        fleet(5, [node("a", A10G, 0, 4)], [one(0, 4, SERVE, end_phase="Failed")], busy("a", [0], 0, 4)),
        {"active": 4},
    ),
    "off_peak_idle": (alone(6, one(0, 6, SERVE)), {"off_peak_idle": 6}),
    "off_peak_beside_a_peak": (
        alone(6, one(0, 6, SERVE), util=busy("a", [0], 1, 3, 100)),
        {"active": 2, "off_peak_idle": 4},
    ),
    # four GPUs at 30 % are 1.2 busy; at 70 % each, two do it
    "over_provisioned": (
        four(6, *replicas(4, 6), util=busy("a", [0, 1, 2, 3], 0, 6, 30)),
        {"active": 12, "over_provisioned": 12},
    ),
    # one of four is busy: at 70 % it takes two, of which the other is idle off the peak
    "over_provisioned_idle_first": (
        four(6, *replicas(4, 6), util=busy("a", [0], 0, 6, 100)),
        {"active": 6, "off_peak_idle": 6, "over_provisioned": 12},
    ),
    # the peak needs all four, though for one hour only: nothing is over-provisioned
    "off_peak_of_many": (
        four(6, *replicas(4, 6), util=busy("a", [0, 1, 2, 3], 0, 1, 100)),
        {"active": 4, "off_peak_idle": 20},
    ),
    "user_away": (alone(10, one(0, 10, SLEEP)), {"user_away": 10}),
    "forgotten": (
        alone(40, one(0, 40, SLEEP), util=busy("a", [0], 0, 2)) | SCRAPED_SELDOM,
        {"active": 2, "user_away": 24, "forgotten": 14},
    ),
    "not_forgotten_by_who_comes_back": (
        alone(40, one(0, 40, SLEEP), util={"GPU-a-0": [[at(0), at(2), 50], [at(39), at(40), 50]]})
        | SCRAPED_SELDOM,
        {"active": 3, "user_away": 37},
    ),
    "idle": (alone(4, one(0, 4, ["StatefulSet", "db"])), {"idle": 4}),
    "starting": (alone(6, one(0, 6, TRAIN, **{"from": at(6)})), {"starting": 6}),
    "starting_then_active": (
        alone(6, one(0, 6, SERVE, **{"from": at(2)}), util=busy("a", [0], 2, 6)),
        {"starting": 2, "active": 4},
    ),
    "starting_unmeasured": (
        alone(6, one(0, 6, TRAIN, **{"from": at(2)}), dcgm=False),
        {"starting": 2, "unmeasured": 4},
    ),
    "unmeasured": (alone(4, one(0, 4, TRAIN), dcgm=False), {"unmeasured": 4}),
    "between_jobs": (
        alone(4, one(0, 2, TRAIN), one(2.5, 4, TRAIN, uid="again"), util=busy("a", [0], 0, 4)),
        {"active": 3.5, "between_jobs": 0.5},
    ),
    "between_jobs_beside_one": (
        four(4, one(0, 4, TRAIN), util=busy("a", [0], 0, 4)),
        {"active": 4, "between_jobs": 12},
    ),
    "empty_node": (alone(4), {"empty_node": 4}),
    "unavailable": (alone(4, cordoned=[[at(0), at(4)]]), {"unavailable": 4}),
    "broken": (four(4, allocatable=[[at(0), at(4), 3]]), {"unavailable": 4, "empty_node": 12}),
    # three of four are held and nobody there asks for less than three
    "fragmentation": (
        four(4, pod("t", "a", [0, 1, 2], 0, 4, owner=TRAIN), util=busy("a", [0, 1, 2], 0, 4)),
        {"active": 12, "fragmentation": 4},
    ),
    # two are held, and the only one that waits asks for four
    "fragmentation_for_who_waits": (
        four(
            6, one(0, 6, TRAIN), pod("u", "a", [1], 0, 6, owner=TRAIN), waiting, util=busy("a", [0, 1], 0, 6)
        ),
        {"active": 12, "fragmentation": 12},
    ),
    # slices of 1, 2 and 3 of 7 leave one over, on each of the eight GPUs
    "fragmentation_of_slices": (
        fleet(7, [node("m", "p5.48xlarge", 0, 7, mig={f"GPU-m-{i}": SLICES for i in range(8)})], [], {}),
        {"fragmentation": 8, "empty_node": 48},
    ),
}


def cluster(name: str, described: Fleet) -> Fleet:
    """The fleet under the name of a cluster, beside which others can be in one store."""
    told = {key: [{**one, "cluster": name} for one in described[key]] for key in ("nodes", "pods")}
    return {**described, **told, "cluster_label": True}


LIMITS = {"short limits": alone(10, one(0, 10, SLEEP)), "short limits of a node": alone(4)}
CLAIMS = fleet(
    7,
    [node("a", A10G, 0, 6)],
    [
        pod("p-0", "a", [], 0, 6, count=0, claims=["shared"], owner=TRAIN, end_phase="Failed"),
        pod("q-0", "a", [], 2, 3, count=0, claims=["shared"], owner=TRAIN),
    ],
    busy("a", [0], 0, 6),
)
RANKS = fleet(
    6,
    [node("a", L4, 0, 4)],
    [
        pod("ddp-0", "a", [0], 0, 4, owner=TRAIN),
        pod("ddp-1", "a", [1], 0, 4, owner=TRAIN, end_phase="Failed"),
    ],
    busy("a", [0, 1], 0, 4),
)
WIDE = four(
    4,
    pod("wide", "a", [0, 1, 2], 0, 4, owner=TRAIN),
    pod("narrow", "a", [3], 0, 4, "other", owner=TRAIN),
    util={**busy("a", [0], 0, 4, 80), **busy("a", [1], 0, 2, 40)},
)
NAMED = four(4, one(0, 4, TRAIN), pod("n", "a", [1], 0, 4, "labs", owner=SLEEP), util=busy("a", [0], 0, 3))
OTHERS = LIMITS | {"claims": CLAIMS, "ranks": RANKS, "wide": WIDE, "named": NAMED}
Stored = tuple[Config, Store, Period]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """All these fleets in one attributed store, each as a cluster of its own."""
    folder = tmp_path_factory.mktemp("waste")
    prices = folder / "prices.csv"
    prices.write_text("\n".join([HEADER, *BOOK]) + "\n")
    fleets = [cluster(name, told) for name, (told, _) in FLEETS.items()] + [
        cluster(name, told) for name, told in OTHERS.items()
    ]
    whole = max(fleets, key=lambda told: told["end"])
    config = write_config(whole, folder, prices)
    series = [one for told in fleets for one in move(scrape(told, lean=True), told["nodes"][0]["cluster"])]
    claim = allocated("shared", "gpu-0", pool="a")
    claim.labels["cluster"] = "claims"
    store = load(whole, [*series, claim], config, hours_per_window=100)
    period = Period(*(datetime.fromtimestamp(whole[key], UTC) for key in ("start", "end")))
    pipeline.attribute(config, store, period)
    return config, store, period


@pytest.fixture
def copied(everything: Stored, tmp_path: Path) -> Stored:
    """The same store, to put work into."""
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


@pytest.mark.parametrize("name", FLEETS)
def test_a_fleet_for_each_bucket(name: str, found: Waste) -> None:
    expected = FLEETS[name][1]
    assert hours(found, name) == pytest.approx(expected, abs=1e-6)
    rate = Decimal(8) if name == "fragmentation_of_slices" else PRICE
    cost = {row.bucket: row.cost for row in found.rows if row.cost and row.keys["cluster"] == name}
    assert cost == {
        bucket: pytest.approx(Decimal(str(time)) * rate, abs=Decimal("1e-6"))
        for bucket, time in expected.items()
    }


def test_buckets_add_up_to_all_cost_and_time(everything: Stored) -> None:
    check_waste(*everything)


def test_limits_are_what_the_configuration_says(everything: Stored) -> None:
    config, store, period = everything
    limits = config.model_copy(
        update={"waste": WasteSettings(forgotten_after="2h", empty_after="1d", target_utilization=1.0)}
    )
    found = anatomy(limits, store, period, "cluster")
    assert hours(found, "short limits") == {"user_away": 2.0, "forgotten": 8.0}
    assert hours(found, "short limits of a node") == {"between_jobs": 4.0}


def test_holders_at_the_edge_of_a_period_count(copied: Stored) -> None:
    """Half an hour without a pod is no empty node, though one of those on both sides is not in the period."""
    config, store, _ = copied
    found = {}
    for edge, span in (("just before", (2.25, 4)), ("just after", (0, 2.25))):
        period = Period(*(datetime.fromtimestamp(at(hour), UTC) for hour in span))
        pipeline.attribute(config, store, period)
        free = hours(anatomy(config, store, period, "cluster"), "between_jobs")
        found[edge] = (free.get("between_jobs"), free.get("empty_node"))
    assert found == dict.fromkeys(("just before", "just after"), (pytest.approx(0.25, abs=1e-6), None))


def test_work_is_lost_since_the_last_epoch_that_is_known(copied: Stored) -> None:
    _, store, _ = copied
    with store.write() as con:
        con.execute(
            """INSERT INTO progress_series BY NAME SELECT 1 AS series_id, 1 AS key, 1 AS identity, 's' AS source, 'm' AS mapping,
                'epoch' AS unit, 'counter' AS kind, 'end' AS marks, false AS resumes, false AS is_failure,
                'failed_restarted' AS cluster,
                'train' AS namespace, 'p-0' AS pod, MAP {}::MAP(VARCHAR, VARCHAR) AS labels"""
        )
        for hour, epochs in ((0.5, 0), (1, 1), (3, 2), (3.9, 2)):
            con.execute("INSERT INTO progress_values VALUES (1, $1, $2)", [at(hour) * 1000, epochs])
    # Failed at 06:00, its last epoch ended at 05:00; from 02:00 to 03:00 another held half of its GPU: it is one pod
    claims = counter("epoch", "p-0")._replace(cluster="claims")
    # the first rank counts the epochs of the others
    ranks = counter("epoch", "ddp-0")._replace(cluster="ranks")
    put(
        store,
        [(claims, [(0.5, 0), (1, 1), (5, 2), (5.9, 2)]), (ranks, [(0.1, 0), (1, 1), (3, 2), (3.9, 2)])],
        40,
    )
    found = anatomy(*copied, "cluster")
    assert hours(found, "failed_restarted") == {"active": 3.0, "failed_restarted": 1.0}
    assert hours(found, "claims")["failed_restarted"] == 1.0
    assert hours(found, "ranks") == {"active": 7.0, "failed_restarted": 1.0, "between_jobs": 8.0}
    # a rank that counts for itself knows better
    own = counter("epoch", "ddp-1")._replace(cluster="ranks")
    put(store, [(own, [(0.1, 0), (1, 1), (3.9, 1)])], 40, source="other")
    assert hours(anatomy(*copied, "cluster"), "ranks") == {
        "active": 5.0,
        "failed_restarted": 3.0,
        "between_jobs": 8.0,
    }
    check_waste(*copied)


def test_the_first_entry_of_a_log_is_an_epoch_that_was_done(copied: Stored, tmp_path: Path) -> None:
    config, store, _ = copied
    path = tmp_path / "epochs.csv"
    path.write_text(f"workload,cluster,pod,time,unit,value\n,failed_restarted,p-0,{at(2)},epoch,0\n")
    import_files(store, [path], config.tz)
    assert hours(anatomy(*copied, "cluster"), "failed_restarted") == {"active": 2.0, "failed_restarted": 2.0}


def test_gpus_that_a_pod_of_several_never_used(everything: Stored) -> None:
    config, store, period = everything
    with store.read() as con:
        told = waste.build(
            con, config, period, time_buckets(period, config.tz, ()), (), Filters(clusters=("wide",))
        )
    works = {work.namespace: work for work in told.workloads}
    wide, narrow = works["train"], works["other"]
    assert (wide.gpus_requested, wide.gpus_measured, wide.gpus_never_used) == (3, 3, 1)
    # a single GPU that idled is no GPU too many
    assert (narrow.gpus_requested, narrow.gpus_measured, narrow.gpus_never_used) == (1, 1, 0)
    assert (narrow.utilization_p50, narrow.utilization_p95) == (0.0, 0.0)
    assert wide.utilization_p95 == pytest.approx(0.8)
    assert wide.memory_mib_p95 is None
    assert (wide.workload_type, wide.bucket, wide.pods) == ("training", "data_stall", 1)


def test_filters_and_dimensions(everything: Stored) -> None:
    config, store, period = everything
    by = ("workload_type", "namespace")
    with store.read() as con:
        by_type = waste.build(
            con, config, period, time_buckets(period, config.tz, by), by, Filters(clusters=("named",))
        )
    assert {
        (row.bucket, row.keys["workload_type"], row.keys["namespace"], row.gpu_hours) for row in by_type.rows
    } == {
        ("active", "training", "train", 3.0),
        ("data_stall", "training", "train", 1.0),
        ("user_away", "development", "labs", 4.0),
        ("between_jobs", None, None, 8.0),
    }
    assert by_type.totals.wasted_gpu_hours == 13.0 and by_type.totals.wasted_cost == 13 * PRICE


def run(stored: Stored, *words: str) -> Any:
    """A command, asked of the fleet of several namespaces."""
    path = stored[0].path
    span = ("--from", "2026-03-10", "--to", "2026-03-10T04:00Z", "--cluster", "named")
    return CliRunner().invoke(app, [*words, *span, "--config", str(path)])


def told(stored: Stored, *words: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run(stored, *words, "--format", "json").stdout)
    return answer


def test_the_command_filters(everything: Stored) -> None:
    assert told(everything, "waste", "--workload", "bert")["totals"]["gpu_hours"] == 4.0
    wrong = run(everything, "waste", "--workload", "nothing")
    assert wrong.exit_code == 1 and "no workload 'nothing' held GPUs" in wrong.stderr, wrong.output
    assert "name one that did: " in wrong.stderr
    rows = csv.DictReader(
        io.StringIO(run(everything, "waste", "--by", "namespace", "--format", "csv").stdout)
    )
    assert {(row["bucket"], row["namespace"], float(row["cost"])) for row in rows} == {
        ("active", "train", 3.6), ("data_stall", "train", 1.2), ("user_away", "labs", 4.8), ("between_jobs", "", 9.6)
    }  # fmt: skip


@pytest.mark.slow
def test_the_command_filters_by_namespace_and_team(everything: Stored) -> None:
    assert told(everything, "waste", "--namespace", "labs")["totals"]["cost"] == 4.8
    assert "no team 'nobody' held GPUs" in run(everything, "waste", "--team", "nobody").stderr


def test_a_report_with_waste(everything: Stored) -> None:
    report, waste_alone = told(everything, "report", "--waste"), told(everything, "waste")
    assert waste_alone["totals"] == {
        "gpu_hours": 16.0, "cost": 19.2, "wasted_gpu_hours": 13.0, "wasted_cost": 15.6, "waste_ratio": 0.8125,
    }  # fmt: skip
    assert (report["schema"], waste_alone["schema"]) == ("gpucost.report/1", "gpucost.waste/1")
    assert report["waste"] == {
        key: waste_alone[key] for key in ("by", "buckets", "rows", "totals", "workloads")
    }
    assert report["waste"]["totals"]["cost"] == report["totals"]["node_cost"]


def test_of_rows_that_cost_the_same_those_without_a_key_are_last() -> None:
    rows = [WasteRow("idle", {"team": team}, Decimal(1), Decimal(2)) for team in (None, "vision", "ads")]
    assert [row.keys["team"] for row in sorted(rows, key=_dearest_first)] == ["ads", "vision", None]
