"""Slurm's accounting in the ledger: every way to tell it, what jobs hold where, and what it costs."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.slurm.live import Commands
from gpucost.collect.slurm.sacct import Notes, SacctFormat, expand_nodes, read_sacct
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.doctor import OK, check_slurm
from gpucost.errors import DataError
from tests.property.fleets import many
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.edits import move, relabel
from tests.replay.load import load
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.shared import shared

FIELDS = [
    "JobID", "JobIDRaw", "JobName", "Cluster", "Account", "User", "Partition", "QOS", "State", "Submit", "Start", "End",
    "ElapsedRaw", "NodeList", "AllocTRES",
]  # fmt: skip
T = 1_773_100_800  # 2026-03-10T00:00Z
NODES = (
    "NodeName=n1 Gres=gpu:a100:4 Partitions=gpu,debug State=IDLE\n"
    "NodeName=n2 Gres=gpu:a100:2,gpu:v100:2 Partitions=gpu State=IDLE\n"
)


def tres(gpus: float, kind: str = "") -> str:
    typed = f"gres/gpu:{kind}={gpus:g}," if kind else ""
    return f"cpu=1,{typed}gres/gpu={gpus:g},node=1"


def job(number: int, start: int, end: int | None, nodes: str, held: str, **more: Any) -> dict[str, Any]:
    """A run of a job, in seconds after T; it still runs at second 7200 where `end` is None."""
    state = "RUNNING" if end is None else "COMPLETED"
    facts = {
        "JobID": number, "JobIDRaw": number, "JobName": f"job-{number}", "Cluster": "hpc", "Account": "nlp", "User": "ann",
        "Partition": "gpu", "QOS": "normal", "State": state, "Submit": T + start, "Start": T + start,
        "End": "Unknown" if end is None else T + end, "ElapsedRaw": (7200 if end is None else end) - start, "NodeList": nodes,
        "AllocTRES": held,
    }  # fmt: skip
    return facts | more


def text(jobs: list[dict[str, Any]], mark: str = "|", end: str = "\n") -> str:
    return end.join([mark.join(FIELDS), *(mark.join(str(one[name]) for name in FIELDS) for one in jobs)]) + end


class Cluster:
    """A folder with a store, into which files are loaded."""

    def __init__(self, folder: Path, book: str = "") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        header = "provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start,node_selector,per"
        (folder / "prices.csv").write_text(f"{header}\n{book or ',,,,on_demand,3.6,USD,,,gpu'}\n")
        (folder / "gpucost.toml").write_text('[prices]\nbook = "prices.csv"\n')

    def run(self, *words: str, code: int = 0) -> Any:
        result = CliRunner().invoke(app, [*words, "--config", str(self.folder / "gpucost.toml")])
        assert result.exit_code == code, result.output
        return result

    def load(self, *texts: str, more: tuple[str, ...] = ()) -> Any:
        paths = []
        for number, content in enumerate(texts):
            path = self.folder / f"told-{number}.txt"
            path.write_text(content, encoding="utf-8")
            paths.append(str(path))
        return self.run("collect", "slurm", *paths, *more)

    def rows(self, by: str, start: str = "2026-03-10", end: str = "2026-03-12") -> list[dict[str, Any]]:
        answer = json.loads(self.run("report", "--from", start, "--to", end, "--by", by, "--format", "json").stdout)
        self.totals, self.coverage = answer["totals"], answer["coverage"]
        rows: list[dict[str, Any]] = answer["rows"]
        return rows

    def held(self, by: str, start: str = "2026-03-10", end: str = "2026-03-12") -> dict[Any, float]:
        """GPU-seconds by a dimension."""
        held = [row for row in self.rows(by, start, end) if row["kind"] == "allocated"]
        return {row[by]: round(row["allocated_gpu_hours"] * 3600, 3) for row in held}


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_jobs_hold_what_they_were_allocated_and_cost_their_nodes_price(cluster: Cluster) -> None:
    """Two hours of n1 and n2: 8 GPUs at $3.60; 4 of them for an hour, 2 for half of one."""
    jobs = [job(1, 0, 3600, "n1", tres(4, "a100")), job(2, 0, 1800, "n2", tres(2, "v100"), Account="cv", User="bob", QOS="high")]
    said = cluster.load(text([*jobs, job(3, 0, 7200, "n1", "cpu=1,node=1")]), NODES)
    assert "3 runs of jobs of hpc" in said.stdout and "2 nodes" in said.stdout
    assert cluster.held("namespace") == {"nlp": 4 * 3600, "cv": 2 * 1800}
    assert cluster.held("user") == {"ann": 4 * 3600, "bob": 2 * 1800} and cluster.held("partition") == {"gpu": 5 * 3600}
    assert cluster.held("qos") == {"normal": 4 * 3600, "high": 2 * 1800}
    assert cluster.held("workload") == {"Job/job-1": 4 * 3600, "Job/job-2": 2 * 1800}
    assert cluster.held("gpu_model") == {"A100-SXM4-40GB": 4 * 3600, "V100-SXM2-16GB": 2 * 1800}
    assert cluster.held("node") == {"n1": 4 * 3600, "n2": 2 * 1800}
    assert cluster.totals["capacity_gpu_hours"] == pytest.approx(16)
    assert cluster.totals["node_cost"] == pytest.approx(16 * 3.6)
    assert cluster.totals["cost"] == pytest.approx(5 * 3.6) and cluster.totals["unallocated_cost"] == pytest.approx(11 * 3.6)


BARE = "cpu=1,mem=800G,node=1"
DAY = 86_400


@pytest.mark.parametrize(
    ("jobs", "capacity", "lost"),
    [
        # no job names GPUs, whatever it holds: Slurm's default
        ([job(1, 0, DAY, "n1", BARE), job(2, 3600, 7200, "n2", BARE)], 0, (0, 24)),
        # tracked from noon on; a job that waits for GPUs proves that they are tracked; so does a typed count
        ([job(1, 0, DAY // 2, "n1", BARE), job(2, DAY // 2, DAY, "n1", tres(4))], 12 * 8, (0, 12)),
        ([job(1, 0, DAY // 2, "n2", BARE), job(2, DAY // 2, DAY, "n1", "cpu=1,gres/gpu:a100=4,node=1")], 12 * 8, (0, 12)),
        ([job(1, 0, DAY, "n1", BARE), job(2, 0, None, "", "", State="PENDING", Start="Unknown", ElapsedRaw=0)], 24 * 8, None),
        # no longer tracked after an hour, for four days
        ([job(1, 0, 3600, "n1", tres(4)), job(2, 7200, 4 * DAY, "n1", BARE)], 8, (1, 96)),
        # nor for four days between jobs that name them
        (
            [job(1, 0, DAY, "n1", tres(4)), job(2, DAY, 5 * DAY, "n1", BARE), job(3, 5 * DAY, 6 * DAY, "n1", tres(4))],
            48 * 8,
            (24, 120),
        ),
        # an hour of a job without GPUs, before the first that names them and after the last
        ([job(1, 0, 3600, "n1", BARE), job(2, DAY, 2 * DAY, "n1", tres(4))], 48 * 8, None),
        ([job(1, 0, DAY, "n1", tres(4)), job(2, 4 * DAY - 3600, 4 * DAY, "n1", BARE)], 96 * 8, None),
        # jobs without GPUs among others, and after the last for a day
        ([job(1, 0, DAY, "n1", BARE), job(2, 10, 3600, "n1", tres(4)), job(3, 7200, DAY, "n2", BARE)], 24 * 8, None),
        # jobs on nodes without GPUs, and none at all
        ([job(1, 0, DAY, "c1", BARE)], 24 * 8, None),
        ([], 24 * 8, None),
    ],
    ids=[
        "never",
        "from noon on",
        "typed",
        "waiting",
        "until one",
        "between",
        "before",
        "after",
        "among others",
        "other nodes",
        "no job",
    ],
)
def test_gpus_that_slurm_does_not_track_are_not_collected(
    cluster: Cluster, jobs: list[dict[str, Any]], capacity: float, lost: tuple[int, int] | None
) -> None:
    """A job that waits asks for GPUs. Nothing is unallocated, and nothing costs, where accounting names no GPUs of any job."""
    header = "|".join([*FIELDS, "ReqTRES"])
    lines = ["|".join(str(one[name]) for name in FIELDS) + f"|{one['AllocTRES'] or tres(8)}" for one in jobs]
    days = max([1, *((one["End"] - T) // DAY for one in jobs if one["State"] == "COMPLETED")])
    end = f"2026-03-{10 + days}"
    cluster.load(
        "\n".join([header, *lines, ""]), NODES + "NodeName=c1 Gres=(null) Partitions=cpu\n",
        more=("--from", "2026-03-10", "--to", end, "--cluster", "hpc"),
    )  # fmt: skip
    held = sum(cluster.held("pod", end=end).values()) / 3600
    assert cluster.totals["capacity_gpu_hours"] == pytest.approx(capacity)
    assert cluster.totals["unallocated_gpu_hours"] == pytest.approx(capacity - held)
    assert cluster.totals["node_cost"] == pytest.approx(capacity * 3.6)
    gaps = [(gap["from"], gap["hours"], gap["families"]) for gap in cluster.coverage["not_collected"]]
    start = lost and datetime.fromtimestamp(T + lost[0] * 3600, UTC)
    assert gaps == ([(f"{start:%Y-%m-%dT%H:%M:%SZ}", lost[1] - lost[0], ["gres/gpu"])] if lost and start else [])
    warned = [w for w in cluster.coverage["warnings"] if "AccountingStorageTRES" in w["message"]]
    assert [w["fix"] for w in warned] == ["add gres/gpu to AccountingStorageTRES in slurm.conf"] * bool(lost)


def test_jobs_that_never_ended_in_accounting_are_named(cluster: Cluster) -> None:
    """Job 10 has run on n1's four GPUs for ever; since the second hour jobs 2 and 3 have them. Job 3 itself runs on."""
    jobs = [job(10, 0, None, "n1", tres(4)), job(2, 3600, 5400, "n1", tres(4)), job(3, 5400, None, "n1", tres(4))]
    cluster.load(text([*jobs, job(4, 0, None, "n2", tres(1))]), NODES)
    assert cluster.held("pod") == {"10": 4 * 7200, "2": 4 * 1800, "3": 4 * 1800, "4": 7200}
    (warned,) = (one for one in cluster.coverage["warnings"] if one["code"] == "over_allocated")
    assert warned["message"].startswith("jobs held more GPUs than node n1 has") and "accounting: job 10" in warned["message"]
    assert warned["message"].endswith("job 10") and "sacctmgr show runawayjobs" in warned["fix"]


