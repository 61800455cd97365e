"""Pauses between tries: as long as the server asks, and over at once when the run is ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gpucost.collect.prometheus_client import PrometheusClient, Retries
from gpucost.config import PrometheusSource
from gpucost.errors import SourceError


class Busy(BaseHTTPRequestHandler):
    """Answers 503; `retry_after` is what its header says."""

    retry_after = "60"
    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        self.send_response(503)
        self.send_header("Retry-After", self.retry_after)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def busy() -> Iterator[tuple[str, type[Busy]]]:
    handler = type("Bound", (Busy,), {"asked": 0})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", handler
    server.shutdown()
    server.server_close()
    thread.join()


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
    handler.retry_after = "1"
    client = PrometheusClient(PrometheusSource(url=url), Retries(attempts=2, initial=0, longest=0, jitter=0))
    started = time.monotonic()
    with pytest.raises(SourceError, match="tried 2 times"):
        client.get("query", {"query": "1"})
    assert time.monotonic() - started >= 1
    assert handler.asked == 2
