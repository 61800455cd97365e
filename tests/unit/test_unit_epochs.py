"""The cost of an epoch: its workload's cost in the epoch's own interval, to the last digit; and runs that were killed."""

from __future__ import annotations

import re
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpucost.collect.progress.files import import_files
from gpucost.collect.progress.mappings import levels
from gpucost.config.model import Config
from gpucost.errors import GpucostError
from gpucost.questions.units import reading as units
from gpucost.questions.units.work import Levels, intervals
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs
from tests.replay.cases.words import at, fleet, node, pod
from tests.replay.work import asked, counter, put, stored
from tests.unit.command import check_end
from tests.unit.whatif_costs import figures, listed

# Each scene is a job with the hours of its pods: 8 A100s at $3 an hour, $24. `counted`: labels (`pod` is a number), and levels
# by hour. `mlflow`: a run, its start and end, and the ends of epochs. Then the expected cost of epochs and runs.
SCENES = """
even
pods    0-20
counted pod=0 | 0.01:0 4:1 8:2 12:3 16:4
epochs  1 done 95.76, 2 done 96, 3 done 96, 4 done 96
run     any | epochs_done=4 cost=480 outside_cost=96.24

slower: epochs 1 and 2 took two hours each, 3 and 4 four hours each
pods    0-24
counted pod=0 | 0:0 2:1 4:2 8:3 12:4
run     any | trend_percent=100 mean_cost=72

restarted from nothing
pods    0-9 10-24
counted pod=0 | 0:0 4:1 8:2 8.9:2
counted pod=1 | 10:0 14:1 18:2 22:3
epochs  1 lost 96, 2 lost 96, 3 lost 24, 1 done 96, 2 done 96, 3 done 96, 4 unfinished 48
run     any | lost_cost=216 attempts=2 cost=552

resumed from a checkpoint
pods    0-9 10-24
counted pod=0 resumes=yes | 0:0 4:1 8:2 8.9:2
counted pod=1 resumes=yes | 10:0 13:1 17:2
epochs  1 done 96, 2 done 96, 3 done 96, 4 done 96, 5 unfinished 168

a gauge of the epoch that has begun: fell back to epoch 1; epoch 1 and the started part of epoch 2 are lost
pods    0-20
counted pod=0 kind=gauge marks=begin | 1:0 5:1 9:2 12:1 16:2 19.9:2
epochs  0 done 96, 1 lost 96, 2 lost 72, 1 done 96, 2 done 96
run     any | outside_cost=24

two runs of one pod split its cost by time
pods    0-24
counted pod=0 run_id=a | 2:0 4:1 6:2
counted pod=0 run_id=b | 5:0 7:1
run     a | cost=84
run     b | cost=36

logged as 0, 1, 2
pods    0-12
epochs  0 done 96, 1 done 96, 2 done 96
run     any | epochs_done=3 mean_cost=96 outside_cost=0

killed, and another began: the third epoch of the first run is lost; later epochs belong to the second
pods    0-9 10-24
mlflow  first 0 ? | 4:1 8:2
mlflow  again 10 22 | 14:1 18:2 22:3
run     first | cost=216 lost_cost=24 mean_cost=96
run     again | cost=288 lost_cost=0 mean_cost=96

continues in the next pod
pods    0-9 10-24
mlflow  only 0 ? | 4:1 8:2 14:3 18:4
run     only | epochs_done=4 cost=552 unfinished_cost=144

continues next to an evaluation
pods    0-9 10-24
mlflow  resumed 0 ? | 4:1 8:2 14:3 18:4
mlflow  evaluation 19 20 | 20:1
epochs  1 done 12, 1 done 96, 2 done 96, 3 done 120, 4 done 96, 5 unfinished 132
run     resumed | epochs_done=4 lost_cost=0

silent
pods    0-20

work before its pods
pods    12-20
counted workload=Job/work-before-its-pods | 1:0 4:1 8:2

work once before its pods
pods    12-20
counted workload=Job/work-once-before-its-pods | 1:0 4:1 8:2

first of two ranks
owner   PyTorchJob/ddp
pods    0-12
counted pod=0 | 0:0 4:1 8:2 11.9:2

second of two ranks
owner   PyTorchJob/ddp
pods    0-12
counted pod=0 | 0.01:0 4.01:1 8.01:2 11.91:2

jobs of a cron job
owner   CronJob/nightly
names   nightly-29390000-abcde nightly-29390600-fghij
pods    0-4 10-14
counted pod=0 | 0:0 2:1 3.9:2
counted pod=1 | 10:0 12:1 13.9:2"""
Lines = list[list[str]]
Stored = tuple[Config, Store]