def test_a_price_of_a_whole_machine_is_split_over_its_models(tmp_path: Path) -> None:
    """n2 costs $8: half of it are its two V100. A selector names one of several partitions."""
    book = ",,,,on_demand,10,USD,,partition=debug,node\n,,,,on_demand,8,USD,,node=n2,node"
    cluster = Cluster(tmp_path, book)
    cluster.load(text([job(1, 0, 3600, "n2", tres(2, "v100")), job(2, 0, 3600, "n1", tres(1))]), NODES)
    assert {row["node"]: row["cost"] for row in cluster.rows("node") if row["kind"] == "allocated"} == {"n2": 4.0, "n1": 2.5}
    assert cluster.totals["node_cost"] == pytest.approx(18) and cluster.coverage["warnings"][0]["code"] == "not_collected"


@pytest.mark.parametrize("batch", [True, False])
def test_what_lay_on_which_node_the_batch_step_says_else_it_is_even(cluster: Cluster, batch: bool) -> None:
    """5 GPUs on two nodes: 4 on the first, or two and a half on each."""
    jobs = [job(1, 0, 3600, "n[1-2]", tres(5, "a100"))]
    step = jobs[0] | {"JobID": "1.batch", "JobIDRaw": "1.batch", "NodeList": "n1", "AllocTRES": tres(4, "a100")}
    wide = jobs[0] | {"JobID": "1.0", "JobIDRaw": "1.0", "AllocTRES": tres(5, "a100")}
    cluster.load(text([*jobs, *([step, wide] if batch else [])]), NODES)
    assert cluster.held("node") == ({"n1": 4 * 3600, "n2": 3600} if batch else {"n1": 2.5 * 3600, "n2": 2.5 * 3600})
    # steps are never added to their jobs
    assert sum(cluster.held("pod").values()) == 5 * 3600
    codes = {warning["code"] for warning in cluster.coverage["warnings"]}
    assert ("slurm_even_placement" in codes) == (not batch)


def test_a_later_answer_restates_in_whichever_order(tmp_path: Path) -> None:
    """A job that ran, and one that waited, at the first pull; a requeued job has two runs."""
    first = [
        job(1, 0, None, "n1", tres(1)),
        job(2, 0, None, "", "", State="PENDING", Start="Unknown", ElapsedRaw=0),
        job(3, 0, 600, "n1", tres(1), State="REQUEUED"),
    ]
    later = [
        job(1, 0, 9000, "n1", tres(1), State="TIMEOUT"),
        job(2, 7500, 8000, "n1", tres(2), Submit=T),
        first[2],
        job(3, 900, 1200, "n1", tres(1)),
    ]
    figures = []
    for number, order in enumerate(((first, later), (later, first), (later, later))):
        cluster = Cluster(tmp_path / str(number))
        for jobs in order:
            said = cluster.load(text(jobs), NODES)
        assert "nothing is new" in said.stdout or order[0] is first
        figures.append(cluster.held("pod"))
    assert figures[0] == figures[1] == figures[2] == {"1": 9000, "2": 1000, "3": 900}


def test_requeued_jobs_without_their_earlier_runs_are_named(tmp_path: Path) -> None:
    """Without `-D` the last run alone: submitted anew, after jobs of larger numbers, or two minutes before it may begin."""
    jobs = [
        job(1, 0, 7000, "n1", tres(1)),
        job(2, 1000, 1200, "n1", tres(1), State="REQUEUED"),
        job(2, 1400, 1800, "n1", tres(1), Submit=T + 1200, Eligible=T + 1321),
        job(3, 300, 400, "n2", tres(1), Submit=T + 100, State="PREEMPTED"),
        job(3, 2000, 3000, "n2", tres(1), Submit=T + 400),
        job(4, 360, 500, "n2", tres(1), Submit=T + 350),
        # it was to begin two minutes later
        job(5, 620, 700, "n2", tres(1), Submit=T + 500, Eligible=T + 620),
    ]
    jobs = [{"Eligible": one["Submit"]} | one for one in jobs]
    for name, told, number in (("all", jobs, 0), ("last", [one for one in jobs if one["State"] == "COMPLETED"], 2)):
        cluster = Cluster(tmp_path / name)
        lines = ["|".join([*FIELDS, "Eligible"]), *("|".join(str(one[field]) for field in (*FIELDS, "Eligible")) for one in told)]
        cluster.load("\n".join(lines) + "\n", NODES)
        cluster.rows("pod")
        hidden = [warning for warning in cluster.coverage["warnings"] if warning["code"] == "slurm_requeues_hidden"]
        assert [warning["message"].startswith(f"{number} jobs of hpc were requeued") for warning in hidden] == [True] * bool(
            number
        )
        assert all("-D" in warning["fix"] for warning in hidden)


@pytest.mark.shared
@pytest.mark.parametrize(("name", "hidden"), [("final_dup_alloc.psv", 0), ("final_nodup_alloc.psv", 1)])
def test_real_answer_without_duplicates_names_its_requeued_jobs(cluster: Cluster, name: str, hidden: int) -> None:
    """Jobs 13 (requeued) and 14 (preempted) of a real cluster: 42 of 409 GPU-seconds are missing."""
    cluster.run("collect", "slurm", str(shared(f"slurm/sacct/{name}")), str(shared("slurm/sacct/nodes.txt")))
    held = cluster.held("cluster", "2026-11-22", "2026-11-23")
    assert held == {"testcluster": 367 if hidden else 409}
    messages = [w["message"] for w in cluster.coverage["warnings"] if w["code"] == "slurm_requeues_hidden"]
    assert [message.split(" were")[0] for message in messages] == ["2 jobs of testcluster"] * hidden


def test_what_was_cut_to_the_time_asked_for_gives_way_to_the_whole(tmp_path: Path) -> None:
    """`sacct --truncate` tells the part of a run that lies in the time asked for, and ends what still ran with it."""
    cut = [job(1, 600, 1200, "n1", tres(1), Submit=T, State="RUNNING"), job(2, 600, 1200, "n1", tres(2), Submit=T)]
    whole = [job(1, 0, 3600, "n1", tres(1)), job(2, 0, 1800, "n1", tres(2))]
    for number, order in enumerate(((cut,), (cut, whole), (whole, cut))):
        cluster = Cluster(tmp_path / str(number))
        for jobs in order:
            cluster.load(text(jobs), NODES)
        assert cluster.held("pod") == ({"1": 3600, "2": 3600} if number else {"1": 600, "2": 1200})


def test_a_job_that_runs_holds_until_it_was_seen_last(cluster: Cluster) -> None:
    cluster.load(text([job(1, 0, None, "n1", tres(2))]), NODES)
    assert cluster.held("pod") == {"1": 2 * 7200}


