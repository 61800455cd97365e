"""What Slurm's jobs hold, cost and did, as a table: each scene is a cluster of one store, and all are attributed once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gpucost.periods import Period, from_ms
from tests.fleets.test_fleets import STAGES
from tests.frozen.test_answers import check
from tests.profiles import listed, profiled_stages
from tests.unit.slurm_words import (
    ALL_GPUS,
    DAY,
    FIELDS,
    NODES,
    SHORT,
    USAGE,
    Clusters,
    H,
    Job,
    Scene,
    T,
    days,
    dcgm,
    down,
    job,
    scene,
    short,
    step,
    text,
    tres,
    waiting,
)

# A selector names one of several partitions; a machine's price is split over its models.
BOOK = f"{ALL_GPUS}\n,,,,on_demand,10,USD,,partition=whole,node\n,,,,on_demand,8,USD,,node=w2,node"
WHOLE = (
    "NodeName=w1 Gres=gpu:a100:4 Partitions=other,whole State=IDLE\n"
    "NodeName=w2 Gres=gpu:a100:2,gpu:v100:2 Partitions=other State=IDLE\n"
)

FIVE = job(1, 0, H, "n[1-2]", tres(5, "a100"))
STEPS = [step(FIVE, "batch", NodeList="n1", AllocTRES=tres(4, "a100")), step(FIVE, "0")]

# a job that ran, and one that waited, at the first pull; a requeued job has two runs
RAN = [job(1, 0, None, "n1", tres(1)), waiting(2), job(3, 0, 600, "n1", tres(1), State="REQUEUED")]
ENDED = [
    job(1, 0, 9000, "n1", tres(1), State="TIMEOUT"), job(2, 7500, 8000, "n1", tres(2), Submit=T), RAN[2],
    job(3, 900, 1200, "n1", tres(1)),
]  # fmt: skip
# `sacct --truncate` tells the part of a run that lies in the time asked for, and ends what still ran with it
CUT = [
    job(1, 600, 1200, "n1", tres(1), Submit=T, State="RUNNING"),
    job(2, 600, 1200, "n1", tres(2), Submit=T),
]
UNCUT = [job(1, 0, H, "n1", tres(1)), job(2, 0, 1800, "n1", tres(2))]

PARTS = [
    ("gpu:a100:4,shard:16", "cpu=1,gres/shard=4", 1.0), ("gpu:a100:2,mps:200", "cpu=1,gres/mps=50", 0.5),
    ("gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:1", "cpu=1,gres/gpu:a100_3g.20gb=1,gres/gpu=1", 3 / 7),
    ("gpu:a100:4(S:0-1)", "cpu=1,gres/gpu=3,license/matlab=7", 3.0), ("gpu:4", "cpu=1,gres/gpu:a100=2,gres/gpu=2", 2.0),
    # where accounting knows no types, a GPU of a node that is all slices is one of them
    ("gpu:a100_3g.20gb:2", "cpu=1,gres/gpu=1", 3 / 7), ("gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2", "cpu=1,gres/gpu=1", 2 / 7),
    ("gpu:a100:4,shard:a100:16", "cpu=1,gres/shard=4", 1.0),
    ("gpu:a100:2,gpu:v100:2,shard:a100:8,shard:v100:8", "cpu=1,gres/shard:v100=4,gres/shard=4", 1.0),
]  # fmt: skip

MAINTENANCE = f"ReservationName=m StartTime={T + H} EndTime={T + 2 * H} Nodes=n1 Flags=MAINT,SPEC_NODES Accounts=(null)\n"
TREE = (
    "Cluster|Account|User\nhpc|root|\nhpc| research|\nhpc|  nlp|\nhpc|   nlp|ann\nhpc|  cv|\nhpc| product|\n"
)
SHAPES = {"5_0": 6, "5_1": 5, "9+0": 9, "9+1": 10}
# two tasks and two parts of a heterogeneous job, one of them on two nodes; told with JobIDRaw and without
TASKS = [
    ("5_1", 6, T - 9, "nlp", "COMPLETED", T, T + 100, "n1", tres(1)),
    ("5_2", 5, T - 9, "nlp", "COMPLETED", T, T + 200, "n[1-2]", tres(3)),
    ("5_2.batch", "5.batch", T - 9, "", "COMPLETED", T, T + 200, "n1", tres(2)),
    ("9+0", 9, T - 9, "nlp", "COMPLETED", T, T + 50, "n1", tres(1)),
    ("9+1", 10, T - 9, "nlp", "COMPLETED", T, T + 50, "n2", tres(1)),
]  # fmt: skip
WAYS = {
    "all": short(*TASKS, fields=["JobID", "JobIDRaw", "Submit", *SHORT[1:]]),
    "no number": short(*((row[0], *row[2:]) for row in TASKS), fields=["JobID", "Submit", *SHORT[1:]]),
    "no submission": short(
        *((*row[:2], *row[3:]) for row in TASKS), fields=["JobID", "JobIDRaw", *SHORT[1:]]
    ),
    "neither": short(*((row[0], *row[3:]) for row in TASKS)),
}
ORDERS = [("neither",), *((a, b) for one in WAYS if one != "all" for a, b in ((one, "all"), ("all", one)))]
ONE = short((1, "nlp", "COMPLETED", T, T + 60, "n1", tres(1)))
RUNS_ON = short(
    (1, "nlp", "RUNNING", T, "Unknown", "n1", tres(2)), (2, "cv", "COMPLETED", T, T + H, "n1", tres(1))
)
WAITS = short(
    (1, "nlp", "PENDING", "Unknown", "Unknown", "None assigned", ""),
    (2, "cv", "COMPLETED", T, T + 60, "n1", tres(1)),
)

# Submitted anew, after jobs of larger numbers, or two minutes before it may begin; job 5 was to begin later.
REQUEUED = [{"Eligible": one["Submit"]} | one for one in (
    job(1, 0, 7000, "n1", tres(1)), job(2, 1000, 1200, "n1", tres(1), State="REQUEUED"),
    job(2, 1400, 1800, "n1", tres(1), Submit=T + 1200, Eligible=T + 1321),
    job(3, 300, 400, "n2", tres(1), Submit=T + 100, State="PREEMPTED"), job(3, 2000, 3000, "n2", tres(1), Submit=T + 400),
    job(4, 360, 500, "n2", tres(1), Submit=T + 350), job(5, 620, 700, "n2", tres(1), Submit=T + 500, Eligible=T + 620),
)]  # fmt: skip

# Of n2's two A100 and two V100 the first of each is busy: job 1 has the two A100, job 2 the idle V100.
DEVICES = {1: "gpu:a100:2(IDX:0-1)", 2: "gpu:v100:1(IDX:3)"}
DETAILS = [
    f"JobId={n} JobName=a=b\n   SubmitTime={T} StartTime={T}\n   NodeList=n2 NumNodes=1\n"
    f"   TRES=cpu=1,gres/gpu=1\n     Nodes=n2 CPU_IDs=0-3 Mem=100 GRES={gres}\n   Power=\n\n"
    for n, gres in DEVICES.items()
]
SHOWN = {
    "text": "".join(DETAILS),
    "oneliner": "".join(one.replace("\n  ", "") for one in DETAILS),
    "json": json.dumps({"meta": {}, "jobs": [
        {"accrue_time": 0, "job_id": n, "submit_time": T, "nodes": "n2", "gres_detail": [gres]} for n, gres in DEVICES.items()
    ]}),
}  # fmt: skip


def used(run: Job, total: str, average: str | None = None) -> Job:
    return run | {"TRESUsageInTot": total, "TRESUsageInAve": total if average is None else average}


def gpuutil(total: float | None, average: float | None, *, none: bool = False) -> str:
    """Two GPUs for two hours, a step on both in the second hour, and one beside it of a shell that keeps none busy."""
    said = [
        "" if one is None else f"cpu=00:01:00,gres/gpumem=9M,gres/gpuutil={one},mem=1M"
        for one in (total, average, 0)
    ]
    run = job(1, 0, 2 * H, "n1", tres(2, "a100"))
    late = step(job(1, H, 2 * H, "n1", tres(2, "a100")), "0")
    return text(
        [run, used(step(run, "batch"), "" if none else said[2]), used(late, said[0], said[1])], fields=USAGE
    )


#: A job of an hour on each model: its batch step's gpuutil and gpumem, beside an external step's zeros; and its mean. Zeros
#: count where memory was used, or the same model was ever measured; "infinite" (all bits set) never does, be it a sum, a mean
#: over tasks, or written with a unit; and then zeros of the shell beside it are no measurement either.
ALL_BITS = 2**64 - 1
PLUGINS: list[tuple[str, str, str, float | None]] = [
    ("a100", "90", "40G", 0.9), ("a100", "0", "400M", 0), ("a100", "0", "0", 0), ("a100", f"{ALL_BITS}", f"{ALL_BITS}", None),
    ("mi210", "0", "0", None), ("gh200", "0", "0", None), ("gh200", "0", f"{ALL_BITS}", None), ("h200", "0", "1M", 0),
    ("a40", f"{ALL_BITS}", "0", None), ("a40", "16777216T", "16E", None), ("a40", f"{ALL_BITS // 4}", "0", None),
    ("v100", "0.01K", "1G", 0.1024),
]  # fmt: skip


def plugins() -> Scene:
    jobs = []
    for number, (name, util, memory, _) in enumerate(PLUGINS, 1):
        run = job(number, 0, H, name, tres(1, name))
        said = [f"cpu=1,gres/gpumem={m},gres/gpuutil={u},mem=1M" for u, m in ((util, memory), ("0", "0"))]
        jobs += [run, used(step(run, "batch"), said[0]), used(step(run, "extern"), said[1])]
    nodes = "".join(
        f"NodeName={name} Gres=gpu:{name}:8 Partitions=gpu\n" for name in {row[0] for row in PLUGINS}
    )
    figures = {str(n): (0, 0, 1, None) if mean is None else (float(mean > 0), float(mean == 0), 0, mean)
               for n, (*_, mean) in enumerate(PLUGINS, 1)}  # fmt: skip
    return scene(text(jobs, fields=USAGE), nodes, measured=figures)


def facts() -> Scene:
    """sinfo's text, and accounts and shares in JSON."""
    rows = ("n1 gpu* gpu:a100:4 fast,new", "n1 debug gpu:a100:4 fast,new", "n[2-3] gpu* (null) (null)")
    sinfo = "\n".join(("NODELIST PARTITION GRES AVAIL_FEATURES", *rows)) + "\n"
    accounts = (("root", "", ""), ("research", "root", ""), ("nlp", "research", ""), ("nlp", "", "ann"))
    names = ("account", "parent_account", "user")
    associations = [{"cluster": "hpc", **dict(zip(names, values, strict=True))} for values in accounts]
    number = {"set": True, "infinite": False, "number": 0.5}
    told = {
        "cluster": "hpc",
        "shares_normalized": number,
        "usage": 7,
        "effective_usage": 0.25,
        "fairshare": {"factor": number},
    }
    shares = [
        {**told, "name": "nlp", "parent": "root", "type": ["ASSOCIATION"]},
        {**told, "name": "ann", "parent": "nlp", "type": ["USER"]},
    ]
    more = [{"associations": associations}, {"shares": {"shares": shares}}]
    return scene([job(1, 0, H, "n1", tres(1))], sinfo, *map(json.dumps, more), account={"research": H})


