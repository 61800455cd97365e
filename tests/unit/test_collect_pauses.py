"""Pauses between tries: as long as the server asks, and over at once when the run is ended."""

from __future__ import annotations

import functools
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.config.model import PrometheusSource
from gpucost.errors import SourceError
from tests.unit.test_collect_http import Fake, Question, Reply, fake, fakes

__all__ = ["fake", "fakes"]  # fixtures
BUSY = Reply(503, b"", {"Retry-After": "60"})


def test_closing_ends_a_pause(fake: Fake) -> None:
    fake.trick = lambda _: BUSY
    client = PrometheusClient(PrometheusSource(url=fake.url))
    errors: list[Exception] = []

    def ask() -> None:
        try:
            client.matrix("m", "m[60000ms]", 0)
        except SourceError as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    deadline = time.monotonic() + 10
    while not fake.queries and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    client.close()
    thread.join(timeout=5)
    assert not thread.is_alive()
    assert len(errors) == 1 and len(fake.queries) == 1


def test_a_server_is_waited_for_as_long_as_it_asks(fake: Fake) -> None:
    fake.trick = lambda _: BUSY
    pauses: list[float | None] = []

    class Impatient(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return False

    client = PrometheusClient(PrometheusSource(url=fake.url), Retries(attempts=2, initial=0, longest=0, jitter=0))
    client._stop = Impatient()
    with pytest.raises(SourceError, match="tried 2 times"):
        client.value("1", 0)
    assert pauses == [60] and len(fake.queries) == 2


def test_ctrl_c_does_not_wait_for_a_silent_server(fake: Fake, tmp_path: Path) -> None:
    silent = threading.Event()

    def mute(question: Question) -> bool:
        if question.is_range:
            silent.set()
            time.sleep(60)
        return question.is_range

    fake.trick = mute
    (tmp_path / "gpucost.toml").write_text(f'[prometheus]\nurl = "{fake.url}"\n')
    command = [sys.executable, "-m", "gpucost", "collect", "prometheus", "--from", "2026-01-01", "--to", "2026-01-02", "--config"]
    # a run started in the background hands on that SIGINT is ignored
    heard = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen([*command, str(tmp_path / "gpucost.toml")], stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    try:
        assert silent.wait(30)
        process.send_signal(signal.SIGINT)
        assert "interrupted" in process.communicate(timeout=40)[1]
        assert process.returncode == 130
    finally:
        process.kill()
        process.wait()
