"""Collecting beside the usual way: prometheus-api-client's custom_query_range to a data frame to DuckDB, on the same server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import duckdb
import numpy as np
import pytest
from prometheus_api_client import MetricRangeDataFrame, PrometheusConnect

from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.config.model import Activity, Idle, PrometheusSource
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.bench.fleets import START_S, Fleet
from tests.replay.server import prometheus_over_text, require_prometheus

pytestmark = pytest.mark.bench

FLEET = Fleet(gpus=1_600, days=2)
START = datetime.fromtimestamp(START_S, UTC)


def write(out: TextIO) -> None:
    """The fleet's activity series as OpenMetrics text."""
    answer, which = FLEET.activity()
    edges = np.flatnonzero(np.diff(which)) + 1
    out.write("# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n")
    for times, values, number in zip(
        np.split(answer.ts_ms, edges), np.split(answer.values, edges), np.unique(which), strict=True
    ):
        labels = ",".join(f'{key}="{value}"' for key, value in answer.series[number].items() if key != "__name__")
        out.writelines(
            f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} {value:.0f} {at / 1000:.3f}\n" for at, value in zip(times, values, strict=True)
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
        answer = client.custom_query_range("DCGM_FI_DEV_GPU_UTIL", begin, begin + timedelta(minutes=59), "60s")
        frame = MetricRangeDataFrame(answer).reset_index()
        con.register("frame", frame)
        con.execute("CREATE TABLE IF NOT EXISTS samples AS FROM frame LIMIT 0")
        con.execute("INSERT INTO samples FROM frame")
        count += len(frame)
    return count, time.perf_counter() - started


def test_collect_beats_the_data_frame(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow_samples, slow_seconds = by_data_frame(url, hours=2)
    store = Store(tmp_path / "store.duckdb")
    started = time.perf_counter()
    result = collect_prometheus(
        PrometheusSource(url=url), store, Period(START, START + timedelta(days=FLEET.days)), Activity(), Idle()
    )
    seconds = time.perf_counter() - started
    ours, usual = result.samples / seconds / 1e6, slow_samples / slow_seconds / 1e6
    size = store.path.stat().st_size / result.samples
    with capsys.disabled():
        print(f"\ncollect: {ours:.2f} M samples/s, usual way {usual:.3f}, ratio {ours / usual:.1f}; {size:.2f} bytes a sample")
    answer, _ = FLEET.activity()
    assert result.samples == len(answer.ts_ms)
    assert ours > 5 * usual
