"""Allocations, cost and activity of Slurm jobs, as a table: each scene is a cluster of one store, attributed once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost.periods import Period, from_ms
from tests.fleets.test_fleets import STAGES
from tests.frozen.test_answers import check
from tests.profiles import listed, profiled_stages
from tests.side_by_side import asked_names
from tests.text_tables import text_rows, titled
from tests.unit.slurm_activity import SHOWN, gpuutil, plugins
from tests.unit.slurm_words import (
    ALL_GPUS,
    FIELDS,
    NODES,
    Clusters,
    H,
    Scene,
    T,
    days,
    dcgm,
    down,
    jobs,
    rows,
    scene,
    text,
)

# A selector names one of several partitions; a machine's price is split over its models.
BOOK = f"{ALL_GPUS}\n,,,,on_demand,10,USD,,partition=whole,node\n,,,,on_demand,8,USD,,node=w2,node"
WHOLE = (
    "NodeName=w1 Gres=gpu:a100:4 Partitions=other,whole State=IDLE\n"
    "NodeName=w2 Gres=gpu:a100:2,gpu:v100:2 Partitions=other State=IDLE\n"
)

# a running and a waiting job at the first pull; a requeued job has two runs
RAN = jobs("""
    job start end nodes gpus State
    1       0   - n1       1 RUNNING
    2       -   - -        - PENDING
    3       0 600 n1       1 REQUEUED""")
ENDED = jobs("""
    job start  end nodes gpus State     Submit
    1       0 9000 n1       1 TIMEOUT        0
    2    7500 8000 n1       2 COMPLETED      0
    3       0  600 n1       1 REQUEUED       0
    3     900 1200 n1       1 COMPLETED    900""")
# `sacct --truncate` reports only the part of a run in the requested period, and ends running jobs with it
CUT = jobs("""
    job start  end nodes gpus State     Submit
    1     600 1200 n1       1 RUNNING        0
    2     600 1200 n1       2 COMPLETED      0""")
UNCUT = jobs("""
    1       0 3600 n1       1
    2       0 1800 n1       2""")

# GPU-seconds of a job in an hour; without types in accounting, a GPU of a node with only slices is a slice.
PARTS = rows("""
    node                                             job                                  seconds
    gpu:a100:4,shard:16                              cpu=1,gres/shard=4                      3600
    gpu:a100:2,mps:200                               cpu=1,gres/mps=50                       1800
    gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:1             cpu=1,gres/gpu:a100_3g.20gb=1,gres/gpu=1 1542.857
    gpu:a100:4(S:0-1)                                cpu=1,gres/gpu=3,license/matlab=7      10800
    gpu:4                                            cpu=1,gres/gpu:a100=2,gres/gpu=2        7200
    gpu:a100_3g.20gb:2                               cpu=1,gres/gpu=1                        1542.857
    gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2             cpu=1,gres/gpu=1                        1028.571
    gpu:a100:4,shard:a100:16                         cpu=1,gres/shard=4                      3600
    gpu:a100:2,gpu:v100:2,shard:a100:8,shard:v100:8  cpu=1,gres/shard:v100=4,gres/shard=4    3600""")

MAINTENANCE = f"ReservationName=m StartTime={T + H} EndTime={T + 2 * H} Nodes=n1 Flags=MAINT,SPEC_NODES Accounts=(null)\n"
TREE = (
    "Cluster|Account|User\nhpc|root|\nhpc| research|\nhpc|  nlp|\nhpc|   nlp|ann\nhpc|  cv|\nhpc| product|\n"
)
# two tasks and two parts of a heterogeneous job, one of them on two nodes; with and without JobIDRaw
TASKS = rows(f"""
    JobID     JobIDRaw Submit  Account State     Start End       NodeList AllocTRES
    5_1              6 {T - 9} nlp     COMPLETED {T}   {T + 100} n1       cpu=1,gres/gpu=1,node=1
    5_2              5 {T - 9} nlp     COMPLETED {T}   {T + 200} n[1-2]   cpu=1,gres/gpu=3,node=1
    5_2.batch  5.batch {T - 9} -       COMPLETED {T}   {T + 200} n1       cpu=1,gres/gpu=2,node=1
    9+0              9 {T - 9} nlp     COMPLETED {T}   {T + 50}  n1       cpu=1,gres/gpu=1,node=1
    9+1             10 {T - 9} nlp     COMPLETED {T}   {T + 50}  n2       cpu=1,gres/gpu=1,node=1""")


def tasks(*left_out: str) -> str:
    return text(TASKS, fields=[name for name in TASKS[0] if name not in left_out])


WAYS = {
    "all": tasks(), "no number": tasks("JobIDRaw"), "no submission": tasks("Submit"), "neither": tasks("JobIDRaw", "Submit"),
}  # fmt: skip
ORDERS = [["neither"], *([a, b] for one in WAYS if one != "all" for a, b in ((one, "all"), ("all", one)))]
SHORT = "JobID|Account|State|Start|End|NodeList|AllocTRES\n"
ONE = f"1|nlp|COMPLETED|{T}|{T + 60}|n1|cpu=1,gres/gpu=1,node=1\n"
RUNS_ON = (
    f"{SHORT}1|nlp|RUNNING|{T}|Unknown|n1|cpu=1,gres/gpu=2,node=1\n"
    f"2|cv|COMPLETED|{T}|{T + H}|n1|cpu=1,gres/gpu=1,node=1\n"
)
WAITS = (
    f"{SHORT}1|nlp|PENDING|Unknown|Unknown|None assigned|\n"
    f"2|cv|COMPLETED|{T}|{T + 60}|n1|cpu=1,gres/gpu=1,node=1\n"
)

# Submitted again after jobs with larger numbers, or two minutes before the job is eligible; job 5 was to start later.
REQUEUED = jobs("""
    job start  end nodes gpus State     Submit Eligible
    1       0 7000 n1       1 COMPLETED      0        0
    2    1000 1200 n1       1 REQUEUED    1000     1000
    2    1400 1800 n1       1 COMPLETED   1200     1321
    3     300  400 n2       1 PREEMPTED    100      100
    3    2000 3000 n2       1 COMPLETED    400      400
    4     360  500 n2       1 COMPLETED    350      350
    5     620  700 n2       1 COMPLETED    500      620""")

#: Totals and averages reported by a plugin, and the resulting active hours and mean utilization.
GPUUTIL = text_rows("""
    100 | 100 | 4 | 0.25
    150 | 150 | 4 | 0.375
    -   | 40  | 4 | 0.2
    -   | 150 | 4 | 0.375
    4   | 4   | 0 | 0.01
    900 | 900 | 4 | 0.5""")
#: Features of nodes, and accounts and shares in JSON.
FEATURES = (
    "NodeName=n1 Gres=gpu:a100:4 Partitions=gpu,debug AvailableFeatures=fast,new\n"
    "NodeName=n2 Gres=(null) Partitions=gpu AvailableFeatures=(null)\n"
)
ACCOUNTS = """{"associations": [
    {"cluster": "hpc", "account": "root", "parent_account": "", "user": ""},
    {"cluster": "hpc", "account": "research", "parent_account": "root", "user": ""},
    {"cluster": "hpc", "account": "nlp", "parent_account": "research", "user": ""},
    {"cluster": "hpc", "account": "nlp", "parent_account": "", "user": "ann"}]}"""
SHARES = """{"shares": {"shares": [
    {"cluster": "hpc", "shares_normalized": {"set": true, "infinite": false, "number": 0.5}, "usage": 7, "effective_usage": 0.25,
     "fairshare": {"factor": {"set": true, "infinite": false, "number": 0.5}}, "name": "nlp", "parent": "root",
     "type": ["ASSOCIATION"]},
    {"cluster": "hpc", "shares_normalized": {"set": true, "infinite": false, "number": 0.5}, "usage": 7, "effective_usage": 0.25,
     "fairshare": {"factor": {"set": true, "infinite": false, "number": 0.5}}, "name": "ann", "parent": "nlp",
     "type": ["USER"]}]}}"""

#: Five GPUs on two nodes; the batch step has four of them.
FIVE = """
    1           0 3600 n[1-2] a100:5"""

SCENES = {
    "jobs hold their allocated GPUs and cost their node's price": scene(
        jobs("""
            job start  end nodes gpus   Account User QOS
            1       0 3600 n1    a100:4 nlp     ann  normal
            2       0 1800 n2    v100:2 cv      bob  high
            3       0 7200 n1    -      nlp     ann  normal"""),
        """
        namespace nlp=14400 cv=3600
        user ann=14400 bob=3600
        partition gpu=18000
        qos normal=14400 high=3600
        workload Job/job-1=14400 Job/job-2=3600
        gpu_model A100-SXM4-40GB=14400 V100-SXM2-16GB=3600
        node n1=14400 n2=3600
        sums capacity_gpu_hours=16 node_cost=57.6 cost=18 unallocated_cost=39.6"""),
    "a whole machine's price": scene(
        jobs("""
            1       0 3600 w2    v100:2
            2       0 3600 w1    1"""),
        """
        node w2=7200 w1=3600
        sums cost=6.5 node_cost=18""", WHOLE),
    "the batch step gives the GPUs of each node": scene(
        jobs(f"""{FIVE}
            1.batch     0 3600 n1     a100:4
            1.0         0 3600 n[1-2] a100:5"""),
        """
        node n1=14400 n2=3600
        pod 1=18000"""),
    "without a batch step GPUs are spread evenly": scene(
        jobs(FIVE), """
        node n1=9000 n2=9000
        pod 1=18000""", warned={"slurm_even_placement": (), "over_allocated": ()}),
    **{f"a later answer restates, {n}": scene(a, "pod 1=9000 2=1000 3=900", more=[b])
       for n, (a, b) in enumerate(((RAN, ENDED), (ENDED, RAN), (ENDED, ENDED)))},
    "cut": scene(CUT, "pod 1=600 2=1200"),
    **{f"cut gives way to the whole, {n}": scene(a, "pod 1=3600 2=3600", more=[b])
       for n, (a, b) in enumerate(((CUT, UNCUT), (UNCUT, CUT)))},
    "a running job holds GPUs until it was last seen": scene(jobs("1 0 - n1 2"), "pod 1=14400"),
    # a job, ended or not, ran for six of ten minutes: Slurm's Elapsed excludes the suspended time
    "suspended time is held": scene(
        text(jobs("""
            job start end nodes gpus ElapsedRaw State     Suspended
            1       0 600 n1       1        360 COMPLETED  00:04:00
            2       0   - n1       1        360 SUSPENDED  00:04:00"""), fields=[*FIELDS, "Suspended"]), "pod 1=600 2=600"),
    "suspended time is held if only Elapsed gives the end of a job": scene(
        text(jobs("""
            job start end nodes gpus ElapsedRaw Suspended
            1       0 600 n1       1        360  00:04:00"""),
             fields=[*(name for name in FIELDS if name != "End"), "Suspended"]), "pod 1=600"),
    **{f"{job} of {node}": scene(
        jobs(f"1 0 3600 n1 {job}"), f"pod 1={seconds}", f"NodeName=n1 Gres={node} Partitions=gpu\n")
       for node, job, seconds in (row.values() for row in PARTS)},
    # of n1's 8 GPU-hours one is down and four are in maintenance; n2 is off in the second hour
    "down and in maintenance is unavailable, powered down is not a node": scene(
        jobs("1 0 7200 n2 a100:1"),
        "sums capacity_gpu_hours=12 unavailable_gpu_hours=5",
        NODES, down(("n1", 0, 900, "DOWN*"), ("n2", H, 2 * H, "IDLE+POWERED_DOWN")), MAINTENANCE),
    "accounts roll up to the one below the root": scene(
        jobs("""
            job start  end nodes gpus Account
            1       0 3600 n1       1 nlp
            2       0 3600 n1       1 cv
            3       0 3600 n1       1 product"""), "account research=7200 product=3600", NODES, TREE),
    "arrays and heterogeneous jobs are jobs": scene(
        jobs("""
            job start end nodes gpus JobID JobName
            6       0 600 n1       1 5_0   of-5
            5       0 600 n1       1 5_1   of-5
            9       0 600 n1       1 9+0   of-9
            10      0 600 n1       1 9+1   of-9"""),
        """
        pod 5_0=600 5_1=600 9+0=600 9+1=600
        workload Job/of-5=1200 Job/of-9=1200"""),
    **{f"tasks with {' then '.join(order)}": scene(
        WAYS[order[0]], """
        node n1=550 n2=250
        pod 5_1=100 5_2=600 9+0=50 9+1=50""", more=[WAYS[name] for name in order[1:]]) for order in ORDERS},
    "a file without a final line end": scene(text(jobs("1 0 60 n1 1"))[:-1], "pod 1=60"),
    "a file without a header": scene(ONE, "namespace nlp=60", form={"fields": tuple(SHORT.strip().split("|"))}),
    "a job waiting since an unknown time is left out": scene(WAITS, "namespace cv=60"),
    "a running job runs until the last end": scene(RUNS_ON, "namespace nlp=7200 cv=3600"),
    "a running job runs until the end of the requested period": scene(
        RUNS_ON, "namespace nlp=14400 cv=3600", periods=[Period(from_ms(T * 1000), from_ms((T + 2 * H) * 1000))]),
    # job 10 never ended on n1's four GPUs; jobs 2 and 3 have them from the second hour on; job 3 itself is still running
    "a job that never ended in accounting": scene(
        jobs("""
            10      0    - n1       4
            2    3600 5400 n1       4
            3    5400    - n1       4
            4       0    - n2       1"""),
        "pod 10=28800 2=7200 3=7200 4=7200",
        warned={"over_allocated": ("jobs held more GPUs than node n1 has", "accounting: job 10; ", "sacctmgr show runawayjobs")}),
    "requeued jobs with all their runs": scene(text(REQUEUED, fields=[*FIELDS, "Eligible"])),
    "requeued jobs without their earlier runs": scene(
        text([one for one in REQUEUED if one["State"] == "COMPLETED"], fields=[*FIELDS, "Eligible"]),
        warned={"slurm_requeues_hidden": ("2 jobs of hpc were requeued", "-D")}),
    # two of n1's GPUs are labeled as job 1's: one is busy for an hour, one idle. Job 2 has all of n2, even without labels
    "dcgm-exporter labels the GPUs of a job with its number": scene(
        jobs("""
            1       0 3600 n1    a100:2
            2    3600 7200 n2    a100:2"""),
        "", NODES.partition("\n")[0] + "\nNodeName=n2 Gres=gpu:a100:2 Partitions=gpu\n",
        series=[*dcgm("n1", {"0": (90, {"hpc_job": "1"}), "1": (0, {"hpc_job": "1"}), "2": (50, {}), "3": (0, {})}),
                *dcgm("n2", {"a": (80, {}), "b": (80, {})})],
        measured={"1": (1, 1, 0, 0.45), "2": (2, 0, 0, 0.8)}),
    **{f"scontrol lists the GPUs of a job: {way}": scene(
        jobs("""
            1       0 3600 n2    a100:2
            2       0 7200 n2    v100:1"""),
        "", NODES, shown,
        series=dcgm("n2", {f"{gpu}": (busy, {"gpu": f"{gpu}"}) for gpu, busy in enumerate((90, 0, 70, 0))}),
        measured={"1": (1, 1, 0, 0.45), "2": (0, 2, 0, 0)}) for way, shown in SHOWN.items()},
    **{f"gpuutil {total} of all, {average} on average": scene(
        gpuutil(total, average), f"sums cost=14.4 idle_cost={0 if int(active) else 14.4}",
        measured={"1": (int(active), 4 - int(active), 0, float(mean))})
       for total, average, active, mean in GPUUTIL},
    "no gpuutil": scene(gpuutil("-", "-", "-"), measured={"1": (0, 0, 4, None)}),
    "plugins that cannot measure": plugins(),
    "features, and accounts and shares in JSON": scene(
        jobs("1 0 3600 n1 1"), "account research=3600", FEATURES, ACCOUNTS, SHARES),
}  # fmt: skip

# The days requested, the hours with capacity, the unknown hours (from, to); and the jobs ("bare": without GPUs).
UNTRACKED = titled("""
# no job reports GPUs, even if it uses some: Slurm's default
= never
1 0 0 24
1 0 86400 n1 bare; 2 3600 7200 n2 bare
# tracked from noon on; a typed count, or a job waiting for GPUs, proves that they are tracked
= from noon on
1 12 0 12
1 0 43200 n1 bare; 2 43200 86400 n1 4
= typed
1 12 0 12
1 0 43200 n2 bare; 2 43200 86400 n1 cpu=1,gres/gpu:a100=4,node=1
= waiting
1 24
1 0 86400 n1 bare; 2 - - - -
# not tracked after the first hour, for four days; or for four days between jobs that report GPUs
= until one
4 1 1 96
1 0 3600 n1 4; 2 7200 345600 n1 bare
= between
6 48 24 120
1 0 86400 n1 4; 2 86400 432000 n1 bare; 3 432000 518400 n1 4
# an hour of a job without GPUs, before the first job that reports GPUs and after the last
= before
2 48
1 0 3600 n1 bare; 2 86400 172800 n1 4
= after
4 96
1 0 86400 n1 4; 2 342000 345600 n1 bare
# jobs without GPUs among others, and for a day after the last; on nodes without GPUs; no jobs
= among others
1 24
1 0 86400 n1 bare; 2 10 3600 n1 4; 3 7200 86400 n2 bare
= other nodes
1 24
1 0 86400 c1 bare
= no job
1 24
""")


def untracked(spec: str) -> Scene:
    """A waiting job requests GPUs."""
    numbers, _, lines = spec.replace("; ", "\n").partition("\n")
    requested = [
        run | {"ReqTRES": run["AllocTRES"] or "cpu=1,gres/gpu=8,node=1"}
        for run in jobs(lines.replace("bare", "cpu=1,mem=800G,node=1"))
    ]
    return scene(
        text(requested, fields=[*FIELDS, "ReqTRES"]), "", f"{NODES}NodeName=c1 Gres=(null) Partitions=cpu\n",
        periods=[days(10, 10 + int(numbers[0]))],
    )  # fmt: skip


COVERED = {f"untracked {name}": untracked(spec) for name, spec in UNTRACKED.items()} | {
    "an answer without jobs": scene(
        jobs("1 0 3600 n1 4"), more=["|".join(FIELDS) + "\n"],
        periods=[days(10, 11), Period(datetime(2026, 3, 11, tzinfo=UTC), datetime(2026, 3, 11, 12, tzinfo=UTC))]),
}  # fmt: skip


@pytest.fixture(scope="module")
def clusters(request: pytest.FixtureRequest, module_path: Path) -> Iterator[Clusters]:
    scenes, selected = {**SCENES, **COVERED}, asked_names(request)
    if selected is not None:
        scenes = {name: one for name, one in scenes.items() if name.removeprefix("untracked ") in selected}
    clusters = Clusters(module_path, scenes, BOOK)
    with profiled_stages() as clusters.stages, clusters.attributed():
        pass
    with clusters.store.read():
        yield clusters


def test_stages_write_frozen_tables(clusters: Clusters) -> None:
    check(listed(clusters.stages), STAGES / "slurm.txt")


@pytest.mark.parametrize("name", SCENES)
def test_scene_has_expected_figures(name: str, clusters: Clusters) -> None:
    expected, sums, warned = SCENES[name], clusters.sums(name), clusters.warnings(name)
    assert {by: clusters.held(name, by) for by in expected.held} == {
        by: pytest.approx(held, abs=0.01) for by, held in expected.held.items()
    }
    assert {what: sums[what] for what in expected.sums} == pytest.approx(expected.sums, abs=1e-6)
    if expected.measured:
        assert clusters.measured(name) == expected.measured
    assert warned.keys() == expected.warned.keys()
    for code, words in expected.warned.items():
        assert [word for word in words if word not in warned[code]] == []


@pytest.mark.parametrize("name", UNTRACKED)
def test_gpus_not_tracked_by_slurm_are_not_collected(name: str, clusters: Clusters) -> None:
    """Time is not collected, at no cost, while accounting reports no GPUs of any job."""
    length, hours, *lost = map(int, UNTRACKED[name].splitlines()[0].split())
    cluster = f"untracked {name}"
    view = clusters.view("pod", clusters.names[cluster], period=days(10, 10 + length))
    held = sum(clusters.held(cluster, "pod").values()) / H
    nodes, coverage = view.node_totals, view.coverage
    assert nodes is not None
    figures = (nodes.capacity_gpu_hours, nodes.unallocated_gpu_hours, float(nodes.node_cost))
    assert figures == pytest.approx((8 * hours, 8 * hours - held, 8 * hours * 3.6))
    gaps = [(gap.start, gap.hours, gap.families) for gap in coverage.not_collected]
    assert gaps == ([(from_ms((T + lost[0] * H) * 1000), lost[1] - lost[0], ("gres/gpu",))] if lost else [])
    fixes = [warning.fix for warning in coverage.warnings if "AccountingStorageTRES" in warning.message]
    assert fixes == ["add gres/gpu to AccountingStorageTRES in slurm.conf"] * bool(lost)


def test_answer_without_jobs_counts_and_time_without_answer_is_missing(clusters: Clusters) -> None:
    view = clusters.view("node", clusters.names["an answer without jobs"])
    assert view.node_totals is not None and view.node_totals.capacity_gpu_hours == pytest.approx(36 * 8)
    (missing,) = view.coverage.not_collected
    assert (missing.hours, missing.reason) == (12, "after the last collection")
    (fix,) = {warning.fix for warning in view.coverage.warnings if warning.code == "not_collected"}
    assert fix == "gpucost collect slurm --from 2026-03-11T12:00 --to 2026-03-12T00:00"


def test_features_and_shares_in_json_are_read(clusters: Clusters) -> None:
    name = "features, and accounts and shares in JSON"
    nodes = "SELECT node, gres, partitions, features FROM slurm_nodes WHERE cluster = $1 ORDER BY ALL"
    first, second = clusters.sql(name, nodes)
    assert first == ("n1", "gpu:a100:4", ["gpu", "debug"], ["fast", "new"])
    assert second == ("n2", "", ["gpu"], [])
    shares = 'SELECT account, "user", norm_shares, effective_usage, fair_share FROM slurm_shares WHERE cluster = $1 ORDER BY ALL'
    assert clusters.sql(name, shares) == [("nlp", "", 0.5, 0.25, None), ("nlp", "ann", 0.5, 0.25, 0.5)]