SCENES = {
    "jobs hold what they were allocated and cost their node's price": scene(
        [job(1, 0, H, "n1", tres(4, "a100")), job(2, 0, 1800, "n2", tres(2, "v100"), Account="cv", User="bob", QOS="high"),
         job(3, 0, 2 * H, "n1", "cpu=1,node=1")],
        namespace={"nlp": 4 * H, "cv": H}, user={"ann": 4 * H, "bob": H}, partition={"gpu": 5 * H},
        qos={"normal": 4 * H, "high": H},
        workload={"Job/job-1": 4 * H, "Job/job-2": H}, gpu_model={"A100-SXM4-40GB": 4 * H, "V100-SXM2-16GB": H},
        node={"n1": 4 * H, "n2": H}, sums={"capacity_gpu_hours": 16, "node_cost": 57.6, "cost": 18, "unallocated_cost": 39.6}),
    "a whole machine's price": scene(
        [job(1, 0, H, "w2", tres(2, "v100")), job(2, 0, H, "w1", tres(1))], WHOLE, node={"w2": 2 * H, "w1": H},
        sums={"cost": 4 + 2.5, "node_cost": 18}),
    "the batch step says what lay where": scene([FIVE, *STEPS], node={"n1": 4 * H, "n2": H}, pod={"1": 5 * H}),
    "without it what lay where is even": scene(
        [FIVE], node={"n1": 2.5 * H, "n2": 2.5 * H}, pod={"1": 5 * H},
        warned={"slurm_even_placement": (), "over_allocated": ()}),
    **{f"a later answer restates, {n}": scene(a, more=[b], pod={"1": 9000, "2": 1000, "3": 900})
       for n, (a, b) in enumerate(((RAN, ENDED), (ENDED, RAN), (ENDED, ENDED)))},
    "cut": scene(CUT, pod={"1": 600, "2": 1200}),
    **{f"cut gives way to the whole, {n}": scene(a, more=[b], pod={"1": H, "2": H})
       for n, (a, b) in enumerate(((CUT, UNCUT), (UNCUT, CUT)))},
    "a job that runs holds until it was seen last": scene([job(1, 0, None, "n1", tres(2))], pod={"1": 4 * H}),
    # of ten minutes, over or not, a job ran for six: Slurm's Elapsed leaves out what it was suspended for
    "suspended time is held": scene(
        text([job(1, 0, 600, "n1", tres(1), ElapsedRaw=360, Suspended="00:04:00"),
              job(2, 0, None, "n1", tres(1), ElapsedRaw=360, State="SUSPENDED", Suspended="00:04:00")],
             fields=[*FIELDS, "Suspended"]),
        pod={"1": 600, "2": 600}),
    "suspended time is held where only Elapsed says when a job ended": scene(
        text([job(1, 0, 600, "n1", tres(1), ElapsedRaw=360, Suspended="00:04:00")],
             fields=[*(name for name in FIELDS if name != "End"), "Suspended"]),
        pod={"1": 600}),
    **{f"{held} of {gres}": scene([job(1, 0, H, "n1", held)], f"NodeName=n1 Gres={gres} Partitions=gpu\n", pod={"1": gpus * H})
       for gres, held, gpus in PARTS},
    # of n1's 8 GPU-hours one is down, four are in maintenance; n2 is off for the second hour
    "down and in maintenance is unavailable, powered down is no node": scene(
        [job(1, 0, 2 * H, "n2", tres(1, "a100"))], NODES, down(("n1", 0, 900, "DOWN*"), ("n2", H, 2 * H, "IDLE+POWERED_DOWN")),
        MAINTENANCE, sums={"capacity_gpu_hours": 8 + 4, "unavailable_gpu_hours": 1 + 4}),
    "accounts roll up to the one below the root": scene(
        [job(n, 0, H, "n1", tres(1), Account=one) for n, one in enumerate(("nlp", "cv", "product"), 1)], NODES, TREE,
        account={"research": 2 * H, "product": H}),
    "arrays and heterogeneous jobs are jobs": scene(
        [job(raw, 0, 600, "n1", tres(1), JobID=shown, JobName=f"of-{shown[0]}") for shown, raw in SHAPES.items()],
        pod=dict.fromkeys(SHAPES, 600), workload={"Job/of-5": 1200, "Job/of-9": 1200}),
    **{f"tasks told with {' then '.join(order)}": scene(
        *[WAYS[name] for name in order[:1]], more=[WAYS[name] for name in order[1:]], node={"n1": 550, "n2": 250},
        pod={"5_1": 100, "5_2": 600, "9+0": 50, "9+1": 50}) for order in ORDERS},
    "a file that does not end its last line": scene(text([job(1, 0, 60, "n1", tres(1))])[:-1], pod={"1": 60}),
    "a file without a header": scene(ONE.partition("\n")[2], form={"fields": tuple(SHORT)}, namespace={"nlp": 60}),
    "what waits since nobody knows when is left out": scene(WAITS, namespace={"cv": 60}),
    "what runs does until the last end": scene(RUNS_ON, namespace={"nlp": 2 * H, "cv": H}),
    "what runs does until the end of the time asked for": scene(
        RUNS_ON, periods=[Period(from_ms(T * 1000), from_ms((T + 2 * H) * 1000))], namespace={"nlp": 4 * H, "cv": H}),
    # job 10 has run on n1's four GPUs for ever; since the second hour jobs 2 and 3 have them. Job 3 itself runs on
    "a job that never ended in accounting": scene(
        [job(10, 0, None, "n1", tres(4)), job(2, H, 5400, "n1", tres(4)), job(3, 5400, None, "n1", tres(4)),
         job(4, 0, None, "n2", tres(1))],
        pod={"10": 8 * H, "2": 2 * H, "3": 2 * H, "4": 2 * H},
        warned={"over_allocated": ("jobs held more GPUs than node n1 has", "accounting: job 10; ", "sacctmgr show runawayjobs")}),
    "requeued jobs with all their runs": scene(text(REQUEUED, fields=[*FIELDS, "Eligible"])),
    "requeued jobs without their earlier runs": scene(
        text([one for one in REQUEUED if one["State"] == "COMPLETED"], fields=[*FIELDS, "Eligible"]),
        warned={"slurm_requeues_hidden": ("2 jobs of hpc were requeued", "-D")}),
    # two of n1's GPUs are known to be job 1's: one is busy for an hour, one idle. Job 2 has all of n2, whatever labels say
    "dcgm-exporter says by a job's number what its GPUs did": scene(
        [job(1, 0, H, "n1", tres(2, "a100")), job(2, H, 2 * H, "n2", tres(2, "a100"))],
        NODES.partition("\n")[0] + "\nNodeName=n2 Gres=gpu:a100:2 Partitions=gpu\n",
        series=[*dcgm("n1", {"0": (90, {"hpc_job": "1"}), "1": (0, {"hpc_job": "1"}), "2": (50, {}), "3": (0, {})}),
                *dcgm("n2", {"a": (80, {}), "b": (80, {})})],
        measured={"1": (1, 1, 0, 0.45), "2": (2, 0, 0, 0.8)}),
    **{f"scontrol says which GPUs a job has: {way}": scene(
        [job(1, 0, H, "n2", tres(2, "a100")), job(2, 0, 2 * H, "n2", tres(1, "v100"))], NODES, shown,
        series=dcgm("n2", {f"{gpu}": (busy, {"gpu": f"{gpu}"}) for gpu, busy in enumerate((90, 0, 70, 0))}),
        measured={"1": (1, 1, 0, 0.45), "2": (0, 2, 0, 0)}) for way, shown in SHOWN.items()},
    **{f"gpuutil {total} of all, {average} on average": scene(
        gpuutil(total, average), measured={"1": (4, 0, 0, mean) if mean > 0.05 else (0, 4, 0, mean)},
        sums={"cost": 14.4, "idle_cost": 0 if mean > 0.05 else 14.4})
       for total, average, mean in (
           (100, 100, 0.25), (150, 150, 0.375), (None, 40, 0.2), (None, 150, 0.375), (4, 4, 0.01), (900, 900, 0.5))},
    "no gpuutil": scene(gpuutil(None, None, none=True), measured={"1": (0, 0, 4, None)}),
    "plugins that cannot measure": plugins(),
    "sinfo, and accounts and shares in JSON": facts(),
}  # fmt: skip

