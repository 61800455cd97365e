"""Runs of experiment trackers that were killed: the tracker never hears of it, and they go on for it for ever."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np

from gpucost.report import units
from gpucost.store.connection import Store
from gpucost.store.progress import ProgressBatch, ProgressRun, ProgressSeries, load_runs
from tests.replay.cases.words import at
from tests.replay.work import asked, stored, training


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
