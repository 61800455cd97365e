"""Collecting beside the usual way: prometheus-api-client's custom_query_range to a data frame to DuckDB, on the same server.

And what kube-state-metrics' series cost the server: its CPU and the bytes it sends, told by hours and raw.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import duckdb
import numpy as np
import pytest
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

from gpucost.collect.prometheus.collector import PrometheusCollector, collect_prometheus
from gpucost.config.model import Activity, Idle, PrometheusSource
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.bench.fleets import START_S, Fleet
from tests.bench.measured import Page
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
# The targets: so many times as fast as the usual way; bytes in the store for a sample; parts of what raw samples cost the server.
COLLECT, BYTES, SENT, SERVER = 12, 1.0, 4, 3
START = datetime.fromtimestamp(START_S, UTC)


def write(out: TextIO) -> None:
    """The fleet's activity series as OpenMetrics text."""
    answer, which = FLEET.activity()
    edges = np.flatnonzero(np.diff(which)) + 1
    out.write("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n")
    for times, values, number in zip(
        np.split(answer.ts_ms, edges), np.split(answer.values, edges), np.unique(which), strict=True
    ):
        labels = ",".join(
            f'{key}="{value}"' for key, value in answer.series[number].items() if key != "__name__"
        )
        out.writelines(
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value:.0f} {at / 1000:.3f}\n"
            for at, value in zip(times, values, strict=True)
        )
    out.write("# EOF\n")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_prometheus()
    with prometheus_over_text(write, tmp_path_factory.mktemp("prometheus")) as address:
        yield address


def by_data_frame(url: str, hours: int) -> tuple[int, float]:
    """Samples and seconds of the usual way, hour by hour."""
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


def test_collect_beside_the_data_frame(url: str, tmp_path: Path, page: Page) -> None:
    slow_samples, slow_seconds = by_data_frame(url, hours=2)
    store = Store(tmp_path / "store.duckdb")
    started = time.perf_counter()
    result = collect_prometheus(
        PrometheusSource(url=url),
        store,
        Period(START, START + timedelta(days=FLEET.days)),
        Activity(),
        Idle(),
    )
    seconds = time.perf_counter() - started
    ours, usual = result.samples / seconds / 1e6, slow_samples / slow_seconds / 1e6
    size = store.path.stat().st_size / result.samples
    answer, _ = FLEET.activity()
    assert result.samples == len(answer.ts_ms)
    why = "the rest is the server's answer in JSON, its parsing and the sorted insert, one after the other."
    with page.row("Prometheus to store, activity", f"≥ {COLLECT} ×", why) as told:
        told |= {
            "ours": f"{ours:.2f} M samples/s (wall)",
            "beside": f"prometheus-api-client, data frame, DuckDB {usual:.3f}",
        }
        told["ratio"] = f"{ours / usual:.1f} ×"
        assert ours >= COLLECT * usual
    with page.row("bytes a sample, as collected", f"≤ {BYTES}", "`store compact` is not there yet.") as told:
        told["ours"] = f"{size:.2f}"
        assert size <= BYTES


def write_states(out: TextIO) -> None:
    """What kube-state-metrics tells of a fleet of 800 GPUs in a day, as OpenMetrics text: a sample each minute."""
    answer = Fleet(gpus=800, days=1, pod_hours=20).states()
    edges = np.flatnonzero(np.diff(answer.series_index)) + 1
    by_name: dict[str, list[str]] = {}
    for times, values, labels in zip(
        np.split(answer.ts_ms, edges), np.split(answer.values, edges), answer.series, strict=True
    ):
        text = ",".join(f'{key}="{value}"' for key, value in labels.items() if key != "__name__")
        moments = range(int(times[0]), int(times[-1]) + 1, 60_000)
        lines = [f"{labels['__name__']}{{{text}}} {values[0]:.0f} {at / 1000:.3f}\n" for at in moments]
        by_name.setdefault(labels["__name__"], []).extend(lines)
    for name, lines in by_name.items():
        out.writelines([f"# TYPE {name} gauge\n", *lines])
    out.write("# EOF\n")


def spent(pid: int) -> tuple[float, int]:
    """CPU seconds and bytes written by a process so far."""
    times = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    io = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK"), int(io["wchar"])


def test_states_cost_the_server_less_than_their_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: Page
) -> None:
    require_prometheus()
    write_blocks(write_states, tmp_path / "prometheus")
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
                source, store, Period(START, START + timedelta(days=1)), Activity(), Idle()
            )
            cpu_after, sent_after = spent(process.pid)
            costs[way] = cpu_after - cpu, sent_after - sent, result.samples
    finally:
        stop(process)
    (cpu, sent, samples), (raw_cpu, raw_sent, raw_samples) = costs["hours"], costs["samples"]
    assert samples == raw_samples
    with page.row("bytes asked of Prometheus, kube-state-metrics", f"≤ 1/{SENT}") as told:
        told |= {
            "ours": f"{sent / 1e6:.1f} MB",
            "beside": f"raw samples {raw_sent / 1e6:.1f} MB",
            "ratio": f"1/{raw_sent / sent:.1f}",
        }
        assert sent * SENT <= raw_sent
    why = "the server still reads every chunk once for each metric: its count, and its value where that can change."
    with page.row("its CPU", f"≤ 1/{SERVER}", why) as told:
        told |= {
            "ours": f"{cpu:.2f} s",
            "beside": f"raw samples {raw_cpu:.2f} s",
            "ratio": f"1/{raw_cpu / cpu:.1f}",
        }
        assert cpu * SERVER <= raw_cpu
