"""What an epoch costs: its workload's cost over the epoch's own interval, to the last digit; and runs that were killed."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gpucost.collect.progress.files import import_files
from gpucost.collect.progress.mappings import levels
from gpucost.errors import GpucostError
from gpucost.report import units
from gpucost.report.units.work import Levels, intervals
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.work import asked, counter, put, stored, training


def done(view: units.UnitView) -> list[tuple[int, str, float]]:
    return [(row["epoch"], row["status"], round(float(row["cost"]), 2)) for row in view.rows if row["epoch"] is not None]


def test_eight_a100s_at_3_dollars_for_4_hours_are_96_dollars(tmp_path: Path) -> None:
    config, store = stored(training([(0, 20)]), tmp_path)
    put(store, [(counter("epoch", "run-a-0"), [(0.01, 0), *((4 * n, n) for n in range(1, 5))])])
    view = asked(config, store)
    assert [row["cost"].quantize(Decimal("0.01")) for row in view.rows if row["epoch"] in (2, 3, 4)] == [Decimal("96.00")] * 3
    (run,) = view.sections["runs"]
    assert run["epochs_done"] == 4
    assert sum(row["cost"] for row in view.rows) == run["cost"] == view.totals["allocated_cost"] == Decimal("480.000000000")
    assert run["outside_cost"] == pytest.approx(Decimal("96.24"), abs=Decimal("0.01"))


def test_forecast_and_trend(tmp_path: Path) -> None:
    config, store = stored(training([(0, 24)]), tmp_path)
    put(store, [(counter("epoch", "run-a-0"), [(0, 0), (2, 1), (4, 2), (8, 3), (12, 4)])])
    view = asked(config, store, partial(units.epochs, planned_epochs=10))
    (run,) = view.sections["runs"]
    # epochs 1 and 2 took two hours each, 3 and 4 four hours each
    assert run["trend_percent"] == 100.0
    assert run["mean_cost"] == Decimal(72)
    assert (run["best_epoch"], run["best_cost"]) == (1, Decimal(48))
    # 6 epochs to come at $96, of which the $288 since the fourth count already
    assert run["remaining_epochs"] == 6
    assert run["forecast_cost"] == Decimal(24 * 24) + 6 * 96 - 288


def test_work_after_a_restart_from_nothing_loses_what_was_done(tmp_path: Path) -> None:
    config, store = stored(training([(0, 9), (10, 24)]), tmp_path)
    put(
        store,
        [
            (counter("epoch", "run-a-0"), [(0, 0), (4, 1), (8, 2), (8.9, 2)]),
            (counter("epoch", "run-a-1"), [(10, 0), (14, 1), (18, 2), (22, 3)]),
        ],
    )
    view = asked(config, store)
    assert done(view)[:7] == [
        (1, "lost", 96), (2, "lost", 96), (3, "lost", 24), (1, "done", 96), (2, "done", 96), (3, "done", 96),
        (4, "unfinished", 48),
    ]  # fmt: skip
    (run,) = view.sections["runs"]
    assert run["lost_cost"] == Decimal(216)
    assert run["attempts"] == 2
    assert view.totals["cost"] == Decimal(23 * 24)


def test_a_counter_that_resumes_from_a_checkpoint_goes_on(tmp_path: Path) -> None:
    config, store = stored(training([(0, 9), (10, 24)]), tmp_path)
    put(
        store,
        [
            (counter("epoch", "run-a-0", resumes=True), [(0, 0), (4, 1), (8, 2), (8.9, 2)]),
            (counter("epoch", "run-a-1", resumes=True), [(10, 0), (13, 1), (17, 2)]),
        ],
    )
    view = asked(config, store)
    assert done(view) == [(1, "done", 96), (2, "done", 96), (3, "done", 96), (4, "done", 96), (5, "unfinished", 168)]


def test_a_gauge_names_the_epoch_that_has_begun(tmp_path: Path) -> None:
    config, store = stored(training([(0, 20)]), tmp_path)
    gauge = counter("epoch", "run-a-0", kind="gauge", marks="begin")
    put(store, [(gauge, [(1, 0), (5, 1), (9, 2), (12, 1), (16, 2), (19.9, 2)])])
    view = asked(config, store)
    # fell back to epoch 1: it and what had begun of epoch 2 are lost
    assert done(view) == [(0, "done", 96), (1, "lost", 96), (2, "lost", 72), (1, "done", 96), (2, "done", 96)]
    assert view.totals["outside_cost"] == Decimal(24)


@pytest.mark.slow
def test_ranks_of_a_distributed_run_are_one_run_and_their_costs_add_up(tmp_path: Path) -> None:
    nodes = [node(f"n{i}", "p4de.24xlarge", 0, 12) for i in range(2)]
    pods = [pod(f"ddp-worker-{i}", f"n{i}", list(range(8)), 0, 12, owner=["PyTorchJob", "ddp"]) for i in range(2)]
    util = {**busy("n0", list(range(8)), 0, 12), **busy("n1", list(range(8)), 0, 12)}
    config, store = stored(fleet(12, nodes, pods, util, scrape=600), tmp_path)
    points = [(0.0, 0.0), (4.0, 1.0), (8.0, 2.0), (11.9, 2.0)]
    put(store, [(counter("epoch", f"ddp-worker-{i}"), [(hour + i / 100, value) for hour, value in points]) for i in range(2)], 12)
    view = asked(config, store, hours=(0, 12))
    (run,) = view.sections["runs"]
    assert run["epochs_done"] == 2
    assert [cost for _, status, cost in done(view) if status == "done"] == [192, 192]
    assert run["cost"] == Decimal(12 * 48)


def test_runs_of_one_pod_split_its_cost_by_time(tmp_path: Path) -> None:
    config, store = stored(training([(0, 24)]), tmp_path)
    told = [
        (counter("epoch", "run-a-0", run_id="a"), [(2, 0), (4, 1), (6, 2)]),
        (counter("epoch", "run-a-0", run_id="b"), [(5, 0), (7, 1)]),
    ]
    put(store, told)
    view = asked(config, store)
    costs = {run["run"]: run["cost"] for run in view.sections["runs"]}
    assert costs == {"a": Decimal(3 * 24 + 12), "b": Decimal(12 + 24)}
    assert sum(row["cost"] for row in view.rows) == Decimal(24 * 24)


def test_work_without_cost_and_cost_without_work_are_listed(tmp_path: Path) -> None:
    config, store = stored(training([(0, 20)]), tmp_path)
    put(store, [(counter("epoch", "elsewhere-0"), [(0, 0), (4, 1)])])
    view = asked(config, store)
    (work,) = view.sections["work_without_cost"]
    assert (work["workload"], work["amount"]) == ("train/elsewhere-0", 1)
    (cost,) = view.sections["cost_without_work"]
    assert (cost["workload"], cost["cost"]) == ("Job/run-a", Decimal(480))
    assert view.totals["allocated_cost"] == Decimal(480)


def test_epochs_told_of_while_no_pod_ran_are_work_without_cost(tmp_path: Path) -> None:
    config, store = stored(training([(12, 20)]), tmp_path)
    put(store, [(counter("epoch", "", workload="Job/run-a"), [(1, 0), (4, 1), (8, 2)])])
    put(store, [(counter("epoch", "", workload="Job/run-a", run_id="early"), [(2, 0), (5, 3)])], source="other")
    view = asked(config, store)
    assert [(row["workload"], row["amount"], row["why"]) for row in view.sections["work_without_cost"]] == [
        ("Job/run-a", 3, "its pods cost nothing then")
    ]
    assert view.totals["outside_cost"] == view.totals["allocated_cost"] == Decimal(8 * 24)
    (tmp_path / "alone").mkdir()
    config, store = stored(training([(12, 20)]), tmp_path / "alone")
    put(store, [(counter("epoch", "", workload="Job/run-a"), [(1, 0), (4, 1), (8, 2)])])
    view = asked(config, store)
    assert [row["amount"] for row in view.sections["work_without_cost"]] == [2]
    assert view.totals["cost_without_work"] == Decimal(8 * 24)


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
    "a fraction alone is an epoch under way": (log((35, 0.7), end=40, is_over=False), [(1, "unfinished", 0, 40)]),
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
    run = Levels(tuple(zip(times, reached, strict=True)), 0, end, marks, from_zero=True, is_over=True, is_log=is_log)
    assert [(i.epoch, i.status, i.from_ms, i.to_ms) for i in intervals(run)] == expected


def test_filters_and_a_part_of_the_period(tmp_path: Path) -> None:
    config, store = stored(training([(0, 20)]), tmp_path)
    put(store, [(counter("epoch", "run-a-0"), [(0, 0), *((4 * n, n) for n in range(1, 6))])])
    view = asked(config, store, hours=(2.5, 10), workloads=("run-a",))
    assert [(row["epoch"], row["is_whole"], row["cost"]) for row in view.rows] == [
        (1, False, Decimal(36)),
        (2, True, Decimal(96)),
        (3, False, Decimal(48)),
    ]
    with pytest.raises(GpucostError, match="no team 'nobody' held GPUs in the day"):
        asked(config, store, teams=("nobody",))
    with pytest.raises(GpucostError, match="no workload 'Job/run-b' held GPUs in the day") as error:
        asked(config, store, workloads=("Job/run-b",))
    assert error.value.fix == "name one that did: Job/run-a"
    with pytest.raises(GpucostError, match="no namespace 'other' held GPUs in the day"):
        asked(config, store, namespaces=("other",), workloads=("run-a",))


@pytest.mark.slow
def test_each_job_of_a_cron_job_is_a_run_that_loses_nothing_of_the_one_before(tmp_path: Path) -> None:
    gpus, nights = list(range(8)), {"nightly-29390000-abcde": 0, "nightly-29390600-fghij": 10}
    pods = [pod(name, "train", gpus, start, start + 4, owner=["CronJob", "nightly"]) for name, start in nights.items()]
    config, store = stored(fleet(24, [node("train", "p4de.24xlarge", 0, 24)], pods, {}, scrape=600), tmp_path)
    put(store, [(counter("epoch", name), [(start, 0), (start + 2, 1), (start + 3.9, 2)]) for name, start in nights.items()])
    view = asked(config, store)
    assert [(run["run"], run["epochs_done"], run["lost_epochs"]) for run in view.sections["runs"]] == [
        ("nightly-29390000", 2, 0),
        ("nightly-29390600", 2, 0),
    ]
    assert view.totals["cost"] == Decimal(8 * 24)


def test_three_epochs_logged_as_0_1_2_are_three_of_96_dollars(tmp_path: Path) -> None:
    config, store = stored(training([(0, 12)]), tmp_path)
    path = tmp_path / "epochs.csv"
    path.write_text(
        "workload,time,unit,value\n" + "".join(f"Job/run-a,2026-03-10T{4 * (n + 1):02}:00Z,epoch,{n}\n" for n in range(3))
    )
    import_files(store, [path], config.tz)
    view = asked(config, store, partial(units.epochs, planned_epochs=5))
    (run,) = view.sections["runs"]
    assert done(view) == [(0, "done", 96), (1, "done", 96), (2, "done", 96)]
    assert (run["epochs_done"], run["mean_cost"], run["outside_cost"]) == (3, Decimal(96), Decimal(0))
    assert (run["remaining_epochs"], run["forecast_cost"]) == (2, Decimal(5 * 96))


def tell(store: Store, *told: tuple[str, float, float | None, list[tuple[float, float]]]) -> None:
    """Runs of Job/run-a: name, begin and end (None: unknown), and the moments at which epochs ended."""
    batch, found = ProgressBatch(), []
    for name, start, end, points in told:
        found.append(
            ProgressRun(
                run_id=name, parent_id="", experiment="llm", name=name, status="RUNNING" if end is None else "FINISHED",
                started_ms=at(start) * 1000, ended_ms=0 if end is None else at(end) * 1000,
                cluster="", namespace="train", pod="", workload="Job/run-a", planned_epochs=0, metrics={},
            )
        )  # fmt: skip
        series = ProgressSeries("mlflow", "epoch", "gauge", (), "", "train", "", "Job/run-a", run_id=name)
        hours, levels = zip(*points, strict=True)
        batch.add(series, np.array([at(hour) * 1000 for hour in hours]), np.array(levels, dtype=float))
    with store.write() as con:
        load_runs(con, "mlflow", (at(0) * 1000, at(24) * 1000), found, batch)


def test_a_killed_run_ends_with_its_pod_where_another_one_began_after_it(tmp_path: Path) -> None:
    config, store = stored(training([(0, 9), (10, 24)]), tmp_path)
    tell(store, ("first", 0, None, [(4, 1), (8, 2)]), ("again", 10, 22, [(14, 1), (18, 2), (22, 3)]))
    view = asked(config, store)
    first, again = (next(run for run in view.sections["runs"] if run["run"] == name) for name in ("first", "again"))
    # what it had done of the third epoch is lost, and none of what came after is its own
    assert (first["cost"], first["lost_cost"], first["mean_cost"]) == (Decimal(9 * 24), Decimal(24), Decimal(96))
    assert (again["cost"], again["mean_cost"], again["lost_cost"]) == (Decimal(12 * 24), Decimal(96), Decimal(0))
    costs = {row["name"]: row["cost"] for row in asked(config, store, units.experiments).rows if row["kind"] == "run"}
    assert costs == {"first": Decimal(9 * 24), "again": Decimal(12 * 24)}


def test_a_run_that_goes_on_in_the_next_pod_is_not_ended_by_the_first_one(tmp_path: Path) -> None:
    config, store = stored(training([(0, 9), (10, 24)]), tmp_path)
    tell(store, ("only", 0, None, [(4, 1), (8, 2), (14, 3), (18, 4)]))
    (run,) = asked(config, store).sections["runs"]
    assert (run["epochs_done"], run["cost"], run["unfinished_cost"]) == (4, Decimal(23 * 24), Decimal(6 * 24))


def test_a_run_that_went_on_in_the_next_pod_is_not_ended_by_another_run_there(tmp_path: Path) -> None:
    config, store = stored(training([(0, 9), (10, 24)]), tmp_path)
    tell(store, ("resumed", 0, None, [(4, 1), (8, 2), (14, 3), (18, 4)]), ("evaluation", 19, 20, [(20, 1)]))
    view = asked(config, store)
    run = next(run for run in view.sections["runs"] if run["run"] == "resumed")
    epochs = [(row["epoch"], row["status"], row["cost"]) for row in view.rows if row["run"] == "resumed" and row["epoch"]]
    assert (run["epochs_done"], run["lost_cost"]) == (4, Decimal(0))
    assert epochs[2] == (3, "done", Decimal(5 * 24)) and epochs[3] == (4, "done", Decimal(4 * 24))
