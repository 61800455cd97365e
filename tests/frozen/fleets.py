"""The two fleets of the frozen answers: two weeks with estimated prices and all kinds of data, and a billed one.

Each is a folder with a configuration, an attributed store, and the input files of commands.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.collect.progress.mappings import ready_made, series_of
from gpucost.config.load import load_config
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressRun, load_runs
from tests.bill_table import change_bill_rows
from tests.replay import bill_files
from tests.replay.billing import by_day, charges
from tests.replay.cases.words import BOOK, at, busy, fleet, node, pod
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_book
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.replay.work import put
from tests.text_tables import text_rows, words
from tests.unit.command import call
from tests.unit.spot import answer, change
from tests.unit.test_price_bill_fleets import machines, rate

DAYS = 14
HOURS = 24 * DAYS
ESTIMATED_CONFIG = """
prometheus = []
[prices]
book = "prices.csv"
[activity]
memory = true
[[teams]]
name = "research"
namespaces = ["train", "eval*"]
[[teams]]
name = "product"
namespaces = ["serve"]
[[budgets]]
name = "all GPUs"
amount = 20000
efficiency = 0.8
[[budgets]]
name = "research"
team = "research"
amount = 9000
spot_ratio = 0.7
idle_cost_share = 0.3
[notify]
link = "https://reports.example.com/gpu"
[notify.slack]
webhook_url_env = "SLACK_URL"
[notify.email]
host = "mail.example.com"
sender = "gpucost@example.com"
recipients = ["finops@example.com"]
"""
BILLED_CONFIG = """
prometheus = []
[prices]
book = "prices.csv"
[[shared_costs]]
name = "Platform"
of = "namespaces"
namespaces = ["batch"]
split = "even"
"""
SIGNED = """
[[coverage.accept]]
from = 2026-03-01
to = 2026-04-01
who = "Dana"
why = "it ran for two days"
"""
ONPREM = """purchase_price = 262800
gpus_per_node = 8
gpu_model = "H100"
years = 4
price_per_kwh = 0.1
residual_percent = 20
utilization_percent = 50
"""
PLAN = """
[[groups]]
name = "research"
teams = ["research"]

[[steps]]
change = "spot"
groups = ["research"]
price_per_gpu_hour = 1.17
checkpoint_minutes = 30
"""
JOB = """kind: Job
metadata: {name: sweep-9, namespace: train}
spec:
  parallelism: 2
  template:
    spec:
      containers:
      - resources: {limits: {nvidia.com/gpu: 4}}
