"""Pauses between tries: as long as the server asks, and over at once when the run is ended."""

from __future__ import annotations

import functools
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.config.model import PrometheusSource
from gpucost.errors import SourceError
from tests.loopback import Quiet, serving


class Busy(Quiet, BaseHTTPRequestHandler):
    """Answers 503; `retry_after` is what its header says."""

    retry_after = "60"
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(503)
        self.send_header("Retry-After", self.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def busy(request: pytest.FixtureRequest) -> Iterator[tuple[str, type[Busy]]]:
    handler = type("Bound", (getattr(request, "param", Busy),), {"asked": 0})
    with serving(handler) as url:
        yield url, handler


def test_closing_ends_a_pause(busy: tuple[str, type[Busy]]) -> None:
    url, handler = busy
    client = PrometheusClient(PrometheusSource(url=url))
    raised: list[Exception] = []

    def ask() -> None:
        try:
            client.matrix("m", "m[60000ms]", 0)
        except SourceError as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 10
    while not handler.asked and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    client.close()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert len(raised) == 1 and handler.asked == 1


def test_a_server_is_waited_for_as_long_as_it_asks(busy: tuple[str, type[Busy]]) -> None:
    url, handler = busy
    pauses: list[float | None] = []

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return False

    client = PrometheusClient(PrometheusSource(url=url), Retries(attempts=2, initial=0, longest=0, jitter=0))
    client._stop = Impatient()
    with pytest.raises(SourceError, match="tried 2 times"):
        client.get("query", {"query": "1"})
    assert pauses == [60] and handler.asked == 2


class Mute(Busy):
    """Answers small questions, and takes a minute to say nothing to a large one."""

    def do_GET(self) -> None:
        if "ms%5D" in self.path:
            type(self).asked += 1
            time.sleep(60)
            return
        names: object = ["DCGM_FI_DEV_GPU_UTIL"]
        vector = {"resultType": "vector", "result": [{"metric": {}, "value": [1, "60"]}]}
        body = json.dumps({"status": "success", "data": names if "/label/" in self.path else vector}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.mark.parametrize("busy", [Mute], indirect=True)
def test_ctrl_c_does_not_wait_for_a_silent_server(busy: tuple[str, type[Busy]], tmp_path: Path) -> None:
    url, handler = busy
    (tmp_path / "gpucost.toml").write_text(f'[prometheus]\nurl = "{url}"\n')
    command = [sys.executable, "-m", "gpucost", "collect", "prometheus", "--from", "2026-01-01", "--to", "2026-01-02", "--config"]
    # a run started in the background hands on that SIGINT is ignored
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([*command, str(tmp_path / "gpucost.toml")], stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    try:
        deadline = time.monotonic() + 30
        while not handler.asked and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert "interrupted" in process.communicate(timeout=40)[1]
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
