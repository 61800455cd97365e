"""MLflow tracking servers on loopback: a real one, and a small stand-in that speaks as much of its REST API as is needed.

The real one is 0.8 GB to install, so it is no test dependency: MLFLOW_PROGRAM names the program, else it is found on the PATH.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests

from tests.loopback import Quiet, serving
from tests.programs import listening, program
from tests.replay.server import free_port

_PAGE = 2


def call(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POSTs to an endpoint below /api/2.0/mlflow."""
    answer: dict[str, Any] = requests.post(f"{url}/api/2.0/mlflow/{path}", json=body, timeout=60).json()
    return answer


@contextmanager
def real(folder: Path) -> Iterator[str]:
    """The URL of PyPI's server, alive within the `with`. Skips where it is not installed."""
    port = free_port()
    words = (
        f"server --backend-store-uri sqlite:///{folder}/mlflow.db --host 127.0.0.1 --port {port} --workers 1"
    )
    command = [program("MLFLOW_PROGRAM", "mlflow"), *words.split()]
    with listening(command, port, folder / "log", seconds=180) as url:
        yield url


class StandIn:
    """Experiments and runs in memory; pages hold two items. `refusals`: statuses that are answered instead, one each."""

    def __init__(self) -> None:
        self.experiments: list[dict[str, Any]] = [{"experiment_id": "0", "name": "Default"}]
        self.runs: dict[str, dict[str, Any]] = {}
        self.history: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.refusals: list[int] = []
        self.logins: list[str | None] = []

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the endpoint answers."""
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
    """The URL of a stand-in, alive within the `with`."""

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