def scenes() -> dict[str, Lines]:
    """The words of each line, by the name of the job."""
    found = {}
    for text in SCENES.strip().split("\n\n"):
        name, *lines = text.splitlines()
        found[name.partition(":")[0].replace(" ", "-").replace(",", "")] = [
            line.split(None, 1) for line in lines
        ]
    return found


def of_kind(lines: Lines, kind: str) -> list[str]:
    return [words for name, words in lines if name == kind]


def words_of(text: str) -> tuple[dict[str, str], list[tuple[float, float]]]:
    """Labels before the bar, then pairs of hour and level."""
    labels, _, points = text.partition(" | ")
    pairs = [point.split(":") for point in points.split()]
    return dict(re.findall(r"(\w+)=(\S+)", labels)), [(float(hour), float(level)) for hour, level in pairs]


def spans(lines: Lines) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in re.findall(r"(\d+)-(\d+)", of_kind(lines, "pods")[0])]


def tell(store: Store) -> None:
    """The runs in MLflow."""
    batch, found = ProgressBatch(), []
    for job, lines in scenes().items():
        for text in of_kind(lines, "mlflow"):
            name, start, end = text.partition(" | ")[0].split()
            found.append(
                ProgressRun(
                    name, "", "llm", name, "RUNNING" if end == "?" else "FINISHED", at(int(start)) * 1000,
                    0 if end == "?" else at(int(end)) * 1000, "", "train", "", f"Job/{job}", 0, {},
                )
            )  # fmt: skip
            series = ProgressSeries(
                "mlflow", "epoch", "gauge", (), "", "train", "", f"Job/{job}", run_id=name
            )
            hours, reached = np.array(words_of(text)[1]).T
            batch.add(series, np.array([at(hour) * 1000 for hour in hours]), reached)
    with store.write() as con:
        load_runs(con, "mlflow", (at(0) * 1000, at(24) * 1000), found, batch)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    """All scenes in one store."""
    nodes, pods, series = [], [], []
    for job, lines in scenes().items():
        nodes.append(node(job, "p4de.24xlarge", 0, 24))
        (owner,) = of_kind(lines, "owner") or [f"Job/{job}"]
        names = "".join(of_kind(lines, "names")).split() or [f"{job}-{number}" for number in range(2)]
        for name, span in zip(names, spans(lines), strict=False):
            pods.append(pod(name, job, list(range(8)), *span, owner=owner.split("/")))
        for text in of_kind(lines, "counted"):
            labels, points = words_of(text)
            name = names[int(labels.pop("pod"))] if "pod" in labels else ""
            series.append((counter("epoch", name, **labels), points))
    series.append((counter("epoch", "elsewhere-0"), [(0, 0), (4, 1)]))
    folder = tmp_path_factory.mktemp("epochs")
    config, store = stored(fleet(24, nodes, pods, {}, scrape=600), folder)
    put(store, series)
    early = counter("epoch", "", workload="Job/work-before-its-pods", run_id="early")
    put(store, [(early, [(2, 0), (5, 3)])], source="other")
    path = folder / "epochs.csv"
    path.write_text("""workload,time,unit,value
Job/logged-as-0-1-2,2026-03-10T04:00Z,epoch,0
Job/logged-as-0-1-2,2026-03-10T08:00Z,epoch,1
Job/logged-as-0-1-2,2026-03-10T12:00Z,epoch,2
""")
    import_files(store, [path], config.tz)
    tell(store)
    return config, store