def test_suspended_time_is_held(cluster: Cluster) -> None:
    """Of ten minutes, over or not, a job ran for six: Slurm's Elapsed leaves out what it was suspended for."""
    jobs = [job(1, 0, 600, "n1", tres(1), ElapsedRaw=360), job(2, 0, None, "n1", tres(1), ElapsedRaw=360, State="SUSPENDED")]
    told = text(jobs).replace("AllocTRES\n", "AllocTRES|Suspended\n").replace("node=1\n", "node=1|00:04:00\n")
    cluster.load(told, NODES)
    assert cluster.held("pod") == {"1": 600, "2": 600}


@pytest.mark.parametrize(
    ("gres", "held", "gpus"),
    [
        ("gpu:a100:4,shard:16", "cpu=1,gres/shard=4", 1.0),
        ("gpu:a100:2,mps:200", "cpu=1,gres/mps=50", 0.5),
        ("gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:1", "cpu=1,gres/gpu:a100_3g.20gb=1,gres/gpu=1", 3 / 7),
        ("gpu:a100:4(S:0-1)", "cpu=1,gres/gpu=3,license/matlab=7", 3.0),
        ("gpu:4", "cpu=1,gres/gpu:a100=2,gres/gpu=2", 2.0),
        # where accounting knows no types, a GPU of a node that is all slices is one of them
        ("gpu:a100_3g.20gb:2", "cpu=1,gres/gpu=1", 3 / 7),
        ("gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2", "cpu=1,gres/gpu=1", 2 / 7),
        ("gpu:a100:4,shard:a100:16", "cpu=1,gres/shard=4", 1.0),
        ("gpu:a100:2,gpu:v100:2,shard:a100:8,shard:v100:8", "cpu=1,gres/shard:v100=4,gres/shard=4", 1.0),
    ],
)
def test_parts_of_gpus_are_their_share(cluster: Cluster, gres: str, held: str, gpus: float) -> None:
    cluster.load(text([job(1, 0, 3600, "n1", held)]), f"NodeName=n1 Gres={gres} Partitions=gpu\n")
    assert cluster.held("pod") == {"1": pytest.approx(gpus * 3600, abs=0.01)}


def test_down_time_and_maintenance_are_unavailable_and_what_is_powered_down_is_no_node(cluster: Cluster) -> None:
    """Of n1's 8 GPU-hours one is down, four are in maintenance; n2 is off for the second hour."""
    events = f"Cluster|NodeName|TimeStart|TimeEnd|State|Reason\nhpc||{T}|Unknown||Cluster Registered TRES\n" + "".join(
        f"hpc|{node}|{T + start}|{T + end}|{state}|why\n"
        for node, start, end, state in (("n1", 0, 900, "DOWN*"), ("n2", 3600, 7200, "IDLE+POWERED_DOWN"))
    )
    reserved = f"ReservationName=m StartTime={T + 3600} EndTime={T + 7200} Nodes=n1 Flags=MAINT,SPEC_NODES Accounts=(null)\n"
    cluster.load(text([job(1, 0, 7200, "n2", tres(1, "a100"))]), NODES, events, reserved)
    cluster.rows("node")
    assert cluster.totals["capacity_gpu_hours"] == pytest.approx(8 + 4)
    assert cluster.totals["unavailable_gpu_hours"] == pytest.approx(1 + 4)


RESERVED = (
    f"ReservationName=exam StartTime={T} EndTime={T + 7200} Nodes=n1 Flags=SPEC_NODES Accounts=cv,nlp,-product Users=(null)\n"
    f"ReservationName=zoo StartTime={T + 3600} EndTime={T + 7200} Nodes=n[1-2] Flags=OVERLAP Accounts=(null) Users=ann\n"
)


def test_what_a_reservation_keeps_free_is_a_row_of_its_own_and_its_accounts_may_pay(cluster: Cluster) -> None:
    """Of n1's 4 GPUs two are held for an hour, and for a quarter of one it was down; zoo gets n2 alone, and names no account."""
    down = f"Cluster|NodeName|TimeStart|TimeEnd|State|Reason\nhpc|n1|{T + 6300}|{T + 7200}|DOWN|why\n"
    jobs = [job(1, 0, 3600, "n1", tres(2, "a100")), job(2, 0, 7200, "n2", tres(1, "v100"))]
    cluster.load(text(jobs), NODES, RESERVED, down)
    assert cluster.held("namespace") == {"nlp": 7200 + 7200}
    rows = cluster.rows("reservation,gpu_model")
    free = {(row["reservation"], row["gpu_model"]): row["unallocated_gpu_hours"] for row in rows if row["kind"] == "unallocated"}
    exam = 2 + 3.0
    models = {name for _, name in free}
    assert len(models) == 2, models
    first, second = sorted(models)
    assert free == {
        ("exam", first): exam, ("zoo", first): 2.0, ("zoo", second): 1.0, (None, first): 1.0 + 2.0, (None, second): 1.0
    }  # fmt: skip
    unpaid = cluster.totals
    assert unpaid["unavailable_gpu_hours"] == pytest.approx(1.0)
    shown = cluster.run("report", "--from", "2026-03-10", "--to", "2026-03-12").stdout
    assert "reservation exam" in shown and "reservation zoo" in shown
    wasted = json.loads(cluster.run("waste", "--from", "2026-03-10", "--to", "2026-03-12", "--format", "json").stdout)
    assert {row["bucket"]: row["gpu_hours"] for row in wasted["buckets"]}["reserved"] == pytest.approx(exam + 3)

    with (cluster.folder / "gpucost.toml").open("a") as config:
        config.write("[slurm]\ncharge_reservations = true\n")
    assert cluster.held("namespace") == {"nlp": 14400 + exam * 1800, "cv": exam * 1800}
    assert cluster.totals["idle_gpu_hours"] == pytest.approx(exam)
    assert cluster.totals["node_cost"] == unpaid["node_cost"]
    assert cluster.totals["unallocated_gpu_hours"] == pytest.approx(unpaid["unallocated_gpu_hours"] - exam)
    assert cluster.held("workload")["Reservation/exam"] == exam * 3600
    wasted = json.loads(cluster.run("waste", "--from", "2026-03-10", "--to", "2026-03-12", "--format", "json").stdout)
    assert {row["bucket"]: row["gpu_hours"] for row in wasted["buckets"]}["reserved"] == pytest.approx(exam + 3)


def test_what_gpus_did_for_a_job_dcgm_exporter_says_by_its_number(cluster: Cluster) -> None:
    """Two of n1's GPUs are known to be job 1's: one is busy for an hour, one idle. Job 2 has all of n2, whatever labels say."""
    described = fleet(2, [{"cluster": "hpc", "name": "n1"}], [], {})
    ticks = np.arange(T, T + 7200, 60, dtype=np.int64) * 1000
    own = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm", "cluster": "hpc"}
    series = [
        Series(
            {**own, "Hostname": "n1", "UUID": f"GPU-{gpu}", **label},
            ticks,
            np.full(len(ticks), float(busy)),
        )
        for gpu, busy, label in ((0, 90, {"hpc_job": "1"}), (1, 0, {"hpc_job": "1"}), (2, 50, {}), (3, 0, {}))
    ]
    series += [Series({**own, "Hostname": "n2", "UUID": f"GPU-{gpu}"}, ticks, np.full(len(ticks), 80.0)) for gpu in "ab"]
    load(described, series, load_config(cluster.folder / "gpucost.toml", environ={}, cwd=cluster.folder))
    whole = "NodeName=n2 Gres=gpu:a100:2 Partitions=gpu\n"
    jobs = [job(1, 0, 3600, "n1", tres(2, "a100")), job(2, 3600, 7200, "n2", tres(2, "a100"))]
    cluster.load(text(jobs), NODES.partition("\n")[0] + "\n" + whole)
    figures = {
        row["pod"]: [round(row[f"{kind}_gpu_hours"], 2) for kind in ("active", "idle", "unmeasured")]
        for row in cluster.rows("pod")
        if row["kind"] == "allocated"
    }
    assert figures == {"1": [1, 1, 0], "2": [2, 0, 0]}


