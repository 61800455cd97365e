"""What an epoch costs: its workload's cost over the epoch's own interval, to the last digit; and runs that were killed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
from tests.unit.command import call

CENT = Decimal("0.01")
Points = Sequence[tuple[float, float]]
WHOLE, CRASHED = [(0, 24)], [(0, 9), (10, 24)]  # hours of a job's pods, each with 8 A100s at $3 an hour: $24
TO_EPOCH_4 = [(4, 1), (8, 2), (14, 3), (18, 4)]


@dataclass
class Scene:
    """A job's pods, what they (by number, or with a series' own labels) counted, and what its epochs and runs cost."""

    pods: Points
    counted: Sequence[tuple[int | dict[str, Any], Points]] = ()
    epochs: Sequence[tuple[int, str, float]] = ()
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    # runs that MLflow knows: name, begin and end (None: unknown), and when epochs ended
    mlflow: Sequence[tuple[str, float, float | None, Points]] = ()


GAUGE = {"kind": "gauge", "marks": "begin"}
SCENES = {
    "even": Scene(
        [(0, 20)], [(0, [(0.01, 0), *((4 * n, n) for n in range(1, 5))])],
        [(1, "done", 95.76), (2, "done", 96), (3, "done", 96), (4, "done", 96)],
        {"": {"epochs_done": 4, "cost": 480, "outside_cost": Decimal("96.24")}},
    ),
    # epochs 1 and 2 took two hours each, 3 and 4 four hours each
    "slower": Scene(
        WHOLE, [(0, [(0, 0), (2, 1), (4, 2), (8, 3), (12, 4)])],
        runs={"": {"trend_percent": 100.0, "mean_cost": 72, "best_epoch": 1, "best_cost": 48}},
    ),
    "restarted from nothing": Scene(
        CRASHED, [(0, [(0, 0), (4, 1), (8, 2), (8.9, 2)]), (1, [(10, 0), (14, 1), (18, 2), (22, 3)])],
        [(1, "lost", 96), (2, "lost", 96), (3, "lost", 24), (1, "done", 96), (2, "done", 96), (3, "done", 96),
         (4, "unfinished", 48)],
        {"": {"lost_cost": 216, "attempts": 2, "cost": 23 * 24}},
    ),
    "resumed from a checkpoint": Scene(
        CRASHED,
        [({"pod": 0, "resumes": True}, [(0, 0), (4, 1), (8, 2), (8.9, 2)]),
         ({"pod": 1, "resumes": True}, [(10, 0), (13, 1), (17, 2)])],
        [(1, "done", 96), (2, "done", 96), (3, "done", 96), (4, "done", 96), (5, "unfinished", 168)],
    ),
    # fell back to epoch 1: it and what had begun of epoch 2 are lost
    "a gauge of the epoch that has begun": Scene(
        [(0, 20)], [({"pod": 0} | GAUGE, [(1, 0), (5, 1), (9, 2), (12, 1), (16, 2), (19.9, 2)])],
        [(0, "done", 96), (1, "lost", 96), (2, "lost", 72), (1, "done", 96), (2, "done", 96)], {"": {"outside_cost": 24}},
    ),
    "two runs of one pod split its cost by time": Scene(
        WHOLE, [({"pod": 0, "run_id": "a"}, [(2, 0), (4, 1), (6, 2)]), ({"pod": 0, "run_id": "b"}, [(5, 0), (7, 1)])],
        runs={"a": {"cost": 3 * 24 + 12}, "b": {"cost": 12 + 24}},
    ),
    "logged as 0, 1, 2": Scene(
        [(0, 12)], epochs=[(0, "done", 96), (1, "done", 96), (2, "done", 96)],
        runs={"": {"epochs_done": 3, "mean_cost": 96, "outside_cost": 0}},
    ),
    # what it had done of the third epoch is lost, and none of what came after is its own
    "killed, and another began": Scene(
        CRASHED, mlflow=[("first", 0, None, [(4, 1), (8, 2)]), ("again", 10, 22, [(14, 1), (18, 2), (22, 3)])],
        runs={"first": {"cost": 9 * 24, "lost_cost": 24, "mean_cost": 96},
              "again": {"cost": 12 * 24, "mean_cost": 96, "lost_cost": 0}},
    ),
    "goes on in the next pod": Scene(
        CRASHED, mlflow=[("only", 0, None, TO_EPOCH_4)],
        runs={"only": {"epochs_done": 4, "cost": 23 * 24, "unfinished_cost": 6 * 24}}
    ),
    "goes on beside an evaluation": Scene(
        CRASHED, mlflow=[("resumed", 0, None, TO_EPOCH_4), ("evaluation", 19, 20, [(20, 1)])],
        runs={"resumed": {"epochs_done": 4, "lost_cost": 0}},
    ),
    "silent": Scene([(0, 20)]),
    "told of before its pods": Scene([(12, 20)]),
    "told of once before its pods": Scene([(12, 20)]),
}  # fmt: skip
JOBS = {name: name.replace(" ", "-").replace(",", "") for name in SCENES}
NIGHTS = {"nightly-29390000-abcde": 0, "nightly-29390600-fghij": 10}
EARLY: Points = [(1, 0), (4, 1), (8, 2)]


def tell(store: Store) -> None:
    """What MLflow knows of the runs."""
    batch, found = ProgressBatch(), []
    for scene, job in JOBS.items():
        for name, start, end, points in SCENES[scene].mlflow:
            found.append(
                ProgressRun(
                    run_id=name, parent_id="", experiment="llm", name=name, status="RUNNING" if end is None else "FINISHED",
                    started_ms=at(start) * 1000, ended_ms=0 if end is None else at(end) * 1000,
                    cluster="", namespace="train", pod="", workload=f"Job/{job}", planned_epochs=0, metrics={},
                )
            )  # fmt: skip
            series = ProgressSeries(
                "mlflow", "epoch", "gauge", (), "", "train", "", f"Job/{job}", run_id=name
            )
            hours, reached = zip(*points, strict=True)
            batch.add(series, np.array([at(hour) * 1000 for hour in hours]), np.array(reached, dtype=float))
    with store.write() as con:
        load_runs(con, "mlflow", (at(0) * 1000, at(24) * 1000), found, batch)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, Store]:
    """All scenes in one store, a run of two ranks and a cron job among them."""
    nodes, pods, series = [], [], []
    for scene, job in JOBS.items():
        nodes.append(node(job, "p4de.24xlarge", 0, 24))
        for number, (start, end) in enumerate(SCENES[scene].pods):
            pods.append(pod(f"{job}-{number}", job, list(range(8)), start, end, owner=["Job", job]))
        for labels, points in SCENES[scene].counted:
            more = {"pod": labels} if isinstance(labels, int) else dict(labels)
            series.append((counter("epoch", f"{job}-{more.pop('pod')}", **more), points))
    for number in range(2):
        nodes.append(node(f"rank{number}", "p4de.24xlarge", 0, 12))
        pods.append(pod(f"ddp-{number}", f"rank{number}", list(range(8)), 0, 12, owner=["PyTorchJob", "ddp"]))
        points = [(hour + number / 100, value) for hour, value in ((0, 0), (4, 1), (8, 2), (11.9, 2))]
        series.append((counter("epoch", f"ddp-{number}"), points))
    nodes.append(node("cron", "p4de.24xlarge", 0, 24))
    for name, start in NIGHTS.items():
        pods.append(pod(name, "cron", list(range(8)), start, start + 4, owner=["CronJob", "nightly"]))
        series.append((counter("epoch", name), [(start, 0), (start + 2, 1), (start + 3.9, 2)]))
    for name in ("told of before its pods", "told of once before its pods"):
        series.append((counter("epoch", "", workload=f"Job/{JOBS[name]}"), EARLY))
    series.append((counter("epoch", "elsewhere-0"), [(0, 0), (4, 1)]))
    folder = tmp_path_factory.mktemp("epochs")
    config, store = stored(fleet(24, nodes, pods, {}, scrape=600), folder)
    put(store, series)
    put(
        store,
        [(counter("epoch", "", workload="Job/told-of-before-its-pods", run_id="early"), [(2, 0), (5, 3)])],
        source="other",
    )
    path = folder / "epochs.csv"
    rows = "".join(f"Job/logged-as-0-1-2,2026-03-10T{4 * (n + 1):02}:00Z,epoch,{n}\n" for n in range(3))
    path.write_text(f"workload,time,unit,value\n{rows}")
    import_files(store, [path], config.tz)
    tell(store)
    return config, store


@pytest.fixture(scope="module")
def view(told: tuple[Config, Store]) -> units.UnitView:
    return asked(*told)


def of(found: list[dict[str, Any]], workload: str) -> list[dict[str, Any]]:
    return [row for row in found if row["workload"] == workload]


def epochs(rows: list[dict[str, Any]]) -> list[tuple[int, str, float]]:
    return [
        (row["epoch"], row["status"], round(float(row["cost"]), 2))
        for row in rows
        if row["epoch"] is not None
    ]


@pytest.mark.parametrize("name", [name for name, scene in SCENES.items() if scene.epochs or scene.runs])
def test_what_epochs_and_runs_cost(view: units.UnitView, name: str) -> None:
    scene, workload = SCENES[name], f"Job/{JOBS[name]}"
    rows, runs = of(view.rows, workload), of(view.sections["runs"], workload)
    if scene.epochs:
        assert epochs(rows) == scene.epochs
    for run, expected in scene.runs.items():
        (found,) = [one for one in runs if one["run"] == run or not run]
        assert {
            key: found[key].quantize(CENT) if key.endswith("_cost") else found[key] for key in expected
        } == expected
    # all that its pods cost, to the last digit
    assert sum(row["cost"] for row in rows) == sum(
        (Decimal(end - start) * 24 for start, end in scene.pods), Decimal(0)
    )


def test_what_is_planned_has_a_forecast(told: tuple[Config, Store]) -> None:
    runs = {}
    for planned, name in ((10, "slower"), (5, "logged as 0, 1, 2")):
        answer = asked(*told, partial(units.epochs, planned_epochs=planned), workloads=(JOBS[name],))
        (runs[name],) = ((run["remaining_epochs"], run["forecast_cost"]) for run in answer.sections["runs"])
    # 6 epochs to come at $96, of which the $288 since the fourth count already; and two of five
    assert runs == {"slower": (6, 24 * 24 + 6 * 96 - 288), "logged as 0, 1, 2": (2, 5 * 96)}


def test_ranks_are_one_run_and_each_job_of_a_cron_job_is_one(view: units.UnitView) -> None:
    (run,) = of(view.sections["runs"], "PyTorchJob/ddp")
    assert (run["epochs_done"], run["cost"]) == (2, 12 * 48)
    assert [cost for _, status, cost in epochs(of(view.rows, "PyTorchJob/ddp")) if status == "done"] == [
        192,
        192,
    ]
    nights = of(view.sections["runs"], "CronJob/nightly")
    assert [(run["run"], run["epochs_done"], run["lost_epochs"]) for run in nights] == [
        ("nightly-29390000", 2, 0),
        ("nightly-29390600", 2, 0),
    ]
    assert sum(row["cost"] for row in of(view.rows, "CronJob/nightly")) == 8 * 24


def test_work_without_cost_and_cost_without_work_are_listed(view: units.UnitView) -> None:
    found = {(row["workload"], row["amount"], row["why"]) for row in view.sections["work_without_cost"]}
    assert found == {
        ("train/elsewhere-0", 1, "no pod with GPUs is known by this name"),
        ("Job/told-of-before-its-pods", 3, "its pods cost nothing then"),
        ("Job/told-of-once-before-its-pods", 2, "its pods cost nothing then"),
    }
    unworked = {row["workload"]: row["cost"] for row in view.sections["cost_without_work"]}
    assert unworked == {"Job/silent": 480, "Job/told-of-once-before-its-pods": 8 * 24}
    assert [row["cost"] for row in of(view.rows, "Job/told-of-before-its-pods") if row["epoch"] is None] == [
        8 * 24
    ]
    assert view.totals["allocated_cost"] == view.totals["cost"] + 480 + 8 * 24


def test_runs_of_mlflow_are_experiments(told: tuple[Config, Store]) -> None:
    answer = asked(*told, units.experiments, workloads=(JOBS["killed, and another began"],))
    assert {row["name"]: row["cost"] for row in answer.rows if row["kind"] == "run"} == {
        "first": 9 * 24,
        "again": 12 * 24,
    }


def test_a_run_is_not_ended_by_another_one_beside_it(view: units.UnitView) -> None:
    rows = [row for row in of(view.rows, "Job/goes-on-beside-an-evaluation") if row["run"] == "resumed"]
    assert epochs(rows)[2:4] == [(3, "done", 5 * 24), (4, "done", 4 * 24)]


def test_a_part_of_the_period_and_filters(told: tuple[Config, Store]) -> None:
    rows = asked(*told, hours=(3, 10), workloads=("even",)).rows
    assert [(row["epoch"], row["is_whole"], row["cost"]) for row in rows] == [
        (1, False, 24),
        (2, True, 96),
        (3, False, 48),
    ]
    refused: tuple[tuple[dict[str, Any], str], ...] = (
        ({"teams": ("nobody",)}, "no team 'nobody' held GPUs in the day"),
        ({"workloads": ("Job/run-b",)}, "no workload 'Job/run-b' held GPUs in the day"),
        ({"namespaces": ("other",), "workloads": ("even",)}, "no namespace 'other' held GPUs in the day"),
    )
    for filters, message in refused:
        with pytest.raises(GpucostError, match=message):
            asked(*told, **filters)


def test_a_period_that_holds_nothing_is_no_answer(told: tuple[Config, Store]) -> None:
    _, err = call("unit", "epoch", "--config", str(told[0].path), "--month", "2020-01", code=1)
    assert "there is no data for January 2020" in err


def log(*reached: tuple[int, float], end: int, is_over: bool = True, failed: bool = False) -> Levels:
    """Of a run that logs what it has done, from 0 on."""
    return Levels(reached, 0, end, "end", from_zero=True, is_over=is_over, failed=failed, is_log=True)


# what a run counted, and its epochs: (number, status, from, to)
COUNTED = {
    "missed scrapes share the time between the epochs in it": (
        Levels(((0, 0), (90, 3)), 0, 100, "end", from_zero=True, is_over=True),
        [(1, "done", 0, 30), (2, "done", 30, 60), (3, "done", 60, 90), (None, "outside", 90, 100)],
    ),
    "epochs before collection are unknown": (
        Levels(((10, 5), (20, 6)), 0, 20, "end", from_zero=False, is_over=True),
        [(None, "outside", 0, 10), (6, "done", 10, 20)],
    ),
    "a log that counts from 0 says what it has done: epochs of 40 each": (
        log((40, 0), (80, 1), (120, 2), end=130),
        [(0, "done", 0, 40), (1, "done", 40, 80), (2, "done", 80, 120), (None, "outside", 120, 130)],
    ),
    "a 0 that comes at once says that nothing is done yet": (
        log((2, 0), (80, 1), (120, 2), end=130),
        [(None, "outside", 0, 2), (1, "done", 2, 80), (2, "done", 80, 120), (None, "outside", 120, 130)],
    ),
    "a log from 0 that falls back": (
        log((40, 0), (80, 1), (81, -1), (121, 0), end=130, failed=True),
        [(0, "lost", 0, 40), (1, "lost", 40, 80), (0, "done", 80, 121), (1, "lost", 121, 130)],
    ),
    "a log of a single epoch": (log((40, 0), end=42), [(0, "done", 0, 40), (None, "outside", 40, 42)]),
    "a fraction alone is an epoch under way": (
        log((35, 0.7), end=40, is_over=False),
        [(1, "unfinished", 0, 40)],
    ),
}
# what a run logged as (moment, step, epoch), what that marks, where it ended, and its epochs
LOGGED = {
    "an epoch logged again is done again": (
        [(10, 1, 1), (20, 2, 2), (30, 3, 3), (50, 2, 2), (60, 3, 3)], "end", 70, False,
        [(1, "done", 0, 10), (2, "lost", 10, 20), (3, "lost", 20, 30), (2, "done", 30, 50), (3, "done", 50, 60),
         (None, "outside", 60, 70)],
    ),
    "a first entry with a fraction is an epoch under way": (
        [(35, 7, 0.7), (70, 14, 1.4), (105, 21, 2.1)], "end", 110, True,
        [(1, "done", 0, 70), (2, "done", 70, 105), (None, "outside", 105, 110)],
    ),
    "several entries within the first epoch, as trainers write them every few steps": (
        [(10 * (step + 1), step, number) for step, number in enumerate([0.1, 0.4, 0.8, 1.0, 1.5, 2.0])], "end", 70, True,
        [(1, "done", 0, 40), (2, "done", 40, 60), (None, "outside", 60, 70)],
    ),
    "fractions of epochs that have begun": (
        [(10 * (step + 1), step, number) for step, number in enumerate([0.5, 1.0, 1.5, 2.0])], "begin", 70, True,
        [(None, "outside", 0, 10), (0, "done", 10, 20), (1, "done", 20, 40), (2, "done", 40, 70)],
    ),
}  # fmt: skip
Epochs = list[tuple[int | None, str, int, int]]


@pytest.mark.parametrize(("run", "expected"), COUNTED.values(), ids=list(COUNTED))
def test_what_was_counted_is_epochs(run: Levels, expected: Epochs) -> None:
    assert [(i.epoch, i.status, i.from_ms, i.to_ms) for i in intervals(run)] == expected


@pytest.mark.parametrize(("entries", "marks", "end", "is_log", "expected"), LOGGED.values(), ids=list(LOGGED))
def test_what_was_logged_is_epochs(
    entries: list[tuple[int, int, float]], marks: str, end: int, is_log: bool, expected: Epochs
) -> None:
    times, reached = levels(entries, marks)
    run = Levels(
        tuple(zip(times, reached, strict=True)), 0, end, marks, from_zero=True, is_over=True, is_log=is_log
    )
    assert [(i.epoch, i.status, i.from_ms, i.to_ms) for i in intervals(run)] == expected
