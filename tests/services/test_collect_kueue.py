"""Kueue's metrics through a real Prometheus: GPU resources alone, limits of +Inf, a restart, two replicas."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import pytest

from gpucost.collect.prometheus.client import Retries
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.config.model import Activity, Idle, PrometheusSource
from gpucost.periods import Period
from gpucost.report.queue import queues
from gpucost.store.connection import Store
from tests.replay.server import prometheus_over_text, require_prometheus

pytestmark = pytest.mark.services

START = datetime(2026, 10, 1, tzinfo=UTC)
SIX_HOURS = Period(START, datetime(2026, 10, 1, 6, tzinfo=UTC))
WAITS = "kueue_admission_wait_time_seconds"


def _write(out: TextIO) -> None:
    minutes = range(6 * 60)
    at = START.timestamp()

    def lines(name: str, labels: str, value: dict[int, float]) -> None:
        """`value` holds from each minute on."""
        current = 0.0
        for minute in minutes:
            current = value.get(minute, current)
            number = "+Inf" if math.isinf(current) else repr(current)
            out.write(f"{name}{{{labels}}} {number} {at + minute * 60:.3f}\n")

    leader, follower = 'instance="a:8443",replica_role="leader"', 'instance="b:8443",replica_role="follower"'
    of = 'cluster_queue="research",cohort="gpus",flavor="a100"'
    for metric, values in {
        "kueue_cluster_queue_nominal_quota": {0: 8.0},
        "kueue_cluster_queue_borrowing_limit": {0: math.inf},
        "kueue_cluster_queue_resource_usage": {0: 4.0, 180: 12.0},
    }.items():
        out.write(f"# TYPE {metric} gauge\n")
        lines(metric, f'{of},{leader},resource="nvidia.com/gpu"', values)
        lines(metric, f'{of},{follower},resource="nvidia.com/gpu"', values)
        lines(metric, f'{of},{leader},resource="cpu"', {0: 640.0})
    out.write("# TYPE kueue_pending_workloads gauge\n")
    lines("kueue_pending_workloads", f'cluster_queue="research",status="active",{leader}', {0: 0.0, 120: 6.0, 240: 0.0})
    # 20 of 30 s and 5 of 900 s before a restart, 10 of 30 s after it
    counts = {"40": {0: 100.0, 60: 120.0, 200: 0.0, 220: 10.0}, "1280": {0: 100.0, 60: 125.0, 200: 0.0, 220: 10.0}}
    out.write(f"# TYPE {WAITS} histogram\n")
    for bound, values in (*counts.items(), ("+Inf", counts["1280"])):
        lines(f"{WAITS}_bucket", f'cluster_queue="research",{leader},le="{bound}"', values)
    lines(f"{WAITS}_count", f'cluster_queue="research",{leader}', counts["1280"])
    lines(f"{WAITS}_sum", f'cluster_queue="research",{leader}', {0: 3000.0, 60: 3000.0 + 600 + 4500, 200: 0.0, 220: 300.0})
    out.write("# EOF\n")


def test_queues_of_a_real_prometheus(tmp_path: Path) -> None:
    require_prometheus()
    store = Store(tmp_path / "q.duckdb")
    with prometheus_over_text(_write, tmp_path / "prometheus") as url:
        source = PrometheusSource(url=url, cluster="c")
        retries = Retries(attempts=2, initial=0.05, longest=0.1, jitter=0.01)
        result = collect_prometheus(source, store, SIX_HOURS, Activity(), Idle(), retries=retries)
    assert result.ok
    assert not result.dropped
    assert any(finding.code == "no_kube_state_metrics" for finding in result.findings)
    with store.read() as con:
        assert con.execute("SELECT count(*) FROM series WHERE labels['resource'] = 'cpu'").fetchall() == [(0,)]
        # counters that stand still take few rows
        assert con.execute("SELECT count(*) FROM states").fetchall()[0][0] < 40
        (research,) = queues(con, SIX_HOURS)
    assert (research.quota, research.used_average, research.used_max, research.borrowed_average) == (8, 8, 12, 2)
    assert (research.is_borrowing_unlimited, research.borrowing_limit) == (True, None)
    assert (research.pending_average, research.pending_max) == (2, 6)
    waits = research.waits
    assert (waits.admitted, waits.wait_mean_seconds) == (35, round((30 * 30 + 5 * 900) / 35, 6))
    assert waits.wait_p50_seconds == round(40 * 17.5 / 30, 6)
    assert waits.wait_p95_seconds == round(40 + 1240 * (0.95 * 35 - 30) / 5, 6)