@pytest.mark.parametrize("answer", ["text", "oneliner", "json"])
def test_which_gpus_a_job_has_scontrol_says_while_it_runs(cluster: Cluster, answer: str) -> None:
    """Of n2's two A100 and two V100 the first of each is busy: job 1 has the two A100, job 2 the idle V100."""
    described = fleet(2, [{"cluster": "hpc", "name": "n2"}], [], {})
    ticks = np.arange(T, T + 7200, 60, dtype=np.int64) * 1000
    own = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm", "cluster": "hpc", "Hostname": "n2"}
    series = [
        Series({**own, "UUID": f"GPU-{gpu}", "gpu": str(gpu)}, ticks, np.full(len(ticks), float(busy)))
        for gpu, busy in enumerate((90, 0, 70, 0))
    ]
    load(described, series, load_config(cluster.folder / "gpucost.toml", environ={}, cwd=cluster.folder))
    held = {1: "gpu:a100:2(IDX:0-1)", 2: "gpu:v100:1(IDX:3)"}
    if answer == "json":
        told = [
            {"accrue_time": 0, "job_id": n, "submit_time": T, "nodes": "n2", "gres_detail": [gres]} for n, gres in held.items()
        ]
        shown = json.dumps({"meta": {}, "jobs": told})
    else:
        lines = (
            f"JobId={n} JobName=a=b\n   SubmitTime={T} StartTime={T}\n   NodeList=n2 NumNodes=1\n"
            f"   TRES=cpu=1,gres/gpu=1\n     Nodes=n2 CPU_IDs=0-3 Mem=100 GRES={gres}\n   Power=\n"
            for n, gres in held.items()
        )
        shown = "".join(line.replace("\n  ", "") + "\n" if answer == "oneliner" else line + "\n" for line in lines)
    jobs = [job(1, 0, 3600, "n2", tres(2, "a100")), job(2, 0, 7200, "n2", tres(1, "v100"))]
    assert "nodes of jobs" in cluster.load(text(jobs), NODES, shown).stdout
    figures = {
        row["pod"]: [round(row[f"{kind}_gpu_hours"], 2) for kind in ("active", "idle", "unmeasured")]
        for row in cluster.rows("pod")
        if row["kind"] == "allocated"
    }
    assert figures == {"1": [1, 1, 0], "2": [0, 2, 0]}


@pytest.mark.parametrize(
    ("total", "average", "mean"),
    [(100, 100, 0.5), (150, 150, 0.75), (None, 40, 0.4), (None, 150, 0.75), (4, 4, 0.02), (900, 900, 1.0), (None, None, None)],
)
def test_gpuutil_of_its_steps_is_a_jobs_mean(
    cluster: Cluster, total: float | None, average: float | None, mean: float | None
) -> None:
    """Two GPUs for two hours, a step on both in the second hour, and one beside it of a shell that keeps none busy."""

    def usage(value: float | None) -> str:
        return "" if value is None else f"cpu=00:01:00,gres/gpumem=9M,gres/gpuutil={value},mem=1M"

    fields = [*FIELDS, "TRESUsageInTot", "TRESUsageInAve"]
    held = tres(2, "a100")
    whole = job(1, 0, 7200, "n1", held) | {"TRESUsageInTot": "", "TRESUsageInAve": ""}
    none = usage(None if mean is None else 0)
    batch = whole | {"JobID": "1.batch", "JobIDRaw": "1.batch", "TRESUsageInTot": none, "TRESUsageInAve": none}
    step = job(1, 3600, 7200, "n1", held) | {
        "JobID": "1.0", "JobIDRaw": "1.0", "TRESUsageInTot": usage(total), "TRESUsageInAve": usage(average)
    }  # fmt: skip
    rows = [fields, *([one[name] for name in fields] for one in (whole, batch, step))]
    cluster.load("".join("|".join(map(str, row)) + "\n" for row in rows), NODES)
    (row,) = (row for row in cluster.rows("workload") if row["kind"] == "allocated")
    assert row["measured_ratio"] == (0 if mean is None else 1)
    if mean is not None:
        assert row["avg_utilization"] == pytest.approx(mean / 2)
        assert row["idle_gpu_hours"] == (4 if mean / 2 < 0.05 else 0)
        assert row["idle_cost"] == (row["cost"] if mean / 2 < 0.05 else 0)