"""
EPOCHS = """workload,namespace,time,unit,value
Job/run-b,train,2026-03-13T06:00:00Z,epoch,1
Job/run-b,train,2026-03-13T18:00:00Z,epoch,1
"""
JOBS = """JobID|JobIDRaw|JobName|Cluster|Account|User|State|Submit|Start|End|ElapsedRaw|NodeList|AllocTRES
7|7|bert|hpc|nlp|ann|COMPLETED|1773100800|1773100860|1773108060|7200|n[1-2]|cpu=8,gres/gpu:a100=8,gres/gpu=8,node=2
7.batch|7.batch|batch|hpc|nlp||COMPLETED|1773100860|1773100860|1773108060|7200|n1|cpu=4,gres/gpu:a100=4,gres/gpu=4,node=1
8|8|sweep|of|names|hpc|cv|bob|RUNNING|1773104400|1773104400|Unknown|3600|n1|cpu=1,gres/gpu:a100=1,gres/gpu=1,node=1
"""
NODES = "NodeName=n1 Gres=gpu:a100:4 Partitions=gpu State=MIXED\nNodeName=n2 Gres=gpu:a100:4 Partitions=gpu State=IDLE\n"


#: Input files of the first fleet's commands.
FILES = {
    "gpucost.toml": ESTIMATED_CONFIG, "broken.toml": "[idle]\nthreshold = 5\n", "onprem.toml": ONPREM, "plan.toml": PLAN,
    "job.yaml": JOB, "epochs.csv": EPOCHS, "jobs.psv": JOBS, "nodes.txt": NODES,
}  # fmt: skip


def estimated(folder: Path) -> None:
    """Make two weeks of two clusters: training, serving, notebooks, spot nodes, an expensive day, work and queues; no bill."""
    for name, text in FILES.items():
        write(folder, name, text)
    write_book(folder, (line for line in BOOK if "p5." not in line))
    steps = {"2026-03-01": "14.2", "2026-03-12": "16.9", "2026-03-18": "15.1"}
    changes = [change(day, price, "us-west-2b", "p4de.24xlarge") for day, price in steps.items()]
    write(folder, "history.json", answer(changes))
    config = load_config(folder / "gpucost.toml", environ={}, cwd=folder)
    described = _two_weeks()
    store = load(described, [*scrape(described), *_queues()], config, hours_per_window=HOURS)
    _work(store)
    _run(folder, "collect spot", folder / "history.json")
    pipeline.attribute(config, store)


def billed(folder: Path) -> None:
    """Make three machines over two days, and their bill: spot, a savings plan, a reservation, on demand."""
    write(folder, "gpucost.toml", BILLED_CONFIG + SIGNED)
    write(folder, "unsigned.toml", BILLED_CONFIG)
    write_book(folder)
    described = machines("p4de.24xlarge")
    charged = list(charges(described, rate, booting=600))
    write(folder, "cur.csv", bill_files.aws_cur(charged))
    write(folder, "focus.csv", bill_files.focus(charged))
    write(folder, "gcp.jsonl", bill_files.gcp_jsonl(list(charges(machines("a2-highgpu-2g"), rate))))
    write(
        folder,
        "azure.csv",
        bill_files.azure_amortized(by_day(charges(machines("Standard_NC24ads_A100_v4"), rate))),
    )
    config = load_config(folder / "gpucost.toml", environ={}, cwd=folder)
    store = load(described, scrape(described, lean=True), config, hours_per_window=48)
    for error in collect_bills(store, [LocalTree(folder / "cur.csv")], "aws").errors:
        raise error
    with store.write() as con:
        # a local path would enter FOCUS files, and so their digests in a bundle's index
        change_bill_rows(con, "UPDATE bill_rows SET source_file = 'cur.csv'")
    pipeline.attribute(config, store)


FLEETS: dict[str, Callable[[Path], None]] = {"estimated": estimated, "billed": billed}


def _run(folder: Path, command: str, file: Path) -> None:
    call(*command.split(), str(file), "--config", str(folder / "gpucost.toml"))


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


#: Name, type, from hour, to hour, capacity type, cluster.
NODES_UP = """
train  | p4de.24xlarge |   0   | 336 | on_demand | main
spot-1 | p4de.24xlarge |  20   | 200 | spot      | main
spot-2 | p4de.24xlarge | 230.5 | 336 | spot      | main
serve  | g6.12xlarge   |   0   | 336 | on_demand | main
dev    | g6.12xlarge   |  12   | 336 | on_demand | main
dear   | p5.48xlarge   | 264   | 282 | on_demand | main
west   | a2-highgpu-2g |   0   | 336 | on_demand | west
"""
#: Name, node, GPU count, first GPU, from hour, to hour, utilization, owner.
PODS_HELD = """
run-a-0     | train  | 8 | 0 |   1 |  60    | 77 | train | Job/run-a
run-b-0     | train  | 8 | 0 |  70 | 150.25 |  3 | train | Job/run-b
run-c-0     | train  | 4 | 0 | 160 | 310    | 88 | train | PyTorchJob/run-c
sweep-1-0   | spot-1 | 4 | 0 |  24 |  60    | 91 | train | Job/sweep-1
sweep-2-0   | spot-1 | 8 | 0 |  61 | 100    | 64 | train | Job/sweep-2
sweep-3-0   | spot-1 | 8 | 0 | 101 | 199    | 70 | train | Job/sweep-3
sweep-4-0   | spot-2 | 8 | 0 | 232 | 336    | 70 | train | Job/sweep-4
dear-0      | dear   | 8 | 0 | 264 | 282    | 50 | train | Job/dear
embed-77c-0 | dev    | 1 | 1 |  14 | 336    | 12 | serve | ReplicaSet/embed-77c
"""


def _two_weeks() -> Fleet:
    nodes = [
        node(name, kind, float(start), float(end), bought, cluster=cluster)
        for name, kind, start, end, bought, cluster in text_rows(NODES_UP)
    ]
    util = {}
    pods = []

    def held(
        name: str, where: str, gpus: list[int], start: float, end: float, percent: float, **more: Any
    ) -> None:
        for key, spans in busy(where, gpus, start, end, percent).items():
            util.setdefault(key, []).extend(spans)
        pods.append(pod(name, where, gpus, start, end, **more))

    for name, where, count, first, start, end, percent, namespace, owner in text_rows(PODS_HELD):
        gpus = list(range(int(first), int(first) + int(count)))
        owned = {"namespace": namespace, "owner": owner.split("/")}
        held(name, where, gpus, float(start), float(end), int(percent), **owned)
    pods[5]["end_phase"] = "Failed"
    pods += [
        pod("ann-0", "dev", [0], 13, 330, "labs", owner=["StatefulSet", "ann-notebook"]),
        pod("big", None, [], 200, 206, "train", count=4, keep_until=at(206), owner=["Job", "big"]),
    ]
    for number in range(3):
        owner = ["ReplicaSet", "chat-5d8"]
        pods.append(pod(f"chat-5d8-{number}", "serve", [number], 0, HOURS, "serve", owner=owner))
        util[f"GPU-serve-{number}"] = [[at(24 * day + 8), at(24 * day + 18), 55] for day in range(DAYS)]
    for day in range(DAYS):
        noon = 24 * day
        where = {"namespace": "eval-nightly", "owner": ["Job", "nightly"], "cluster": "west"}
        held(f"nightly-{day}", "west", [0], noon + 2, noon + 5, 80, **where)
        if day < 5:
            util.setdefault("GPU-dev-0", []).append([at(max(noon + 9, 13)), at(noon + 17), 40])
    return fleet(HOURS, nodes, pods, util, scrape=900, cluster_label=True)


#: Counters per answer of a chat model: mapping, increase, and a label.
CHAT = """
vllm-requests          | 0.97 | finished_reason=stop
vllm-requests          | 0.03 | finished_reason=abort
vllm-prompt-tokens     | 780  |
vllm-generation-tokens | 214  |
"""
#: Run, parent, name, status, from hour, to hour, namespace, workload, loss.
RUNS = """
parent  |        | sweep   | FINISHED | 24  | 199 |       |             |
sweep-1 | parent | sweep-1 | FINISHED | 24  | 60  | train | Job/sweep-1 | 2.76
sweep-2 | parent | sweep-2 | FINISHED | 61  | 100 | train | Job/sweep-2 | 2.39
sweep-3 | parent | sweep-3 | FAILED   | 101 | 199 | train | Job/sweep-3 | 1.99
"""


def _work(store: Store) -> None:
    """Load epochs of a training pod, requests and tokens of a chat model, and a sweep from a tracker."""
    units = {unit.name: unit for unit in ready_made()}
    scraped = words("namespace=train pod=run-a-0 instance=run-a-0:9100")
    epochs = [(hour, float(hour // 6)) for hour in range(2, 60, 2)]
    counters = [(series_of(units["training-epochs"], scraped, "main"), epochs)]
    for number in range(3):
        done = [(hour, 4000.0 * hour + 1000 * number) for hour in range(0, HOURS, 2)]
        for mapping, each, reason in text_rows(CHAT):
            labels = words(
                f"{reason} namespace=serve pod=chat-5d8-{number} instance=chat-{number}:8000 model_name=llama-3-8b"
            )
            points = [(hour, math.floor(value * float(each))) for hour, value in done]
            counters.append((series_of(units[mapping], labels, "main"), points))
    put(store, counters, HOURS)
    found = [
        ProgressRun(
            run, parent, "sweep", name, status, at(float(start)) * 1000, at(float(end)) * 1000, "", namespace, "", workload, 0.0,
            {"val_loss": float(loss)} if loss else {},
        )
        for run, parent, name, status, start, end, namespace, workload, loss in text_rows(RUNS)
    ]  # fmt: skip
    with store.write() as con:
        load_runs(con, "mlflow", (at(0) * 1000, at(HOURS) * 1000), found, ProgressBatch())


def _queues() -> list[Series]:
    """Return a ClusterQueue with 8 GPUs that borrows by day, and with waiting jobs."""
    hours = np.arange(0, HOURS, 0.5)
    times = (at(0) + hours * 3600).astype(np.int64) * 1000
    is_day = (hours % 24 >= 8) & (hours % 24 < 20)
    base = words("job=kueue instance=10.0.0.7:8443 cluster=main cluster_queue=research")
    of_gpus = base | words("cohort=gpus flavor=any resource=nvidia.com/gpu")

    def one(metric: str, values: Any, labels: dict[str, str]) -> Series:
        samples = np.broadcast_to(np.asarray(values, float), times.shape)
        return Series({"__name__": f"kueue_{metric}", **labels}, times, samples)

    admitted = np.floor(hours)
    wait = "admission_wait_time_seconds"
    return [
        one("cluster_queue_nominal_quota", 8, of_gpus),
        one("cluster_queue_borrowing_limit", math.inf, of_gpus),
        one("cluster_queue_resource_usage", np.where(is_day, 12, 4), of_gpus),
        one("pending_workloads", np.where(is_day, 2, 0), {**base, "status": "active"}),
        one(f"{wait}_sum", admitted * 90, base),
        one(f"{wait}_count", admitted, base),
        one(f"{wait}_bucket", np.floor(admitted / 2), {**base, "le": "40"}),
        *(one(f"{wait}_bucket", admitted, {**base, "le": most}) for most in ("320", "+Inf")),
    ]
