"""A real Prometheus with a fleet's scrapes, on a free loopback port."""

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
    """Skip the test if Prometheus is not installed; fail it under CI=true."""
    require("prometheus", "promtool", package="prometheus")


def write_blocks(write: Callable[[TextIO], None], data: Path) -> None:
    """Convert the OpenMetrics text of `write` to Prometheus TSDB blocks in the folder `data`."""
    data.mkdir(parents=True, exist_ok=True)
    text = data / "scrapes.om"
    with text.open("w") as out:
        write(out)
    words = f"promtool tsdb create-blocks-from openmetrics --max-block-duration=744h {text} {data}"
    subprocess.run(words.split(), check=True, stdout=subprocess.DEVNULL)
    text.unlink()


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start_prometheus(data: Path, port: int) -> subprocess.Popen[bytes]:
    """Start a Prometheus with the blocks in `data`; return once it answers."""
    config = data / "prometheus.yml"
    # Remote read adds the external labels to all series.
    labels = '{cluster: elsewhere, prometheus_replica: "0"}'
    config.write_text(f"global: {{scrape_interval: 1h, external_labels: {labels}}}\n")
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
    """Stop a server started here, by force if necessary."""
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def prometheus_over(fleet: Fleet, data: Path) -> AbstractContextManager[str]:
    """Return a context with the URL of a Prometheus that scraped the fleet."""
    return prometheus_over_text(lambda out: write_openmetrics(scrape(fleet), out), data)


@contextmanager
def prometheus_over_text(write: Callable[[TextIO], None], data: Path) -> Iterator[str]:
    """Yield the URL of a Prometheus with the OpenMetrics text of `write`."""
    write_blocks(write, data)
    port = free_port()
    process = start_prometheus(data, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)
