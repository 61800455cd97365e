"""Collecting compared with the usual way: prometheus-api-client's custom_query_range, a data frame, DuckDB, on the same server.

Also the server's cost of kube-state-metrics' series: CPU and bytes sent, for hourly states and raw samples.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import duckdb
import pytest
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

from gpucost.collect.prometheus.collector import PrometheusCollector, collect_prometheus
from gpucost.config.model import Config, PrometheusSource
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.bench.fleets import START_S, Fleet
from tests.bench.measured import Page
from tests.replay.scrape import write_openmetrics
from tests.replay.server import (
    free_port,
    prometheus_over_text,
    require_prometheus,
    start_prometheus,
    stop,
    write_blocks,
)

pytestmark = pytest.mark.bench

FLEET = Fleet(gpus=1_600, days=2)
# Targets: speedup over the usual way; stored bytes per sample; fractions of the server's cost of raw samples.
COLLECT, BYTES, SENT, SERVER = 12, 1.0, 4, 3
START = datetime.fromtimestamp(START_S, UTC)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_prometheus()
    write = partial(write_openmetrics, FLEET.activity())
    with prometheus_over_text(write, tmp_path_factory.mktemp("prometheus")) as address:
        yield address


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


def test_collect_is_faster_than_a_data_frame(url: str, tmp_path: Path, page: Page) -> None:
    slow_samples, slow_seconds = by_data_frame(url, hours=2)
    store = Store(tmp_path / "store.duckdb")
    started = time.perf_counter()
    result = collect_prometheus(
        Config(store=store.path),
        PrometheusSource(url=url),
        store,
        Period(START, START + timedelta(days=FLEET.days)),
    )
    seconds = time.perf_counter() - started
    ours, usual = result.samples / seconds / 1e6, slow_samples / slow_seconds / 1e6
    size = store.path.stat().st_size / result.samples
    assert result.samples == sum(len(one.times) for one in FLEET.activity())
    why = "the rest is the server's JSON answer, its parsing and the sorted insert, in sequence."
    speed = page.row(
        "Prometheus to store, activity",
        f"≥ {COLLECT} ×",
        ours >= COLLECT * usual,
        f"{ours:.2f} M samples/s (wall)",
        f"prometheus-api-client, data frame, DuckDB {usual:.3f}",
        f"{ours / usual:.1f} ×",
        why=why,
    )
    why = "`store compact` has not run yet."
    cells = ("bytes per sample, as collected", f"≤ {BYTES}", size <= BYTES, f"{size:.2f}")
    assert all([speed, page.row(*cells, why=why)])


def spent(pid: int) -> tuple[float, int]:
    """Return CPU seconds and bytes written by a process so far."""
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(io["wchar"])


def test_states_cost_the_server_less_than_their_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    require_prometheus()
    states = Fleet(gpus=800, days=1, pod_hours=20).states(step_s=60)
    write_blocks(partial(write_openmetrics, states), tmp_path / "prometheus")
    port = free_port()
    process = start_prometheus(tmp_path / "prometheus", port)
    costs = {}
    try:
        for way in ("warm", "hours", "samples"):
            if way == "samples":
                monkeypatch.setattr(PrometheusCollector, "_scrapes", lambda *_: None)
            cpu, sent = spent(process.pid)
            source, store = (
                PrometheusSource(url=f"http://127.0.0.1:{port}"),
                Store(tmp_path / f"{way}.duckdb"),
            )
            result = collect_prometheus(
                Config(store=store.path), source, store, Period(START, START + timedelta(days=1))
            )
            cpu_after, sent_after = spent(process.pid)
            costs[way] = cpu_after - cpu, sent_after - sent, result.samples
    finally:
        stop(process)
    (cpu, sent, samples), (raw_cpu, raw_sent, raw_samples) = costs["hours"], costs["samples"]
    assert samples == raw_samples
    raw_mb = f"raw samples {raw_sent / 1e6:.1f} MB"
    cells = f"{sent / 1e6:.1f} MB", raw_mb, f"1/{raw_sent / sent:.1f}"
    name = "bytes sent by Prometheus, kube-state-metrics"
    fewer_bytes = page.row(name, f"≤ 1/{SENT}", sent * SENT <= raw_sent, *cells)
    why = "the server still reads every chunk once per metric: its count, and its value if that can change."
    cells = f"{cpu:.2f} s", f"raw samples {raw_cpu:.2f} s", f"1/{raw_cpu / cpu:.1f}"
    assert all(
        [
            fewer_bytes,
            page.row(
                "CPU of Prometheus, same series", f"≤ 1/{SERVER}", cpu * SERVER <= raw_cpu, *cells, why=why
            ),
        ]
    )