BARE = "cpu=1,mem=800G,node=1"
# Jobs, the hours that have capacity, and the hours of which nothing is known, if any.
UNTRACKED: dict[str, tuple[list[Job], float, tuple[int, int] | None]] = {
    # no job names GPUs, whatever it holds: Slurm's default
    "never": ([job(1, 0, DAY, "n1", BARE), job(2, H, 2 * H, "n2", BARE)], 0, (0, 24)),
    # tracked from noon on; a job that waits for GPUs proves that they are tracked; so does a typed count
    "from noon on": ([job(1, 0, DAY // 2, "n1", BARE), job(2, DAY // 2, DAY, "n1", tres(4))], 12, (0, 12)),
    "typed": ([job(1, 0, DAY // 2, "n2", BARE), job(2, DAY // 2, DAY, "n1", "cpu=1,gres/gpu:a100=4,node=1")], 12, (0, 12)),
    "waiting": ([job(1, 0, DAY, "n1", BARE), waiting(2)], 24, None),
    # no longer tracked after an hour, for four days; nor for four days between jobs that name them
    "until one": ([job(1, 0, H, "n1", tres(4)), job(2, 2 * H, 4 * DAY, "n1", BARE)], 1, (1, 96)),
    "between": ([job(1, 0, DAY, "n1", tres(4)), job(2, DAY, 5 * DAY, "n1", BARE),
                 job(3, 5 * DAY, 6 * DAY, "n1", tres(4))], 48, (24, 120)),
    # an hour of a job without GPUs, before the first that names them and after the last
    "before": ([job(1, 0, H, "n1", BARE), job(2, DAY, 2 * DAY, "n1", tres(4))], 48, None),
    "after": ([job(1, 0, DAY, "n1", tres(4)), job(2, 4 * DAY - H, 4 * DAY, "n1", BARE)], 96, None),
    # jobs without GPUs among others, and after the last for a day; on nodes without GPUs; and none at all
    "among others": ([job(1, 0, DAY, "n1", BARE), job(2, 10, H, "n1", tres(4)), job(3, 2 * H, DAY, "n2", BARE)], 24, None),
    "other nodes": ([job(1, 0, DAY, "c1", BARE)], 24, None),
    "no job": ([], 24, None),
}  # fmt: skip


def untracked(jobs: list[Job]) -> Scene:
    """A job that waits asks for GPUs."""
    told = text([one | {"ReqTRES": one["AllocTRES"] or tres(8)} for one in jobs], fields=[*FIELDS, "ReqTRES"])
    return scene(told, f"{NODES}NodeName=c1 Gres=(null) Partitions=cpu\n", periods=[asked(jobs)])


def asked(jobs: list[Job]) -> Period:
    return days(10, 10 + max([1, *((one["End"] - T) // DAY for one in jobs if one["State"] == "COMPLETED")]))


COVERED = {f"untracked {name}": untracked(row[0]) for name, row in UNTRACKED.items()} | {
    "an answer without jobs": scene(
        [job(1, 0, H, "n1", tres(4))], more=["|".join(FIELDS) + "\n"],
        periods=[days(10, 11), Period(datetime(2026, 3, 11, tzinfo=UTC), datetime(2026, 3, 11, 12, tzinfo=UTC))]),
}  # fmt: skip


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    clusters = Clusters(tmp_path_factory.mktemp("slurm"), {**SCENES, **COVERED}, BOOK)
    with profiled_stages() as clusters.stages, clusters.attributed():
        pass
    with clusters.store.read():
        yield clusters


def test_stages_write_what_they_wrote(clusters: Clusters) -> None:
    check(listed(clusters.stages), STAGES / "slurm.txt")


@pytest.mark.parametrize("name", SCENES)
def test_slurm(name: str, clusters: Clusters) -> None:
    expected = SCENES[name]
    found: dict[str, Any] = {by: clusters.held(name, by) for by in expected.held}
    assert found == {by: pytest.approx(held, abs=0.01) for by, held in expected.held.items()}
    sums = clusters.sums(name)
    assert {what: sums[what] for what in expected.sums} == pytest.approx(expected.sums, abs=1e-6)
    if expected.measured:
        assert clusters.measured(name) == expected.measured
    warned = clusters.warnings(name)
    assert warned.keys() == expected.warned.keys()
    assert [
        word for code, words in expected.warned.items() for word in words if word not in warned[code]
    ] == []


@pytest.mark.parametrize("name", UNTRACKED)
def test_gpus_that_slurm_does_not_track_are_not_collected(name: str, clusters: Clusters) -> None:
    """Nothing is unallocated, and nothing costs, where accounting names no GPUs of any job."""
    jobs, hours, lost = UNTRACKED[name]
    cluster = f"untracked {name}"
    view = clusters.view("pod", clusters.names[cluster], period=asked(jobs))
    held = sum(clusters.held(cluster, "pod").values()) / H
    nodes, coverage = view.node_totals, view.coverage
    assert nodes is not None
    figures = (nodes.capacity_gpu_hours, nodes.unallocated_gpu_hours, float(nodes.node_cost))
    assert figures == pytest.approx((8 * hours, 8 * hours - held, 8 * hours * 3.6))
    gaps = [(gap.start, gap.hours, gap.families) for gap in coverage.of_kind("not_collected")]
    assert gaps == ([(from_ms((T + lost[0] * H) * 1000), lost[1] - lost[0], ("gres/gpu",))] if lost else [])
    fixes = [warning.fix for warning in coverage.warnings if "AccountingStorageTRES" in warning.message]
    assert fixes == ["add gres/gpu to AccountingStorageTRES in slurm.conf"] * bool(lost)


def test_an_answer_without_jobs_is_one_and_what_nobody_asked_for_is_missing(clusters: Clusters) -> None:
    view = clusters.view("node", clusters.names["an answer without jobs"])
    assert view.node_totals is not None and view.node_totals.capacity_gpu_hours == pytest.approx(36 * 8)
    (missing,) = view.coverage.of_kind("not_collected")
    assert (missing.hours, missing.reason) == (12, "after the last collection")
    (fix,) = {warning.fix for warning in view.coverage.warnings if warning.code == "not_collected"}
    assert fix == "gpucost collect slurm --from 2026-03-11T12:00 --to 2026-03-12T00:00"


def test_sinfo_and_json_of_shares_say_what_text_does(clusters: Clusters) -> None:
    name = "sinfo, and accounts and shares in JSON"
    nodes = clusters.sql(
        name, "SELECT node, gres, partitions, features FROM slurm_nodes WHERE cluster = $1 ORDER BY ALL"
    )
    assert nodes[0] == ("n1", "gpu:a100:4", ["gpu", "debug"], ["fast", "new"]) and [
        row[0] for row in nodes
    ] == ["n1", "n2", "n3"]
    columns = 'account, "user", norm_shares, effective_usage, fair_share'
    shares = clusters.sql(name, f"SELECT {columns} FROM slurm_shares WHERE cluster = $1 ORDER BY ALL")  # noqa: S608
    assert shares == [("nlp", "", 0.5, 0.25, None), ("nlp", "ann", 0.5, 0.25, 0.5)]
