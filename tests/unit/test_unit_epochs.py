"""What an epoch costs: its workload's cost over the epoch's own interval, to the last digit."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from gpucost.collect.progress.files import import_files
from gpucost.collect.progress.mappings import levels
from gpucost.errors import GpucostError
from gpucost.report import units
from gpucost.report.units.work import Interval, Levels, intervals
from tests.replay.cases.words import busy, fleet, node, pod
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
        (1, "lost", 96),
        (2, "lost", 96),
        (3, "lost", 24),
        (1, "done", 96),
        (2, "done", 96),
        (3, "done", 96),
        (4, "unfinished", 48),
    ]
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


def test_missed_scrapes_share_the_time_between_the_epochs_in_it() -> None:
    run = Levels(((0, 0), (90, 3)), 0, 100, "end", from_zero=True, is_over=True)
    assert [(i.epoch, i.from_ms, i.to_ms) for i in intervals(run)] == [(1, 0, 30), (2, 30, 60), (3, 60, 90), (None, 90, 100)]


def test_epochs_before_collection_are_unknown() -> None:
    run = Levels(((10, 5), (20, 6)), 0, 20, "end", from_zero=False, is_over=True)
    assert intervals(run) == [Interval(None, "outside", 1, 0, 10), Interval(6, "done", 1, 10, 20)]


def test_an_epoch_logged_again_is_done_again() -> None:
    times, reached = levels([(10, 1, 1), (20, 2, 2), (30, 3, 3), (50, 2, 2), (60, 3, 3)], "end")
    found = intervals(Levels(tuple(zip(times, reached, strict=True)), 0, 70, "end", from_zero=True, is_over=True))
    assert [(i.epoch, i.status, i.from_ms, i.to_ms) for i in found] == [
        (1, "done", 0, 10),
        (2, "lost", 10, 20),
        (3, "lost", 20, 30),
        (2, "done", 30, 50),
        (3, "done", 50, 60),
        (None, "outside", 60, 70),
    ]


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


@pytest.mark.parametrize(
    ("zero_at", "expected"),
    [
        # the loop counts from 0 and logs what it has done: epochs of 40 each
        (40, [(0, "done", 0, 40), (1, "done", 40, 80), (2, "done", 80, 120), (None, "outside", 120, 130)]),
        # a 0 that comes at once says that nothing is done yet
        (2, [(None, "outside", 0, 2), (1, "done", 2, 80), (2, "done", 80, 120), (None, "outside", 120, 130)]),
    ],
)
def test_a_log_that_counts_from_0(zero_at: int, expected: list[tuple[int | None, str, int, int]]) -> None:
    run = Levels(((zero_at, 0), (80, 1), (120, 2)), 0, 130, "end", from_zero=True, is_over=True, is_log=True)
    assert [(i.epoch, i.status, i.from_ms, i.to_ms) for i in intervals(run)] == expected


def test_a_log_from_0_that_falls_back_and_one_of_a_single_epoch() -> None:
    run = Levels(((40, 0), (80, 1), (81, -1), (121, 0)), 0, 130, "end", from_zero=True, is_over=True, failed=True, is_log=True)
    assert [(i.epoch, i.status, i.to_ms) for i in intervals(run)] == [
        (0, "lost", 40),
        (1, "lost", 80),
        (0, "done", 121),
        (1, "lost", 130),
    ]
    alone = Levels(((40, 0),), 0, 42, "end", from_zero=True, is_over=True, is_log=True)
    assert [(i.epoch, i.status) for i in intervals(alone)] == [(0, "done"), (None, "outside")]


def test_a_first_entry_with_a_fraction_is_an_epoch_under_way() -> None:
    from gpucost.collect.progress.mappings import levels

    times, reached = levels([(35, 7, 0.7), (70, 14, 1.4), (105, 21, 2.1)], "end")
    assert (times, reached) == ([35, 70, 105], [0.7, 1, 2])
    run = Levels(tuple(zip(times, reached, strict=True)), 0, 110, "end", from_zero=True, is_over=True, is_log=True)
    assert [(i.epoch, i.status, i.to_ms) for i in intervals(run)] == [
        (1, "done", 70),
        (2, "done", 105),
        (None, "outside", 110),
    ]
    alone = Levels(((35, 0.7),), 0, 40, "end", from_zero=True, is_over=False, is_log=True)
    assert intervals(alone) == [Interval(1, "unfinished", 1, 0, 40)]


@pytest.mark.parametrize(
    ("marks", "logged", "expected"),
    [
        # several entries within the first epoch, as trainers write them every few steps
        ("end", [0.1, 0.4, 0.8, 1.0, 1.5, 2.0], [(1, "done", 0, 40), (2, "done", 40, 60), (None, "outside", 60, 70)]),
        (
            "begin",
            [0.5, 1.0, 1.5, 2.0],
            [(None, "outside", 0, 10), (0, "done", 10, 20), (1, "done", 20, 40), (2, "done", 40, 70)],
        ),
    ],
)
def test_fractions_of_epochs(marks: str, logged: list[float], expected: list[tuple[int | None, str, int, int]]) -> None:
    times, reached = levels([(10 * (step + 1), step, number) for step, number in enumerate(logged)], marks)
    run = Levels(tuple(zip(times, reached, strict=True)), 0, 70, marks, from_zero=True, is_over=True, is_log=True)
    assert [(i.epoch, i.status, i.from_ms, i.to_ms) for i in intervals(run)] == expected


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
