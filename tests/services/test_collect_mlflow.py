"""Runs of an MLflow server: the costs of epochs, a restart and a nested sweep match a plain calculation.

One server is real, one is a small stand-in with the required part of its REST API. The real one takes 0.8 GB, so it is not
a test dependency: MLFLOW_PROGRAM names the program (default: on the PATH).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from zoneinfo import ZoneInfo

import pytest
import requests

from gpucost.collect.progress.mlflow import collect_mlflow
from gpucost.config.model import Mlflow
from gpucost.errors import SourceError
from gpucost.periods import Period
from gpucost.questions.units import reading as units
from gpucost.store.connection import Store
from tests.loopback import Quiet, serving
from tests.programs import listening, program
from tests.replay.cases.words import at, fleet, pod
from tests.replay.server import free_port
from tests.replay.work import asked, stored
from tests.text_tables import text_rows, words

_PAGE = 2


def call(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POST to an endpoint below /api/2.0/mlflow."""
    answer: dict[str, Any] = requests.post(f"{url}/api/2.0/mlflow/{path}", json=body, timeout=60).json()
    return answer


@contextmanager
def real_server(folder: Path) -> Iterator[str]:
    """Yield the URL of PyPI's server; skip if it is not installed."""
    port = free_port()
    words = (
        f"server --backend-store-uri sqlite:///{folder}/mlflow.db --host 127.0.0.1 --port {port} --workers 1"
    )
    command = [program("MLFLOW_PROGRAM", "mlflow"), *words.split()]
    with listening(command, port, folder / "log", seconds=180) as url:
        yield url


class StandIn:
    """Experiments and runs in memory, in pages of two items. `refusals`: statuses answered instead, one each."""

    def __init__(self) -> None:
        self.experiments: list[dict[str, Any]] = [{"experiment_id": "0", "name": "Default"}]
        self.runs: dict[str, dict[str, Any]] = {}
        self.history: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.refusals: list[int] = []
        self.logins: list[str | None] = []

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Return the endpoint's answer."""
        run = self.runs.get(body.get("run_id", ""), {})
        match path:
            case "experiments/create":
                made = {"experiment_id": str(len(self.experiments)), "name": body["name"]}
                self.experiments.append(made)
                return made
            case "runs/create":
                info = {name: body[name] for name in ("run_name", "start_time", "experiment_id")}
                info |= {"run_id": f"{len(self.runs):032x}", "status": "RUNNING"}
                data = {"tags": body["tags"], "params": [], "metrics": []}
                self.runs[info["run_id"]] = {"info": info, "data": data}
                return {"run": {"info": info}}
            case "runs/log-batch":
                run["data"]["params"] += body.get("params", [])
                for metric in body.get("metrics", []):
                    self.history.setdefault((body["run_id"], metric["key"]), []).append(metric)
                    others = [one for one in run["data"]["metrics"] if one["key"] != metric["key"]]
                    run["data"]["metrics"] = [*others, metric]
                return {}
            case "runs/update":
                run["info"] |= {"status": body["status"], "end_time": body["end_time"]}
                return {}
            case "experiments/search":
                return _page("experiments", self.experiments, body)
            case "runs/search":
                experiments, runs = body["experiment_ids"], self.runs.values()
                return _page(
                    "runs", [run for run in runs if run["info"]["experiment_id"] in experiments], body
                )
        return _page("metrics", self.history.get((body["run_id"], body["metric_key"]), []), body)


