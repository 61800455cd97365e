"""The whole job on a real Prometheus, with the server's cost: collect a week, then report; with and without late scrapes.

Also collecting compared with the usual way: prometheus-api-client's custom_query_range, a data frame, DuckDB, on the same server.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

from tests.bench.fleets import START_S
from tests.bench.measured import Page, Ran, gpucost, step
from tests.replay.server import free_port, require_prometheus, start_prometheus, stop

pytestmark = pytest.mark.bench

GPUS, DAYS = 800, 7
# Targets: CPU seconds of the whole job with the server's, memory with late scrapes, a second report, speedup of collecting.
WHOLE, LATE_MB, SECOND, COLLECT = 8.5, 400, 0.5, 12
# CPU seconds of the leading open-source peer with the server's, measured once on such a fleet: by hours and by days.
PEER = (43.2, 7.8)
START = datetime.fromtimestamp(START_S, UTC)
CONFIG = """
store = "store.duckdb"
[prometheus]
url = "http://127.0.0.1:{}"
cluster = "bench"
[prices]
book = "prices.csv"
"""
BOOK = "instance_type,purchase_option,price_per_hour,currency\np4d.24xlarge,on_demand,32,USD\np4d.24xlarge,spot,12,USD\n"
SPAN = ("--from", "2026-10-01", "--to", "2026-10-08")


@dataclass(frozen=True)
class Job:
    """A running server, the facts of its fleet, its cost of collecting, and the commands' measurements."""

    port: int
    samples: int
    pods: int
    server_cpu: float
    server_mb: float
    sent_mb: float
    collected: Ran
    first: Ran
    second: Ran

    @property
    def cpu(self) -> float:
        return self.collected.cpu + self.server_cpu + self.first.cpu

    @property
    def peak_mb(self) -> float:
        return max(self.collected.peak_mb, self.first.peak_mb)

    @property
    def parts(self) -> str:
        """The CPU seconds of each part as text."""
        return (
            f"collect {self.collected.cpu:.2f} s, the server {self.server_cpu:.2f} s ({self.sent_mb:.0f} MB sent, memory up to "
            f"{self.server_mb:.0f} MB), first report {self.first.cpu:.2f} s"
        )


def spent(process: subprocess.Popen[bytes]) -> tuple[float, float, float]:
    """Return CPU seconds, megabytes written and peak memory of a process so far."""
    proc = Path(f"/proc/{process.pid}")
    times = (proc / "stat").read_text().rsplit(") ", 1)[1].split()
    io = dict(line.split(": ") for line in (proc / "io").read_text().splitlines())
    (peak,) = (
        line.split()[1] for line in (proc / "status").read_text().splitlines() if line.startswith("VmHWM")
    )
    seconds = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    return seconds, int(io["wchar"]) / 1e6, int(peak) / 1024


def job(folder: Path, *, jitter: bool) -> Iterator[Job]:
    """Run the whole job on a server of its own; the server runs until the generator ends."""
    require_prometheus()
    facts = step("prometheus_data", folder / "prometheus", GPUS, DAYS, int(jitter))[1]
    port = free_port()
    (folder / "gpucost.toml").write_text(CONFIG.format(port))
    (folder / "prices.csv").write_text(BOOK)
    process = start_prometheus(folder / "prometheus", port)
    try:
        cpu, sent, _ = spent(process)
        collected = gpucost("collect", "prometheus", *SPAN, folder=folder)
        cpu_after, sent_after, peak = spent(process)
        reports = [gpucost("report", *SPAN, folder=folder) for _ in range(4)]
        second = min(reports[1:], key=lambda ran: ran.cpu)
        sums = cpu_after - cpu, peak, sent_after - sent
        yield Job(port, facts["samples"], facts["pods"], *sums, collected, reports[0], second)
    finally:
        stop(process)


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    yield from job(tmp_path_factory.mktemp("usual"), jitter=False)


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    yield from job(tmp_path_factory.mktemp("late"), jitter=True)


def test_whole_job(usual: Job, page: Page) -> None:
    hourly, daily = PEER
    assert page.row(
        f"whole job: {DAYS} days, {GPUS // 8} nodes, {GPUS} GPUs, {usual.pods:,} pods, {usual.samples / 1e6:.0f} M samples; "
        "collect and first report, with the server",
        f"≤ {WHOLE} s",
        usual.cpu <= WHOLE,
        f"{usual.cpu:.1f} s; wall {usual.collected.wall + usual.first.wall:.1f} s",
        f"leading peer, measured once: hourly {hourly} s, daily {daily} s",
        f"{hourly / usual.cpu:.1f} ×, {daily / usual.cpu:.1f} ×",
        why=f"{usual.parts}.",
    )


def test_second_report(usual: Job, page: Page) -> None:
    cpu = usual.second.cpu
    why = "the process starts, opens the store, sees that all is attributed, and adds up a week."
    assert page.row("second report of that store", f"≤ {SECOND} s", cpu <= SECOND, f"{cpu:.2f} s", why=why)


def test_whole_job_with_late_scrapes(late: Job, page: Page) -> None:
    assert page.row(
        "memory of the whole job with 1 % of scrapes off the grid",
        f"≤ {LATE_MB} MB",
        late.peak_mb <= LATE_MB,
        f"{late.peak_mb:,.0f} MB; {late.cpu:.1f} s",
        why=f"collect {late.collected.peak_mb:.0f} MB, first report {late.first.peak_mb:.0f} MB; {late.parts}.",
    )


def by_data_frame(url: str, hours: int) -> tuple[int, float]:
    """Return samples and seconds of the usual way, hour by hour."""
    client = PrometheusConnect(url)
    con = duckdb.connect()
    count, started = 0, time.perf_counter()
    for hour in range(hours):
        begin = START + timedelta(hours=hour)
        answer = client.custom_query_range(
            "DCGM_FI_DEV_GPU_UTIL", begin, begin + timedelta(minutes=59), "60s"
        )
        frame = MetricRangeDataFrame(answer).reset_index()
        con.register("frame", frame)
        con.execute("CREATE TABLE IF NOT EXISTS samples AS FROM frame LIMIT 0")
        con.execute("INSERT INTO samples FROM frame")
        count += len(frame)
    return count, time.perf_counter() - started


def test_collect_is_faster_than_a_data_frame(usual: Job, page: Page) -> None:
    slow_samples, slow_seconds = by_data_frame(f"http://127.0.0.1:{usual.port}", hours=2)
    ours, other = usual.samples / usual.collected.wall / 1e6, slow_samples / slow_seconds / 1e6
    assert page.row(
        "Prometheus to store, samples on the server",
        f"≥ {COLLECT} ×",
        ours >= COLLECT * other,
        f"{ours:.2f} M samples/s (wall)",
        f"prometheus-api-client, data frame, DuckDB {other:.3f}",
        f"{ours / other:.1f} ×",
        why=f"{usual.parts}.",
    )