@pytest.fixture(scope="module")
def view(loaded: Stored) -> units.UnitView:
    return asked(*loaded)


def of(found: list[dict[str, Any]], workload: str) -> list[dict[str, Any]]:
    return [row for row in found if row["workload"] == workload]


def epochs(rows: list[dict[str, Any]]) -> list[str]:
    return [
        f"{row['epoch']} {row['status']} {round(row['cost'], 2)}" for row in rows if row["epoch"] is not None
    ]


@pytest.mark.parametrize(
    "job", [job for job, lines in scenes().items() if {"epochs", "run"} & {kind for kind, _ in lines}]
)
def test_cost_of_epochs_and_runs(view: units.UnitView, job: str) -> None:
    lines = scenes()[job]
    rows, runs = of(view.rows, f"Job/{job}"), of(view.sections["runs"], f"Job/{job}")
    for text in of_kind(lines, "epochs"):
        assert [epoch.removesuffix(".00") for epoch in epochs(rows)] == text.split(", ")
    for text in of_kind(lines, "run"):
        (found,) = [run for run in runs if text.startswith((f"{run['run']} ", "any "))]
        expected = {key: Decimal(value) for key, value in words_of(text.replace(" | ", " "))[0].items()}
        costs = {key: round(found[key], 2) if key.endswith("_cost") else found[key] for key in expected}
        assert costs == expected
    # the whole cost of its pods, to the last digit
    assert sum(row["cost"] for row in rows) == sum(end - start for start, end in spans(lines)) * 24


# 6 epochs remain at $96, less the $288 spent since the fourth; and two of five epochs remain
@pytest.mark.parametrize(
    ("job", "planned", "forecast"), [("slower", 10, "6 864"), ("logged-as-0-1-2", 5, "2 480")]
)
def test_planned_epochs_have_a_forecast(loaded: Stored, job: str, planned: int, forecast: str) -> None:
    (run,) = asked(*loaded, partial(units.epochs, planned_epochs=planned), workloads=(job,)).sections["runs"]
    assert figures(run, "remaining_epochs forecast_cost") == forecast


def test_ranks_form_one_run_and_cron_jobs_form_one_each(view: units.UnitView) -> None:
    assert listed(of(view.sections["runs"], "PyTorchJob/ddp"), "epochs_done cost") == "2 576"
    nights = listed(of(view.sections["runs"], "CronJob/nightly"), "run epochs_done lost_epochs")
    assert nights == "nightly-29390000 2 0; nightly-29390600 2 0"
    assert epochs(of(view.rows, "PyTorchJob/ddp"))[:2] == ["1 done 192.00", "2 done 192.00"]
    assert sum(row["cost"] for row in of(view.rows, "CronJob/nightly")) == 8 * 24


def test_work_without_cost_and_cost_without_work_are_listed(view: units.UnitView) -> None:
    found = listed(view.sections["work_without_cost"], "workload amount why").split("; ")
    assert sorted(found) == [
        "Job/work-before-its-pods 3 its pods had no cost then",
        "Job/work-once-before-its-pods 2 its pods had no cost then",
        "train/elsewhere-0 1 no GPU pod has this name",
    ]
    unworked = listed(view.sections["cost_without_work"], "workload cost").split("; ")
    assert sorted(unworked) == ["Job/silent 480", "Job/work-once-before-its-pods 192"]
    rows = of(view.rows, "Job/work-before-its-pods")
    assert [row["cost"] for row in rows if row["epoch"] is None] == [8 * 24]
    assert view.totals["allocated_cost"] == view.totals["cost"] + 480 + 8 * 24


def test_mlflow_runs_are_listed_as_experiments(loaded: Stored) -> None:
    rows = asked(*loaded, units.experiments, workloads=("killed-and-another-began",)).rows
    runs = [row for row in rows if row["kind"] == "run"]
    assert sorted(listed(runs, "name cost").split("; ")) == ["again 288", "first 216"]