def _page(key: str, items: list[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
    start = int(body.get("page_token") or 0)
    more = {"next_page_token": str(start + _PAGE)} if start + _PAGE < len(items) else {}
    return {key: items[start : start + _PAGE], **more}


@contextmanager
def stand_in(state: StandIn) -> Iterator[str]:
    """Yield the URL of a stand-in."""

    class Handler(Quiet):
        def do_GET(self) -> None:  # noqa: N802
            url = urlsplit(self.path)
            self._reply(url.path, {key: values[0] for key, values in parse_qs(url.query).items()})

        def do_POST(self) -> None:  # noqa: N802
            self._reply(self.path, json.loads(self.received()))

        def _reply(self, path: str, body: dict[str, Any]) -> None:
            state.logins.append(self.headers["Authorization"])
            if state.refusals:
                self.respond(state.refusals.pop(0), {"message": "no"}, {"Retry-After": "0"})
            else:
                self.respond(200, state.answer(path.removeprefix("/api/2.0/mlflow/"), body))

    with serving(Handler) as url:
        yield url


DAY = Period(datetime.fromtimestamp(at(0), UTC), datetime.fromtimestamp(at(24), UTC))
LOGGED = [(4, 1), (8, 2), (14, 2), (18, 3), (22, 4)]


def tell(url: str) -> None:
    """Log a run of 8 A100s that fails at hour 9 and resumes at 10 from its first checkpoint, and a sweep of three trials."""
    experiment = call(url, "experiments/create", {"name": "llm"})["experiment_id"]

    def run(name: str, start: float, end: float, **named: str) -> str:
        """Log a run with these tags."""
        tags = {**named, "mlflow.runName": name}
        listed = [{"key": key.replace("_", "."), "value": value} for key, value in tags.items()]
        body = {"experiment_id": experiment, "run_name": name, "start_time": at(start) * 1000, "tags": listed}
        run_id = str(call(url, "runs/create", body)["run"]["info"]["run_id"])
        call(url, "runs/update", {"run_id": run_id, "status": "FINISHED", "end_time": at(end) * 1000})
        return run_id

    def log(run_id: str, metric: str, points: list[tuple[float, float]], **more: Any) -> None:
        metrics = [
            {"key": metric, "value": value, "timestamp": at(hour) * 1000, "step": int(value)}
            for hour, value in points
        ]
        call(url, "runs/log-batch", {"run_id": run_id, "metrics": metrics, **more})

    llama = run("llama", 0, 22, gpucost_namespace="train", gpucost_workload="run-a")
    log(llama, "epoch", LOGGED, params=[{"key": "max_epochs", "value": "6"}])
    sweep = run("sweep", 0, 12, namespace="train", pod="sweep-0")
    for name, start, end, loss in (("t1", 0, 4, 0.5), ("t2", 4, 8, 0.3), ("t3", 6, 10, 0.4)):
        log(run(name, start, end, mlflow_parentRunId=sweep), "val_loss", [(end, loss)])
    run("lost", 1, 2, pod="nowhere")


def placed(folder: Path) -> tuple[Any, Store]:
    nodes = ["train | p4de.24xlarge | 0 | 24", "small | g6.12xlarge | 0 | 24"]
    eight = list(range(8))
    pods = [
        pod(f"run-a-{i}", "train", eight, a, b, owner=["Job", "run-a"])
        for i, (a, b) in enumerate([(0, 9), (10, 24)])
    ]
    pods.append(pod("sweep-0", "small", list(range(4)), 0, 13, owner=["Job", "sweep"]))
    util = """
        train | 0 1 2 3 4 5 6 7 | 0 | 24
        small | 0 1 2 3         | 0 | 13"""
    return stored(fleet(24, nodes, pods, util, scrape=600), folder)


@pytest.fixture(params=[pytest.param("real", marks=[pytest.mark.services]), "stand-in"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    folder = tmp_path / "mlflow"
    folder.mkdir()
    real = request.param == "real"
    with real_server(folder) if real else stand_in(StandIn()) as url:
        yield url


@pytest.mark.ci
def test_epochs_restart_and_sweep_are_costed(server: str, tmp_path: Path) -> None:
    tell(server)
    config, store = placed(tmp_path)
    for _ in range(2):  # the second run replaces the data
        result = collect_mlflow(Mlflow(url=server), store, DAY, ZoneInfo("UTC"))
    assert (result.runs, result.placed, result.epochs) == (6, 6, 6)

    view = asked(config, store)
    # $24 an hour, except from 9 to 10, when no pod ran
    edges = [0, *(hour for hour, _ in LOGGED)]
    plain = [24 * (b - a - (1 if a <= 9 < b else 0)) for a, b in itertools.pairwise(edges)]
    epochs = [row for row in view.rows if row["epoch"] is not None]
    assert [f"{row['epoch']} {row['status']}" for row in epochs] == [
        "1 done",
        "2 lost",
        "2 done",
        "3 done",
        "4 done",
    ]
    assert [row["cost"].quantize(Decimal("0.0001")) for row in epochs] == plain
    (run,) = view.sections["runs"]
    assert run["cost"] == sum(plain)
    # a run that finished after 4 of 6 epochs has no forecast
    assert (run["planned_epochs"], run["remaining_epochs"], run["forecast_cost"]) == (6, None, None)
    assert sum(row["cost"] for row in view.rows) == Decimal(23 * 24)

    view = asked(config, store, units.experiments)
    costs = {row["name"]: row["cost"] for row in view.rows if row["kind"] == "run"}
    assert costs == {"llama": 504, "sweep": 8, "t1": 16, "t2": 12, "t3": 12}
    (sweep,) = view.sections["sweeps"]
    assert (sweep["cost"], sweep["trials"], sweep["cost_per_trial"]) == (48, 3, 16)
    assert [row["run"] for row in view.sections["work_without_cost"]] == ["lost"]
    assert view.totals["allocated_cost"] == Decimal(23 * 24 + 13 * 4)


#: Variables, the server's status, its number, and the result: the login sent, or an error.
REFUSALS = """
                         | 401 | 99 |               | refuses access
TOKEN=secret             | 429 | 2  | Bearer secret |
TOKEN=secret USERNAME=me | 503 | 3  | Basic bWU6    |
                         | 503 | 99 |               | HTTP 503
                         | 404 | 99 |               | HTTP 404
"""


def test_credentials_and_failures_are_reported(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tenacity.nap.sleep", lambda _: None)
    for variables, status, times, login, message in text_rows(REFUSALS):
        for name in ("TOKEN", "USERNAME", "PASSWORD"):
            monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", words(variables).get(name, ""))
        state = StandIn()
        state.refusals = [int(status)] * int(times)
        with stand_in(state) as url:
            settings = Mlflow(url=url)
            if login:
                assert collect_mlflow(settings, store, DAY, ZoneInfo("UTC")).runs == 0
                assert state.logins[-1] == login
                continue
            with pytest.raises(SourceError, match=message) as error:
                collect_mlflow(settings, store, DAY, ZoneInfo("UTC"))
            assert message != "refuses access" or "MLFLOW_TRACKING_TOKEN" in str(error.value.fix)
    with pytest.raises(SourceError, match="no server answers"):
        collect_mlflow(settings, store, DAY, ZoneInfo("UTC"))