def test_figures_of_plugins_that_cannot_measure_are_none(cluster: Cluster) -> None:
    """A job of an hour on each model: its batch step's gpuutil and gpumem, beside an external step's zeros.

    Zeros count where memory was used, or the same model of GPU was ever measured; "infinite" (all bits set) never does, be it a
    sum, a mean over tasks, or written with a unit; and then zeros of the shell beside it are no measurement either.
    """
    all_bits = 2**64 - 1
    cases = {
        "a100": [("90", "40G", 0.9), ("0", "400M", 0), ("0", "0", 0), (str(all_bits), str(all_bits), None)],
        "mi210": [("0", "0", None)],
        "gh200": [("0", "0", None), ("0", str(all_bits), None)],
        "h200": [("0", "1M", 0)],
        "a40": [(str(all_bits), "0", None), ("16777216T", "16E", None), (str(all_bits // 4), "0", None)],
        "v100": [("0.01K", "1G", 0.1024)],
    }
    fields = [*FIELDS, "TRESUsageInTot", "TRESUsageInAve"]
    rows, nodes, expected = [fields], "", {}
    for name, listed in cases.items():
        nodes += f"NodeName={name} Gres=gpu:{name}:8 Partitions=gpu\n"
        for util, memory, mean in listed:
            number = len(expected) + 1
            expected[str(number)] = mean
            whole = job(number, 0, 3600, name, tres(1, name)) | {"TRESUsageInTot": "", "TRESUsageInAve": ""}
            for step, usage in (("", ""), (".batch", (util, memory)), (".extern", ("0", "0"))):
                shown = f"cpu=1,gres/gpumem={usage[1]},gres/gpuutil={usage[0]},mem=1M" if usage else ""
                own = {
                    "JobID": f"{number}{step}",
                    "JobIDRaw": f"{number}{step}",
                    "TRESUsageInTot": shown,
                    "TRESUsageInAve": shown,
                }
                rows.append([(whole | own)[field] for field in fields])
    cluster.load("".join("|".join(map(str, row)) + "\n" for row in rows), nodes)
    held = [row for row in cluster.rows("pod") if row["kind"] == "allocated"]
    means = {row["pod"]: row["avg_utilization"] and round(row["avg_utilization"], 6) for row in held}
    assert means == expected
    assert {row["pod"] for row in held if row["measured_ratio"]} == {pod for pod, mean in expected.items() if mean is not None}


def test_waits_dollars_and_fair_share(cluster: Cluster) -> None:
    """Of two jobs that began one waited 10 minutes and was preempted; sshare's shares stand beside the dollars."""
    shares = (
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare\n"
        "root|||0.000000|100||1.000000|\n nlp||60|0.6|75||0.75|\n  nlp|ann|1|1.0|75||0.75|0.25\n"
    )
    jobs = [
        job(1, 0, 3600, "n1", tres(4, "a100")),
        job(2, 600, 2400, "n1", tres(2), Submit=T, State="PREEMPTED", QOS="low", Partition="debug"),
        job(3, 0, None, "", "", State="PENDING", Start="Unknown", ElapsedRaw=0),
    ]
    cluster.load(text(jobs), NODES, shares, more=("--from", "2026-03-10", "--to", "2026-03-11"))
    words = ("queue", "--from", "2026-03-10", "--to", "2026-03-11")
    answer = json.loads(cluster.run(*words, "--format", "json").stdout)
    waits = {(one["by"], one["name"]): one for one in answer["slurm_waits"]}
    assert set(waits) == {("partition", "gpu"), ("partition", "debug"), ("qos", "normal"), ("qos", "low"), ("account", "nlp")}
    low = waits["qos", "low"]
    assert (low["started"], low["wait_p50_seconds"], low["preempted"]) == (1, 600, 1)
    # n1 is over-allocated for half an hour: six GPUs of four
    assert low["cost"] == low["preempted_cost"] == pytest.approx(3.6 * 0.5 * 4 * 2 / 6)
    assert waits["account", "nlp"]["wait_p95_seconds"] == pytest.approx(570)
    (account, user) = [one for one in answer["slurm_shares"] if one["account"] == "nlp"]
    assert (account["user"], user["user"], user["fair_share"], account["cost_share"]) == (None, "ann", 0.25, 1.0)
    assert account["cost"] == pytest.approx(waits["account", "nlp"]["cost"]) == pytest.approx(3.6 * 4)
    cluster.load("Cluster|Account|User|ParentName\nhpc|root||\nhpc|nlp||root\n")
    answer = json.loads(cluster.run(*words, "--format", "json").stdout)
    assert [one["cost"] for one in answer["slurm_shares"] if one["account"] == "root"] == [account["cost"]]
    shown = cluster.run(*words).stdout
    assert "Jobs by QOS" in shown and "Fair share, from sshare" in shown and "10 min" in shown


def test_accounts_roll_up_to_the_one_below_the_root(cluster: Cluster) -> None:
    tree = "Cluster|Account|User\nhpc|root|\nhpc| research|\nhpc|  nlp|\nhpc|   nlp|ann\nhpc|  cv|\nhpc| product|\n"
    jobs = [job(n, 0, 3600, "n1", tres(1), Account=account) for n, account in enumerate(("nlp", "cv", "product"), 1)]
    cluster.load(text(jobs), NODES, tree)
    assert cluster.held("account") == {"research": 7200, "product": 3600}


def test_arrays_and_heterogeneous_jobs_are_jobs(cluster: Cluster) -> None:
    shapes = {"5_0": 6, "5_1": 5, "9+0": 9, "9+1": 10}
    jobs = [job(raw, 0, 600, "n1", tres(1), JobID=shown, JobName=f"of-{shown[0]}") for shown, raw in shapes.items()]
    cluster.load(text(jobs), NODES)
    assert cluster.held("pod") == dict.fromkeys(shapes, 600)
    assert cluster.held("workload") == {"Job/of-5": 1200, "Job/of-9": 1200}


def test_an_answer_without_jobs_is_one_and_what_nobody_asked_for_is_missing(cluster: Cluster) -> None:
    cluster.load(text([job(1, 0, 3600, "n1", tres(4))]), NODES, more=("--from", "2026-03-10", "--to", "2026-03-11"))
    cluster.load("|".join(FIELDS) + "\n", more=("--from", "2026-03-11", "--to", "2026-03-11T12:00", "--cluster", "hpc"))
    cluster.rows("node")
    assert cluster.totals["capacity_gpu_hours"] == pytest.approx(36 * 8)
    (missing,) = cluster.coverage["not_collected"]
    assert (missing["hours"], missing["reason"]) == (12, "after the last collection")
    (fix,) = {one["fix"] for one in cluster.coverage["warnings"] if one["code"] == "not_collected"}
    assert fix == "gpucost collect slurm --from 2026-03-11T12:00 --to 2026-03-12T00:00"


def read(folder: Path, content: str | bytes, **form: Any) -> tuple[dict[str, list[Any]], Notes]:
    path = folder / "told"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    notes = Notes()
    runs: dict[str, list[Any]] = defaultdict(list)
    for batch in read_sacct(path, SacctFormat(**form), notes):
        for name, values in batch.runs.items():
            runs[name] += values
    return runs, notes


@pytest.mark.parametrize("mark", ["|", "\x1f", "\t", ";"])
@pytest.mark.parametrize("name", ["plain", "a{0}b", "{0}{0}", "two\nlines", "a{0}b\nc{0}d", "qu\"ote's", "ünï ✓", " spaces "])
def test_names_hold_what_they_like(tmp_path: Path, mark: str, name: str) -> None:
    name = name.format(mark)
    jobs = [job(n, 0, 60, "n1", tres(1), JobName=name if n == 2 else "other") for n in (1, 2, 3)]
    runs, notes = read(tmp_path, text(jobs, mark))
    assert runs["name"] == ["other", name, "other"] and runs["job_id"] == [1, 2, 3]
    assert notes.repaired == (1 if mark in name or "\n" in name else 0)


def test_text_may_be_closed_by_delimiters_end_lines_as_windows_does_and_be_zipped(tmp_path: Path) -> None:
    jobs = [job(1, 0, 60, "n1", tres(1)), job(2, 0, 60, "n1", tres(1), JobName="a|b")]
    plain, _ = read(tmp_path, text(jobs))
    assert read(tmp_path, text(jobs).replace("\n", "|\n"))[0] == plain
    assert read(tmp_path, text(jobs, end="\r\n"))[0] == plain
    (tmp_path / "told.gz").write_bytes(gzip.compress(text(jobs).encode()))
    (batch,) = read_sacct(tmp_path / "told.gz", SacctFormat(), Notes())
    assert batch.runs == plain
    headless = text(jobs).partition("\n")[2]
    assert read(tmp_path, headless, fields=tuple(FIELDS))[0] == plain
    assert read(tmp_path, text(jobs), fields=tuple(FIELDS))[0] == plain


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("what is this\n", "no header"),
        ("JobID|State|Start|End\n1|COMPLETED|1|2\n", "no field AllocTRES"),
        (text([job(1, 0, 60, "n1", tres(1))])[:-30], "line 2: there are"),
        ("JobID|State|Start|End|AllocTRES\n1|COMPLETED|1|2|gres/gpu=1\n", "no field NodeList"),
        (text([job(1, 0, 60, "n1", tres(1))])[:-12], "line 2: the file ends within"),
        (text([job(1, 0, 60, "n1", tres(1), State="gpu")]), "line 2: 'gpu' is no state"),
        (text([job(1, 0, 60, tres(1), "n1")]), "line 2: 'n1' is no alloctres"),
        ("       JobID      State  Start\n------------ ---------- ------\n", "columns for people"),
        (text([job(1, 0, 60, "n1", tres(1), Start="soon")]), "line 2: 'soon' is no time"),
        (text([job(1, 0, 60, "n[1-", tres(1))]), "no list of nodes"),
        ('{"jobs": [', "no whole JSON"),
        ('{"errors": [{"error": "no rights"}], "jobs": []}', "no rights"),
        ('{"partitions": []}', "has no jobs"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(DataError, match="told") as error:
        read(tmp_path, content)
    assert words in error.value.message


@pytest.mark.parametrize("mark", ["^", "^|^", "@", "~~", ";", "\x1e"])
def test_a_header_tells_its_delimiter_and_fields_the_one_of_files_without(tmp_path: Path, mark: str) -> None:
    told = text([job(1, 0, 60, "n1", tres(1)), job(2, 0, 60, "n[1-2]", tres(4), JobName="a;b c")], mark)
    plain, _ = read(tmp_path, told, delimiter=mark)
    assert plain["job_id"] == [1, 2]
    assert read(tmp_path, told)[0] == plain == read(tmp_path, "\ufeff" + told)[0]
    if mark in (";", "\x1e"):
        assert read(tmp_path, told.partition("\n")[2], fields=tuple(FIELDS))[0] == plain


def test_a_file_that_does_not_end_its_last_line_is_told_of(cluster: Cluster) -> None:
    told = text([job(1, 0, 60, "n1", tres(1))])
    assert "may be cut off" in cluster.load(told[:-1], NODES).output
    assert "may be cut off" not in cluster.load(told, NODES).output
    assert cluster.held("pod") == {"1": 60}


SHORT = ["JobID", "Account", "State", "Start", "End", "NodeList", "AllocTRES"]


def short(*rows: tuple[Any, ...], fields: list[str] = SHORT) -> str:
    return "".join("|".join(map(str, row)) + "\n" for row in (fields, *rows))


def test_fields_of_files_without_a_header_are_none_of_other_files(cluster: Cluster) -> None:
    told = short((1, "nlp", "COMPLETED", T, T + 60, "n1", tres(1))).partition("\n")[2]
    assert "2 nodes" in cluster.load(told, NODES, more=("--fields", ",".join(SHORT))).stdout
    assert cluster.held("namespace") == {"nlp": 60}


def test_what_waits_since_nobody_knows_when_is_left_out(cluster: Cluster) -> None:
    rows = (1, "nlp", "PENDING", "Unknown", "Unknown", "None assigned", ""), (2, "cv", "COMPLETED", T, T + 60, "n1", tres(1))
    assert "1 runs of jobs" in cluster.load(short(*rows), NODES).stdout
    assert cluster.held("namespace") == {"cv": 60}


@pytest.mark.parametrize(("more", "until"), [((), 3600), (("--from", "2026-03-10", "--to", "2026-03-10T02:00"), 7200)])
def test_what_runs_and_does_not_say_how_long_it_has_does_until_the_end(
    cluster: Cluster, more: tuple[str, ...], until: int
) -> None:
    rows = (1, "nlp", "RUNNING", T, "Unknown", "n1", tres(2)), (2, "cv", "COMPLETED", T, T + 3600, "n1", tres(1))
    cluster.load(short(*rows), NODES, more=more)
    assert cluster.held("namespace") == {"nlp": 2 * until, "cv": 3600}


def test_tasks_of_arrays_are_told_apart_without_their_own_numbers_and_known_again_by_them(tmp_path: Path) -> None:
    """Two tasks and two parts of a heterogeneous job, one of them on two nodes; told with JobIDRaw and without, in any order."""
    rows = [
        ("5_1", 6, T - 9, "nlp", "COMPLETED", T, T + 100, "n1", tres(1)),
        ("5_2", 5, T - 9, "nlp", "COMPLETED", T, T + 200, "n[1-2]", tres(3)),
        ("5_2.batch", "5.batch", T - 9, "", "COMPLETED", T, T + 200, "n1", tres(2)),
        ("9+0", 9, T - 9, "nlp", "COMPLETED", T, T + 50, "n1", tres(1)),
        ("9+1", 10, T - 9, "nlp", "COMPLETED", T, T + 50, "n2", tres(1)),
    ]
    ways = {
        "all": short(*rows, fields=["JobID", "JobIDRaw", "Submit", *SHORT[1:]]),
        "no number": short(*((row[0], *row[2:]) for row in rows), fields=["JobID", "Submit", *SHORT[1:]]),
        "no submission": short(*((*row[:2], *row[3:]) for row in rows), fields=["JobID", "JobIDRaw", *SHORT[1:]]),
        "neither": short(*((row[0], *row[3:]) for row in rows)),
    }
    others = [name for name in ways if name != "all"]
    orders = [("neither",), *((name, "all") for name in others), *(("all", name) for name in others)]
    for number, order in enumerate(orders):
        cluster = Cluster(tmp_path / str(number))
        for name in order:
            cluster.load(ways[name], NODES)
        assert cluster.held("node") == {"n1": 100 + 400 + 50, "n2": 200 + 50}, order
        assert cluster.held("pod") == {"5_1": 100, "5_2": 600, "9+0": 50, "9+1": 50}, order


def test_one_file_that_cannot_be_read_and_none_is_loaded(cluster: Cluster) -> None:
    good, bad = cluster.folder / "good", cluster.folder / "bad"
    good.write_text(text([job(1, 0, 60, "n1", tres(1))]))
    bad.write_text(text([job(1, 0, 60, "n1", tres(1))])[:-30])
    assert "line 2" in cluster.run("collect", "slurm", str(good), str(bad), code=1).output
    assert "there is no store" in cluster.run("report", code=1).output


def test_local_times_count_in_a_zone_and_an_hour_that_comes_twice_is_refused(tmp_path: Path) -> None:
    start, end = "2026-10-25T01:30:00", "2026-10-25T04:30:00"  # clocks went back at three: four hours
    told = job(1, 0, 60, "n1", tres(1), Submit=start, Start=start, End=end, ElapsedRaw=4 * 3600)
    runs, notes = read(tmp_path, text([told]), timezone=ZoneInfo("Europe/Berlin"))
    assert notes.has_local_times
    assert runs["start_ms"] == [datetime(2026, 10, 24, 23, 30, tzinfo=UTC).timestamp() * 1000]
    with pytest.raises(DataError, match="line 2: from Start to End is an hour off Elapsed"):
        read(tmp_path, text([told]))
    assert not read(tmp_path, text([job(1, 0, 60, "n1", tres(1), Start="2026-10-25T01:30:00+0200")]))[1].has_local_times


def test_sinfo_and_json_of_accounts_and_shares_say_what_text_does(cluster: Cluster) -> None:
    rows = ("n1 gpu* gpu:a100:4 fast,new", "n1 debug gpu:a100:4 fast,new", "n[2-3] gpu* (null) (null)")
    sinfo = "\n".join(("NODELIST PARTITION GRES AVAIL_FEATURES", *rows)) + "\n"
    associations = {
        "associations": [
            {"account": "root", "cluster": "hpc", "parent_account": "", "user": ""},
            {"account": "research", "cluster": "hpc", "parent_account": "root", "user": ""},
            {"account": "nlp", "cluster": "hpc", "parent_account": "research", "user": ""},
            {"account": "nlp", "cluster": "hpc", "parent_account": "", "user": "ann"},
        ]
    }
    number = {"set": True, "infinite": False, "number": 0.5}
    told = {"cluster": "hpc", "shares_normalized": number, "usage": 7, "effective_usage": 0.25, "fairshare": {"factor": number}}
    shares = {
        "shares": {
            "shares": [
                {**told, "name": "nlp", "parent": "root", "type": ["ASSOCIATION"]},
                {**told, "name": "ann", "parent": "nlp", "type": ["USER"]},
            ]
        }
    }
    cluster.load(text([job(1, 0, 3600, "n1", tres(1))]), sinfo, json.dumps(associations), json.dumps(shares))
    assert cluster.held("account") == {"research": 3600}

    def ask(statement: str) -> Any:
        return json.loads(cluster.run("sql", statement, "--format", "json").stdout)

    nodes = ask("SELECT node, gres, partitions, features FROM slurm_nodes ORDER BY ALL")
    assert nodes[0] == {"node": "n1", "gres": "gpu:a100:4", "partitions": ["gpu", "debug"], "features": ["fast", "new"]}
    assert [one["node"] for one in nodes] == ["n1", "n2", "n3"]
    assert ask('SELECT account, "user", norm_shares, effective_usage, fair_share FROM slurm_shares ORDER BY ALL') == [
        {"account": "nlp", "user": user, "norm_shares": 0.5, "effective_usage": 0.25, "fair_share": 0.5 if user else None}
        for user in ("", "ann")
    ]


def test_lists_of_nodes() -> None:
    assert expand_nodes("r[1-2]n[01-03,7],login") == [*(f"r{r}n{n}" for r in (1, 2) for n in ("01", "02", "03", "7")), "login"]
    assert expand_nodes("None assigned") == expand_nodes("") == []


def _json(jobs: list[dict[str, Any]], *, newer: bool) -> str:
    def number(value: float) -> Any:
        return {"set": True, "infinite": False, "number": value} if newer else value

    def one(told: dict[str, Any]) -> dict[str, Any]:
        items = [item.partition("=") for item in told["AllocTRES"].split(",")]
        allocated = [
            {"type": kind.partition("/")[0], "name": kind.partition("/")[2] or None, "count": int(count)}
            for kind, _, count in items
        ]
        state: Any = [told["State"]] if newer else told["State"]
        end = told["End"] if isinstance(told["End"], int) else 0
        return {
            "job_id": told["JobID"], "name": told["JobName"], "cluster": told["Cluster"], "account": told["Account"],
            "user": told["User"], "partition": told["Partition"], "qos": told["QOS"], "nodes": told["NodeList"],
            "state": {"current": state, "reason": "None"}, "array": {"job_id": 0, "task_id": {"set": False} if newer else None},
            "het": {"job_id": 0, "job_offset": None}, "reservation": {"id": 0, "name": 0},
            "tres": {"allocated": allocated, "requested": []},
            "time": {"submission": number(told["Submit"]), "start": told["Start"], "end": end,
                     "elapsed": told["ElapsedRaw"], "eligible": told["Submit"], "suspended": 0},
            "steps": [],
        }  # fmt: skip

    return json.dumps({"meta": {}, "errors": [], "jobs": [one(told) for told in jobs]})


@pytest.mark.parametrize("newer", [False, True])
def test_json_says_what_text_does(tmp_path: Path, newer: bool) -> None:
    jobs = [job(1, 0, 60, "n[1-2]", tres(4, "a100"), JobName="a|b\nc"), job(2, 60, None, "n1", tres(1))]
    told, _ = read(tmp_path, _json(jobs, newer=newer))
    plain, _ = read(tmp_path, text(jobs))
    same = set(plain) - {"alloc_tres", "eligible_ms", "reason", "req_tres"}
    assert {name: told[name] for name in same} == {name: plain[name] for name in same}
    assert [set(one.split(",")) for one in told["alloc_tres"]] == [set(one.split(",")) for one in plain["alloc_tres"]]


@pytest.mark.parametrize(
    ("total", "average", "util"),
    [
        ({"gpuutil": 90, "gpumem": 1}, {}, 45), ({"gpuutil": 0, "gpumem": 5}, {}, 1e-9), ({"gpuutil": 0, "gpumem": 0}, {}, 0),
        ({"gpuutil": 2**64 - 1}, {"gpuutil": 90}, None), ({"gpuutil": -1}, {}, None), ({}, {"gpuutil": 2**32 - 1}, None),
        ({"gpuutil": {"set": True, "infinite": True, "number": 0}}, {"gpuutil": 7}, None), ({"gpumem": 7}, {}, None),
        ({"gpuutil": 0, "gpumem": 2**64 - 1}, {}, 0), ({}, {"gpuutil": 40}, 40), ({}, {"gpuutil": 150}, 75), ({}, {}, None),
    ],
)  # fmt: skip
def test_usage_in_json(tmp_path: Path, total: dict[str, Any], average: dict[str, Any], util: float | None) -> None:
    """Two GPUs: slurmrestd writes "infinite" as all bits set, as -1, or as a flag."""
    told = json.loads(_json([job(1, 0, 60, "n1", tres(2))], newer=True))
    (one,) = told["jobs"]
    usage = {
        kind: [{"type": "gres", "name": name, "count": count} for name, count in used.items()]
        for kind, used in (("total", total), ("average", average))
    }
    tree = {"allocated": one["tres"]["allocated"], "requested": usage}
    one["steps"] = [{"step": {"id": "1.batch"}, "time": one["time"], "nodes": {"list": ["n1"]}, "tres": tree}]
    (tmp_path / "told").write_text(json.dumps(told))
    (batch,) = read_sacct(tmp_path / "told", SacctFormat(), Notes())
    assert batch.steps["gpu_util"] == [util]


def history(seed: int) -> list[dict[str, Any]]:
    """Jobs one after the other on each of two nodes, some requeued, some still running; in any order."""
    random = Random(seed)
    jobs, number = [], 0
    for place, most in (("n1", 4), ("n2", 2)):
        at = random.randint(0, 300)
        while at < 6000:
            number += 1
            end = at + random.randint(1, 2500)
            held = tres(random.randint(1, most), random.choice(["a100", "a100", ""]))
            account = random.choice(["nlp", "cv"])
            jobs.append(
                job(random.choice([number, max(number - 1, 1)]), at, end if end < 7200 else None, place, held, Account=account)
            )
            at = end + random.randint(0, 400)
    random.shuffle(jobs)
    return jobs


SEEDS = given(st.integers(0, 2**32))


@settings(max_examples=2, deadline=None)
@SEEDS
def test_random_histories_add_up(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """GPU-seconds by account to the second; what is held and what is not is all that the nodes have and cost."""
    cluster = Cluster(tmp_path_factory.mktemp("histories"))
    # a run is known by its job and when it was submitted
    runs = list({(one["JobIDRaw"], one["Submit"]): one for one in history(seed)}.values())
    cluster.load(text(runs[::2]), NODES)
    cluster.load(text(runs), NODES)
    expected: dict[str, float] = defaultdict(float)
    for one in runs:
        gpus = int(one["AllocTRES"].rpartition("gres/gpu=")[2].partition(",")[0])
        expected[one["Account"]] += gpus * one["ElapsedRaw"]
    assert cluster.held("namespace") == pytest.approx(dict(expected), abs=0.01)
    totals = cluster.totals
    assert totals["allocated_gpu_hours"] + totals["unallocated_gpu_hours"] == pytest.approx(
        totals["capacity_gpu_hours"], abs=1e-6
    )
    assert totals["cost"] + totals["unallocated_cost"] == pytest.approx(totals["node_cost"], abs=1e-9)
    assert totals["node_cost"] == pytest.approx(totals["capacity_gpu_hours"] * 3.6, abs=1e-6)
    assert totals["over_allocated_gpu_hours"] == 0

    start, end = sorted(Random(seed).sample(range(0, 86400, 30), 2))
    span = f"StartTime={T + start} EndTime={T + end} Nodes=n[1-2]"
    cluster.load(text(runs), NODES, f"ReservationName=r {span} Flags=FLEX Accounts=cv,nlp\n")
    assert cluster.held("namespace") == pytest.approx(dict(expected), abs=0.01)
    kept = sum(row["unallocated_gpu_hours"] for row in cluster.rows("reservation") if row.get("reservation"))
    with (cluster.folder / "gpucost.toml").open("a") as config:
        config.write("[slurm]\ncharge_reservations = true\n")
    for account in ("cv", "nlp") if kept else ():
        expected[account] += kept * 1800
    assert cluster.held("namespace") == pytest.approx(dict(expected), abs=0.01)
    assert cluster.totals["node_cost"] == totals["node_cost"]
    assert cluster.totals["cost"] + cluster.totals["unallocated_cost"] == pytest.approx(totals["node_cost"], abs=1e-9)


test_many_more_histories_add_up = many(test_random_histories_add_up, SEEDS, settings(deadline=None), 4)


def commands(folder: Path, **printed: str) -> str:
    """Programs that print a text each, whatever they are asked; how sacct is called."""
    folder.mkdir(exist_ok=True)
    for name in ("sacct", "scontrol", "sacctmgr", "sshare"):
        (folder / f"{name}.txt").write_text(printed.get(name, ""))
        program = folder / name
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *helpformat*) echo "{" ".join(FIELDS)}";; *) cat {folder}/{name}.txt;; esac\n'
        )
        program.chmod(0o755)
    return f"{folder}/sacct"


def test_slurm_is_asked_a_day_at_a_time_and_later_from_a_week_before(cluster: Cluster) -> None:
    sacct = commands(cluster.folder / "bin", sacct=text([job(1, 0, 3600, "n1", tres(1))], "\x1f"), scontrol="ClusterName = hpc\n")
    words = ("collect", "slurm", "--sacct", sacct)
    said = cluster.run(*words, "--from", "2026-03-10", "--to", "2026-03-12")
    assert "2 runs of jobs of hpc, 2026-03-10T00:00:00Z .. 2026-03-12T00:00:00Z" in said.stdout
    # what could not be asked for is named, and jobs are there all the same
    assert cluster.held("pod") == {"1": 3600}
    spans = json.loads(cluster.run("sql", "SELECT from_ms, to_ms FROM loads ORDER BY ALL", "--format", "json").stdout)
    assert [(one["to_ms"] - one["from_ms"]) // 3_600_000 for one in spans] == [24, 24]
    assert "sacct failed" in cluster.run("collect", "slurm", "--sacct", f"{cluster.folder}/none/sacct", code=1).output


def test_the_doctor_prints_the_commands_that_get_it_right(cluster: Cluster) -> None:
    sacct = commands(cluster.folder / "bin", scontrol="ClusterName = hpc\n")
    answers, billed, placed = check_slurm(Config.model_validate({"slurm": {"sacct": sacct}}))
    assert answers.status == OK and "answers for hpc" in answers.found
    assert billed.found.startswith("TZ=UTC SLURM_TIME_FORMAT=%s sacct -a -D -X ") and "--delimiter=$'\\x1f'" in billed.found
    assert placed.found == billed.found.replace(" -X", "")


@pytest.mark.parametrize(
    ("private", "level", "hides"), [("none", "", None), ("jobs,usage", "Operator", None), ("jobs", "None", "jobs")]
)
def test_whether_slurm_shows_everybodys_jobs(private: str, level: str, hides: str | None) -> None:
    class Told(Commands):
        def run(self, _: str, *args: str) -> str:
            told = f"ClusterName = hpc\nPrivateData = {private}\nPurgeJobAfter = 12 months\n"
            return f"{level}\n" if "user" in args else told

        def _plain(self, *_: str) -> str:
            return "analyst\n"

    told = Told("sacct")
    assert told.cluster() == "hpc" and told.kept() == timedelta(days=336)
    assert told.hidden() == hides


def test_a_fleet_of_both_adds_up_once(tmp_path: Path) -> None:
    """What a Kubernetes and a Slurm cluster cost together is what they cost apart: by team, and of all their nodes."""
    on_demand = ",,,g5.xlarge,on_demand,1.2,USD,,,node\n"
    book = on_demand + ",,,,on_demand,3.6,USD,,partition=gpu,gpu"
    pods = fleet(2, [node("k", "g5.xlarge", 0, 2)], [pod("p", "k", [0], 0.25, 1.5, "nlp")], {"GPU-k-0": [[at(0), at(2), 70]]})
    jobs = text([job(1, 0, 3600, "n1", tres(3, "a100")), job(2, 600, 4200, "n2", tres(2, "v100"), Account="cv")])
    figures = []
    for name, parts in (("pods", "p"), ("jobs", "j"), ("both", "pj"), ("again", "jp")):
        one = Cluster(tmp_path / name, book)
        for part in parts:
            if part == "p":
                load(pods, scrape(pods), load_config(one.folder / "gpucost.toml", environ={}, cwd=one.folder))
            else:
                one.load(jobs, NODES)
        costs: dict[str, Decimal] = defaultdict(Decimal)
        for row in one.rows("team"):
            costs[row["team"] or row["kind"]] += Decimal(str(row["cost"] + row.get("unallocated_cost", 0)))
        figures.append((costs, Decimal(str(one.totals["node_cost"])), one.held("cluster")))
    (pod_costs, pod_nodes, pod_held), (job_costs, job_nodes, job_held), both, again = figures
    assert both == again
    names = pod_costs.keys() | job_costs.keys()
    assert names == {"nlp", "cv", "unallocated"}
    assert both[0] == {name: pod_costs[name] + job_costs[name] for name in names}
    assert both[1] == pod_nodes + job_nodes == sum(both[0].values())
    assert both[2] == pod_held | job_held


SOPERATOR = ("worker-0", ["StatefulSet", "worker"], "worker-0")


@pytest.mark.parametrize(
    ("slurm_node", "owner", "worker", "proof"),
    [
        ("gpu-0", ["NodeSet", "gpu"], "hpc-worker-gpu-0", ""),
        (*SOPERATOR, "setting"),
        (*SOPERATOR, "hpc_job"),
        ("k", None, None, "setting"),
        ("k", None, None, "hpc_job"),
        ("k", None, None, "gpus"),
    ],
)
def test_slurm_inside_kubernetes_counts_once(
    tmp_path: Path, slurm_node: str, owner: list[str] | None, worker: str | None, proof: str
) -> None:
    """A Kubernetes node of 8 GPUs for two hours: a pod has two, a node of Slurm four, and its jobs three for an hour."""
    workers = [pod(worker, "k", [0, 1, 2, 3], 0, 2, "slurm", owner=owner)] if worker else []
    pods = fleet(2, [node("k", "p4d.24xlarge", 0, 2)], [*workers, pod("p", "k", [4, 5], 0, 2, "web")], {})
    jobs = text([job(1, 900, 4500, slurm_node, tres(2, "a100")), job(2, 1800, 5400, slurm_node, tres(1, "a100"), Account="cv")])
    described = f"NodeName={slurm_node} Gres=gpu:a100:4 Partitions=gpu State=IDLE\n"
    down = f"Cluster|NodeName|TimeStart|TimeEnd|State|Reason\nhpc|{slurm_node}|{T + 6300}|{T + 7200}|DRAIN|why\n"
    series = scrape(pods)
    if proof == "hpc_job":
        series = relabel(series, "DCGM_.*", {"hpc_job": "1"}, {"UUID": "GPU-k-0"})
    if proof == "gpus":
        series += relabel([one for one in series if one.labels["__name__"].startswith("DCGM_")], ".*", {"cluster": "hpc"})
    figures = []
    for order in ("kj", "jk"):
        one = Cluster(tmp_path / order, ",,,p4d.24xlarge,on_demand,32,USD,,,node")
        if proof == "setting":
            with (one.folder / "gpucost.toml").open("a") as config:
                config.write(f'[slurm]\nin_kubernetes = ["{slurm_node[:-1]}?"]\n')
        for part in order:
            if part == "k":
                load(pods, series, load_config(one.folder / "gpucost.toml", environ={}, cwd=one.folder))
            else:
                one.load(jobs, described, down)
        assert one.held("namespace") == {"web": 2 * 7200, "nlp": 7200, "cv": 3600}
        assert one.totals["capacity_gpu_hours"] == 16
        assert one.totals["node_cost"] == one.totals["cost"] + one.totals["unallocated_cost"] == 64
        assert one.totals["over_allocated_gpu_hours"] == 0
        assert one.totals["unavailable_gpu_hours"] == pytest.approx(1)
        figures.append((one.rows("namespace,workload"), one.totals))
    assert figures[0] == figures[1]


@pytest.mark.parametrize(("gpus", "warned"), [(False, True), (True, False)])
def test_a_name_alone_makes_no_node_of_slurm_one_of_kubernetes(tmp_path: Path, gpus: bool, warned: bool) -> None:
    """A node of Kubernetes and one of Slurm are both called k, of 8 GPUs each; a pod and a job hold one: 2 h of $32 + $16.

    With exporters that measure other GPUs of each, nothing is in doubt.
    """
    pods = fleet(2, [node("k", "p4d.24xlarge", 0, 2)], [pod("1", "k", [0], 0, 2, "nlp")], {"GPU-k-0": [[at(0), at(2), 70]]})
    series = scrape(pods)
    if gpus:
        own = [one for one in series if one.labels["__name__"].startswith("DCGM_")]
        series += move(own, "hpc")
    one = Cluster(tmp_path / "one", ",,,p4d.24xlarge,on_demand,32,USD,,,node\n,,,,on_demand,2,USD,,partition=gpu,gpu")
    load(pods, series, load_config(one.folder / "gpucost.toml", environ={}, cwd=one.folder))
    one.load(text([job(1, 0, 7200, "k", tres(1))]), "NodeName=k Gres=gpu:8 Partitions=gpu\n")
    costs = {row["cluster"]: row["cost"] for row in one.rows("cluster") if row["kind"] == "allocated"}
    assert costs == {"main" if "main" in costs else "": 8, "hpc": 4}
    # the pod and the job are both called 1, in namespace nlp: what is measured of the pod is none of the job's
    measured = {row["cluster"] == "hpc": row["measured_ratio"] for row in one.rows("cluster,pod") if row["kind"] == "allocated"}
    assert measured[False] == 1 and (gpus or measured[True] == 0)
    assert one.totals["node_cost"] == 96
    said = [w for w in one.coverage["warnings"] if w["code"] == "unproven_machine"]
    assert [("32.00 USD" in w["message"], "in_kubernetes" in w["fix"]) for w in said] == [(True, True)] * warned


def test_a_pod_with_the_name_of_a_node_of_slurm_pays(tmp_path: Path) -> None:
    """A pod called gpu-0 holds 2 of 8 GPUs for 2 h at $32, and Slurm has a machine of that name: the pod pays $16."""
    pods = fleet(2, [node("k", "p4d.24xlarge", 0, 2)], [pod("gpu-0", "k", [0, 1], 0, 2, "web")], {})
    one = Cluster(tmp_path / "one", ",,,p4d.24xlarge,on_demand,32,USD,,,node\n,,,,on_demand,2,USD,,partition=gpu,gpu")
    load(pods, scrape(pods), load_config(one.folder / "gpucost.toml", environ={}, cwd=one.folder))
    one.load(text([job(1, 0, 7200, "gpu-0", tres(1))]), "NodeName=gpu-0 Gres=gpu:4 Partitions=gpu\n")
    costs = {row["namespace"]: row["cost"] for row in one.rows("namespace") if row["kind"] == "allocated"}
    assert costs == {"web": 16, "nlp": 4}
    assert one.totals["node_cost"] == 64 + 16
    assert "unproven_machine" in {w["code"] for w in one.coverage["warnings"]}


def test_more_jobs_than_a_row_group_holds_are_all_there(cluster: Cluster) -> None:
    """DuckDB 2.0 loses sight of 122,880 rows that were inserted into an empty table of the same transaction."""
    count = 130_000
    jobs = "\n".join(f"{n}|nlp|COMPLETED|{T + n % 7000}|{T + n % 7000 + 60}|n{n % 50}|gres/gpu=1" for n in range(count))
    cluster.load(f"JobID|Account|State|Start|End|NodeList|AllocTRES\n{jobs}\n")
    assert cluster.held("namespace") == {"nlp": count * 60}


@pytest.mark.shared
@pytest.mark.parametrize(
    "names",
    [
        ("final_dup_alloc.psv", "nodes.txt"), ("final_dup_steps.psv",), ("final_dup.json", "nodes.txt"),
        ("dup_alloc.psv", "final_dup_alloc.psv"), ("final_dup_alloc.psv", "dup_alloc.psv"), ("dup.json", "final_dup.json"),
        ("final_dup.json", "dup_alloc.psv", "assoc.psv", "sshare.psv"),
    ],
)  # fmt: skip
def test_a_real_cluster_is_what_its_sreport_says(cluster: Cluster, names: tuple[str, ...]) -> None:
    cluster.run("collect", "slurm", *(str(shared(f"slurm/sacct/{name}")) for name in names))
    day = ("2026-11-22", "2026-11-23")
    assert cluster.held("gpu_model", *day) == {"A100-SXM4-40GB": 282, "V100-SXM2-16GB": 127}
    assert cluster.held("namespace", *day) == {"team-nlp": 328, "team-cv": 49, "product": 32}
    if "assoc.psv" in names:
        assert cluster.held("account", *day) == {"research": 377, "product": 32}


@pytest.mark.shared
def test_dumps_of_others_give_their_published_totals(tmp_path: Path) -> None:
    columns = (
        "JobID,JobIDRaw,Cluster,Partition,QOS,Account,Group,GID,User,UID,Submit,Eligible,Start,End,Elapsed,ExitCode,State,NNodes,"
        "NCPUs,ReqCPUs,ReqMem,ReqTRES,AllocTRES,Timelimit,NodeList,JobName"
    )
    cluster = Cluster(tmp_path / "xdmod")
    cluster.run("collect", "slurm", str(shared("data/gpu/sacct-xdmod/referencedata/phillips.log")), "--fields", columns)
    for start, end, hours in (
        ("2016-12-01", "2017-02-01", 506.9128), ("2016-12-22", "2016-12-23", 33.4928), ("2016-12-24", "2016-12-25", 48.0),
    ):  # fmt: skip
        assert sum(cluster.held("cluster", start, end).values()) / 3600 == pytest.approx(hours, abs=1e-4)
    live, day = "data/gpu/sacct-slurm2205-live", ("2026-11-21", "2026-11-22")
    # the JSON was asked for a second later: one job with two GPUs ran
    for name, seconds in (("dup_alloc.psv", 1481), ("dup_steps.psv", 1481), ("ALL_dup.psv", 1481), ("dup.json", 1483)):
        cluster = Cluster(tmp_path / name)
        cluster.run("collect", "slurm", str(shared(f"{live}/sacct_{name}")))
        assert sum(cluster.held("cluster", *day).values()) == seconds
