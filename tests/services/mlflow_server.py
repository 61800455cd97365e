"""MLflow tracking servers on loopback: a real one, and a small stand-in that speaks as much of its REST API as is needed.

The real one is 0.8 GB to install, so it is no test dependency: MLFLOW_PROGRAM names the program, else it is found on the PATH.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.loopback import Quiet, serving
from tests.replay.server import free_port, stop

_PAGE = 2


def call(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """POSTs to an endpoint below /api/2.0/mlflow."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310
        f"{url}/api/2.0/mlflow/{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
        answer: dict[str, Any] = json.load(response)
    return answer


@contextmanager
def real(folder: Path) -> Iterator[str]:
    """The URL of PyPI's server, alive within the `with`. Skips where it is not installed."""
    program = os.environ.get("MLFLOW_PROGRAM") or shutil.which("mlflow")
    if program is None:
        pytest.skip("MLFLOW_PROGRAM names no mlflow, and none is installed")
    port = free_port()
    command = [
        program,
        "server",
        "--backend-store-uri",
        f"sqlite:///{folder}/mlflow.db",
        "--host",
        "127.0.0.1",
    ]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), "--workers", "1"], stdout=log, stderr=log, cwd=folder
        )
    url = f"http://127.0.0.1:{port}"
    try:
        _wait(url, process)
        yield url
    finally:
        stop(process)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 180
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):  # noqa: S310
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.5)
    raise RuntimeError("mlflow did not become ready")


def _nothing(path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]] | None:
    """Every request is answered."""
    return None


class StandIn:
    """Experiments and runs in memory; pages hold two items. `before` may answer a request with a status instead."""

    def __init__(self) -> None:
        self.experiments: list[dict[str, Any]] = [{"experiment_id": "0", "name": "Default"}]
        self.runs: dict[str, dict[str, Any]] = {}
        self.history: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.before: Callable[[str, dict[str, str]], tuple[int, dict[str, str]] | None] = _nothing

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the endpoint answers."""
        if path == "experiments/create":
            self.experiments.append({"experiment_id": str(len(self.experiments)), "name": body["name"]})
            return {"experiment_id": self.experiments[-1]["experiment_id"]}
        if path == "runs/create":
            run_id = f"{len(self.runs):032x}"
            info = {
                "run_id": run_id,
                "run_name": body["run_name"],
                "status": "RUNNING",
                "start_time": body["start_time"],
            }
            info["experiment_id"] = body["experiment_id"]
            self.runs[run_id] = {"info": info, "data": {"tags": body["tags"], "params": [], "metrics": []}}
            return {"run": self.runs[run_id]}
        if path == "runs/log-batch":
            run = self.runs[body["run_id"]]
            run["data"]["params"] += body.get("params", [])
            for metric in body.get("metrics", []):
                self.history.setdefault((body["run_id"], metric["key"]), []).append(metric)
                others = [one for one in run["data"]["metrics"] if one["key"] != metric["key"]]
                run["data"]["metrics"] = [*others, metric]
            return {}
        if path == "runs/update":
            self.runs[body["run_id"]]["info"] |= {"status": body["status"], "end_time": body["end_time"]}
            return {}
        if path == "experiments/search":
            return self._page("experiments", self.experiments, body)
        if path == "runs/search":
            return self._page(
                "runs",
                [run for run in self.runs.values() if run["info"]["experiment_id"] in body["experiment_ids"]],
                body,
            )
        return self._page("metrics", self.history.get((body["run_id"], body["metric_key"]), []), body)

    @staticmethod
    def _page(key: str, items: list[dict[str, Any]], body: dict[str, Any]) -> dict[str, Any]:
        start = int(body.get("page_token") or 0)
        more = {"next_page_token": str(start + _PAGE)} if start + _PAGE < len(items) else {}
        return {key: items[start : start + _PAGE], **more}


@contextmanager
def stand_in(server: StandIn | None = None) -> Iterator[str]:
    """The URL of a stand-in, alive within the `with`."""
    state = server or StandIn()

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._reply(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})

        def do_POST(self) -> None:
            self._reply(self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, path: str, body: dict[str, Any]) -> None:
            path = path.removeprefix("/api/2.0/mlflow/")
            refused = state.before(path, dict(self.headers))
            status, headers = refused or (200, {})
            text = json.dumps(state.answer(path, body) if refused is None else {"message": "no"}).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(text)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

    with serving(Handler) as url:
        yield url
