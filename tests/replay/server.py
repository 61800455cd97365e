"""A real Prometheus over a fleet's scrapes, on a free loopback port."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TextIO

from tests.programs import require
from tests.replay.fleet import Fleet
from tests.replay.scrape import scrape, write_openmetrics


def require_prometheus() -> None:
    """Skip the test where Prometheus is not installed; fail it under CI=true."""
    require("prometheus", "promtool", package="prometheus")


def write_blocks(write: Callable[[TextIO], None], data: Path) -> None:
    """Writes the OpenMetrics text that `write` makes as Prometheus TSDB blocks into the folder `data`."""
    data.mkdir(parents=True, exist_ok=True)
    text = data / "scrapes.om"
    with text.open("w") as out:
        write(out)
    words = f"promtool tsdb create-blocks-from openmetrics --max-block-duration=744h {text} {data}"
    subprocess.run(words.split(), check=True, stdout=subprocess.DEVNULL)
    text.unlink()


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_prometheus(data: Path, port: int) -> subprocess.Popen[bytes]:
    """Starts a Prometheus over the blocks in `data` and returns once it answers."""
    config = data / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1h}\n")
    flags = f"--storage.tsdb.path={data} --storage.tsdb.retention.time=100y --log.level=error"
    words = f"prometheus --config.file={config} --web.listen-address=127.0.0.1:{port} {flags}"
    process = subprocess.Popen(words.split())
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1):
                return process
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.05)
    stop(process)
    raise RuntimeError(f"prometheus did not become ready on port {port}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a server started here, by force where it will not end."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def prometheus_over(fleet: Fleet, data: Path) -> AbstractContextManager[str]:
    """The URL of a Prometheus that scraped the fleet, alive within the `with`."""
    return prometheus_over_text(lambda out: write_openmetrics(scrape(fleet), out), data)


@contextmanager
def prometheus_over_text(write: Callable[[TextIO], None], data: Path) -> Iterator[str]:
    """The URL of a Prometheus that holds the OpenMetrics text which `write` makes, alive within the `with`."""
    write_blocks(write, data)
    port = free_port()
    process = start_prometheus(data, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)
