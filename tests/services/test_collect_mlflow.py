"""Runs of an MLflow server: epochs, a restart and a nested sweep cost what a plain calculation says."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.progress.mlflow import collect_mlflow
from gpucost.config.model import Mlflow
from gpucost.errors import SourceError
from gpucost.periods import Period
from gpucost.questions.units import reading as units
from gpucost.store.connection import Store
from tests.replay.cases.words import at, busy, fleet, node, pod
from tests.replay.work import asked, stored
from tests.services import mlflow_server
from tests.services.mlflow_server import StandIn, call

DAY = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(24), UTC))
LOGGED = [(4, 1), (8, 2), (14, 2), (18, 3), (22, 4)]


def _run(
    url: str, experiment: str, name: str, start: float, end: float, tags: dict[str, str], parent: str = ""
) -> str:
    named = {**tags, **({"mlflow.parentRunId": parent} if parent else {}), "mlflow.runName": name}
    body = {
        "experiment_id": experiment,
        "run_name": name,
        "start_time": at(start) * 1000,
        "tags": [{"key": key, "value": value} for key, value in named.items()],
    }
    run_id = str(call(url, "runs/create", body)["run"]["info"]["run_id"])
    call(url, "runs/update", {"run_id": run_id, "status": "FINISHED", "end_time": at(end) * 1000})
    return run_id


def _log(url: str, run_id: str, metric: str, points: list[tuple[float, float]]) -> None:
    metrics = [
        {"key": metric, "value": value, "timestamp": at(hour) * 1000, "step": int(value)}
        for hour, value in points
    ]
    call(url, "runs/log-batch", {"run_id": run_id, "metrics": metrics})


def tell(url: str) -> None:
    """A run of 8 A100s that fails at hour 9 and goes on at 10 from its first checkpoint; a sweep of three trials elsewhere."""
    experiment = str(call(url, "experiments/create", {"name": "llm"})["experiment_id"])
    llama = _run(url, experiment, "llama", 0, 22, {"gpucost.namespace": "train", "gpucost.workload": "run-a"})
    _log(url, llama, "epoch", LOGGED)
    call(url, "runs/log-batch", {"run_id": llama, "params": [{"key": "max_epochs", "value": "6"}]})
    sweep = _run(url, experiment, "sweep", 0, 12, {"namespace": "train", "pod": "sweep-0"})
    for name, start, end, loss in (("t1", 0, 4, 0.5), ("t2", 4, 8, 0.3), ("t3", 6, 10, 0.4)):
        _log(url, _run(url, experiment, name, start, end, {}, sweep), "val_loss", [(end, loss)])
    _run(url, experiment, "lost", 1, 2, {"pod": "nowhere"})


def placed(folder: Path) -> tuple[Any, Store]:
    nodes = [node("train", "p4de.24xlarge", 0, 24), node("small", "g6.12xlarge", 0, 24)]
    eight = list(range(8))
    pods = [
        pod(f"run-a-{i}", "train", eight, a, b, owner=["Job", "run-a"])
        for i, (a, b) in enumerate([(0, 9), (10, 24)])
    ]
    pods.append(pod("sweep-0", "small", list(range(4)), 0, 13, owner=["Job", "sweep"]))
    util = {**busy("train", eight, 0, 24), **busy("small", list(range(4)), 0, 13)}
    return stored(fleet(24, nodes, pods, util, scrape=600), folder)


@pytest.fixture(params=[pytest.param("real", marks=[pytest.mark.services, pytest.mark.ci]), "stand-in"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    folder = tmp_path / "mlflow"
    folder.mkdir()
    manager: AbstractContextManager[str] = (
        mlflow_server.real(folder) if request.param == "real" else mlflow_server.stand_in()
    )
    with manager as url:
        yield url


def test_epochs_a_restart_and_a_sweep(server: str, tmp_path: Path) -> None:
    tell(server)
    config, store = placed(tmp_path)
    for _ in range(2):  # the second time replaces
        result = collect_mlflow(Mlflow(url=server), store, DAY)
    assert (result.runs, result.placed, result.epochs) == (6, 6, 6)

    view = asked(config, store)
    # $24 an hour, but not from 9 to 10, when no pod ran
    edges = [0, *(hour for hour, _ in LOGGED)]
    plain = [24 * (b - a - (1 if a <= 9 < b else 0)) for a, b in itertools.pairwise(edges)]
    epochs = [row for row in view.rows if row["epoch"] is not None]
    assert [(row["epoch"], row["status"]) for row in epochs] == [
        (1, "done"),
        (2, "lost"),
        (2, "done"),
        (3, "done"),
        (4, "done"),
    ]
    assert [row["cost"].quantize(Decimal("0.0001")) for row in epochs] == plain
    (run,) = view.sections["runs"]
    assert run["cost"] == sum(plain)
    assert (run["planned_epochs"], run["remaining_epochs"]) == (6, 2)
    assert round(run["forecast_cost"], 3) == round(Decimal(sum(plain)) + 2 * Decimal(sum(plain[2:])) / 3, 3)
    assert sum(row["cost"] for row in view.rows) == Decimal(23 * 24)

    view = asked(config, store, units.experiments)
    costs = {row["name"]: row["cost"] for row in view.rows if row["kind"] == "run"}
    assert costs == {"llama": 504, "sweep": 8, "t1": 16, "t2": 12, "t3": 12}
    (sweep,) = view.sections["sweeps"]
    assert (sweep["cost"], sweep["trials"], sweep["best_trial"], sweep["best_trial_cost"]) == (
        48,
        3,
        "t2",
        12,
    )
    assert [row["run"] for row in view.sections["work_without_cost"]] == ["lost"]
    assert view.totals["allocated_cost"] == Decimal(23 * 24 + 13 * 4)


def test_credentials_and_failures_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state, store = StandIn(), Store(tmp_path / "store.duckdb")
    seen: list[str] = []

    def refuse(status: int, times: int) -> None:
        left = iter(range(times))

        def before(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]] | None:
            seen.append(headers.get("Authorization", ""))
            return (
                (status, {"Retry-After": "0"} if status == 429 else {})
                if next(left, None) is not None
                else None
            )

        state.before = before

    def collect() -> int:
        return collect_mlflow(Mlflow(url=url), store, DAY, pause=0.001).runs

    with mlflow_server.stand_in(state) as url:
        for name in ("MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
            monkeypatch.delenv(name, raising=False)
        refuse(401, 99)
        with pytest.raises(SourceError, match="refuses access") as error:
            collect()
        assert "MLFLOW_TRACKING_TOKEN" in str(error.value.fix)
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
        refuse(429, 2)
        assert collect() == 0
        assert seen[-1] == "Bearer secret"
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "me")
        refuse(503, 3)
        assert collect() == 0
        assert seen[-1].startswith("Basic ")
        refuse(503, 99)
        with pytest.raises(SourceError, match="HTTP 503"):
            collect()
        refuse(404, 99)
        with pytest.raises(SourceError, match="HTTP 404"):
            collect()
    with pytest.raises(SourceError, match="nothing answers"):
        collect()