def test_epochs_of_a_part_of_the_period(loaded: Stored) -> None:
    rows = asked(*loaded, hours=(3, 10), workloads=("even",)).rows
    assert listed(rows, "epoch is_whole cost") == "1 False 24; 2 True 96; 3 False 48"


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"teams": ("absent",)}, "team 'absent'"),
        ({"workloads": ("Job/run-b",)}, "workload 'Job/run-b'"),
        ({"namespaces": ("other",), "workloads": ("even",)}, "namespace 'other'"),
    ],
)
def test_name_without_gpus_is_refused(loaded: Stored, filters: Any, named: str) -> None:
    with pytest.raises(GpucostError, match=f"no {named} held GPUs in the day"):
        asked(*loaded, **filters)


def test_period_without_data_is_refused(loaded: Stored) -> None:
    message = "no data for January 2020"
    check_end(f"unit epoch --config {loaded[0].path} --month 2020-01", "1", message)


# Moments and levels that a run counted, or moments, steps and epochs that it logged, with its end; then its epochs.
COUNTED = """
missed scrapes share the time between the epochs in it
counted 0:0 90:3 | end 100 from_zero is_over
1 done 0-30, 2 done 30-60, 3 done 60-90, None outside 90-100

epochs before collection are unknown
counted 10:5 20:6 | end 20 is_over
None outside 0-10, 6 done 10-20

a log that counts from 0 reports completed epochs: 40 each
counted 40:0 80:1 120:2 | end 130 from_zero is_over is_log
0 done 0-40, 1 done 40-80, 2 done 80-120, None outside 120-130

an immediate 0 is not a completed epoch
counted 2:0 80:1 120:2 | end 130 from_zero is_over is_log
None outside 0-2, 1 done 2-80, 2 done 80-120, None outside 120-130

a log from 0 that falls back
counted 40:0 80:1 81:-1 121:0 | end 130 from_zero is_over failed is_log
0 lost 0-40, 1 lost 40-80, 0 done 80-121, 1 lost 121-130

a log of a single epoch
counted 40:0 | end 42 from_zero is_over is_log
0 done 0-40, None outside 40-42

a fraction alone is an epoch under way
counted 35:0.7 | end 40 from_zero is_log
1 unfinished 0-40

an epoch logged again is done again
logged 10:1:1 20:2:2 30:3:3 50:2:2 60:3:3 | end 70 from_zero is_over
1 done 0-10, 2 lost 10-20, 3 lost 20-30, 2 done 30-50, 3 done 50-60, None outside 60-70

a first entry with a fraction is an epoch under way
logged 35:7:0.7 70:14:1.4 105:21:2.1 | end 110 from_zero is_over is_log
1 done 0-70, 2 done 70-105, None outside 105-110

several entries within the first epoch, as trainers write them every few steps
logged 10:0:0.1 20:1:0.4 30:2:0.8 40:3:1.0 50:4:1.5 60:5:2.0 | end 70 from_zero is_over is_log
1 done 0-40, 2 done 40-60, None outside 60-70

fractions of epochs that have begun
logged 10:0:0.5 20:1:1.0 30:2:1.5 40:3:2.0 | begin 70 from_zero is_over is_log
None outside 0-10, 0 done 10-20, 1 done 20-40, 2 done 40-70"""


@pytest.mark.parametrize(
    ("run", "expected"),
    [pytest.param(*lines, id=name) for name, *lines in map(str.splitlines, COUNTED.strip().split("\n\n"))],
)
def test_counted_or_logged_levels_become_epochs(run: str, expected: str) -> None:
    (how, *entries), (marks, end, *flags) = (half.split() for half in run.split(" | "))
    numbers: Any = [[int(entry.split(":")[0]), *map(float, entry.split(":")[1:])] for entry in entries]
    reached: Any = zip(*levels(numbers, marks), strict=True) if how == "logged" else map(tuple, numbers)
    known = {flag: flag in flags for flag in ("from_zero", "is_over", "failed", "is_log")}
    found = intervals(Levels(tuple(reached), 0, int(end), marks, **known))
    assert ", ".join(f"{i.epoch} {i.status} {i.from_ms}-{i.to_ms}" for i in found) == expected
