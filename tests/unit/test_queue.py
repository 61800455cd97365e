"""ClusterQueues: time-weighted gauges, limits of +Inf, replicas counted once, histograms with resets."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpucost import pipeline
from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.questions.queue import waits
from gpucost.questions.queue.waits import Queue, quantile, queues
from gpucost.store import runs
from gpucost.store.connection import Store
from gpucost.store.metrics import ReadAnswer, SampleWindow, load_window
from tests.replay.cases.words import fleet, node, pod
from tests.replay.check import check_queues
from tests.replay.fleet import CASES, Fleet, read_fleet
from tests.replay.load import load, write_book, write_config
from tests.replay.scrape import scrape
from tests.unit.command import call
from tests.unit.whatif_costs import figures, shown

DAY = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 2, tzinfo=UTC))
GPU = "nvidia.com/gpu"
Points = Sequence[tuple[float, float]]
Line = tuple[dict[str, str], Points]


def _series(metric: str, points: Points, **labels: str) -> Line:
    return {"__name__": metric, "job": "kueue", "instance": "10.0.0.7:8443", **labels}, points


def _hold(value: float, start: float = 0.0, end: float = 24.0) -> list[tuple[float, float]]:
    """One sample per minute with the same value; start and end in hours of the day."""
    return [(start + minute / 60, value) for minute in range(round((end - start) * 60))]


def _load(path: Path, series: Sequence[Line], days: int = 1) -> Store:
    store = Store(path / "q.duckdb")
    start, end = DAY.start_ms, DAY.start_ms + days * 24 * MS_PER_HOUR
    lengths = [len(points) for _, points in series]
    moments = [start + round(hour * MS_PER_HOUR) for _, points in series for hour, _ in points]
    answer = ReadAnswer(
        series=[labels for labels, _ in series],
        series_index=np.repeat(np.arange(len(series), dtype=np.int32), lengths),
        ts_ms=np.array(moments, dtype=np.int64),
        values=np.array([value for _, points in series for _, value in points], dtype=np.float64),
    )
    with store.write() as con:
        run = runs.begin(con, "prometheus", "p", (start, end))
        window = SampleWindow("p", run, start, end, "cluster", "c", {}, [answer])
        load_window(con, window)
    return store


def _queues(path: Path, series: Sequence[Line], period: Period = DAY, days: int = 1) -> dict[str, Queue]:
    with _load(path, series, days).read() as con:
        return {one.cluster_queue: one for one in queues(con, period)[0]}


def _gauges(queue: str, quota: float, used: Points, limit: float = math.inf, **labels: str) -> list[Line]:
    common = {"cluster_queue": queue, "cohort": "gpus", "flavor": "a100", "resource": GPU, **labels}
    gauges = {"nominal_quota": _hold(quota), "borrowing_limit": _hold(limit), "resource_usage": used}
    return [_series(f"kueue_cluster_queue_{name}", points, **common) for name, points in gauges.items()]


QUEUE = (
    "cohort quota used_average used_max used_p95 borrowed_average borrowed_max borrowing_limit is_borrowing_unlimited"
    " share_of_quota"
)


def test_usage_is_weighted_by_time_and_borrowing_is_usage_above_the_quota(tmp_path: Path) -> None:
    used = [*_hold(4, 0, 12), *_hold(12, 12, 18), *_hold(0, 18, 24)]
    # flavors add up, and each borrows separately
    flavors = [
        *_gauges("q", 4, _hold(6), limit=8, cohort="own"),
        *_gauges("q", 10, _hold(2), limit=1, cohort="own", flavor="h100"),
    ]
    gauges = [*_gauges("research", 8, used), *_gauges("product", 24, _hold(6), limit=2), *flavors]
    found = _queues(tmp_path, gauges)
    assert {name: figures(queue, QUEUE) for name, queue in found.items()} == {
        "research": "gpus 8 5 12 12 1 4 None True 0.25",
        "product": "gpus 24 6 6 6 0 0 2 False 0.75",
        "q": "own 14 8 8 8 2 2 9 False 1",
    }


def test_replicas_count_once_and_the_leader_wins(tmp_path: Path) -> None:
    pending = "kueue_pending_workloads"
    series = [
        *_gauges("q", 8, _hold(6), replica_role="leader"),
        *_gauges("q", 8, _hold(7), replica_role="follower", instance="10.0.0.8:8443"),
        *_gauges("q", 8, _hold(6), replica_role="leader", prometheus_replica="b"),
        _series(pending, _hold(3), cluster_queue="q", status="active"),
        _series(pending, _hold(2), cluster_queue="q", status="inadmissible"),
        _series(pending, _hold(2), cluster_queue="q", status="inadmissible", prometheus_replica="b"),
    ]
    found = _queues(tmp_path, series)["q"]
    assert figures(found, "quota used_average pending_average pending_max") == "8 6 5 5"


def _histogram(counts: str, **labels: str) -> list[Line]:
    """Cumulative counts of 30 s and 300 s waits from given hours on: `0:10,5 2:12,5`."""
    steps = [tuple(map(float, re.split("[:,]", step))) for step in counts.split()]
    ends = [hour for hour, *_ in steps[1:]] + [24.0]

    def line(suffix: str, short: int, long: int, **more: str) -> Line:
        held = [
            _hold(short * shorts + long * longs, hour, end)
            for (hour, shorts, longs), end in zip(steps, ends, strict=True)
        ]
        name = f"kueue_admission_wait_time_seconds_{suffix}"
        return _series(name, [*chain(*held)], cluster_queue="q", **labels, **more)

    buckets = [line("bucket", 1, int(le != "40"), le=le) for le in ("40", "320", "+Inf")]
    return [line("sum", 30, 300), line("count", 1, 1), *buckets]


def test_waits_are_correct_after_resets_new_series_and_copies(tmp_path: Path) -> None:
    """Compare with a plain calculation of the counts of each process, from 0 if it started while observed."""
    # 2 more, then a restart: 1 and 2 more, 1 long one; another replica leads from 8:00 on and counts from 0
    first = "0:10,5 2:12,5 4:1,0 6:3,1"
    series = [
        *_histogram(first), *_histogram(first, prometheus_replica="b"),
        *_histogram("8:4,0 10:4,2", instance="10.0.0.8:8443"),
        # counts from before the first sample are not waits
        _series("kueue_admission_wait_time_seconds_count", _hold(1000), cluster_queue="old"),
    ]  # fmt: skip
    found = _queues(tmp_path, series)
    assert found["old"].admitted == 0
    short, long = 2 + 1 + 2 + 4, 1 + 2
    mean, half, late = (short * 30 + long * 300) / 12, 40 * 6 / short, 40 + 280 * (0.95 * 12 - short) / long
    names = "admitted wait_mean_seconds wait_p50_seconds wait_p95_seconds"
    assert figures(found["q"], names) == shown(12, round(mean, 6), round(half, 6), round(late, 6))
    assert found["q"].quota is None


def test_recent_usage_halves_in_two_days(tmp_path: Path) -> None:
    """7 days of 8 GPUs except the last 2: the integral of 8 x 2^(-age / 2 days)."""
    period = Period(DAY.start, datetime(2026, 10, 11, tzinfo=UTC))
    used = [*_hold(8, 0, 24 * 8), *_hold(0, 24 * 8, 24 * 10)]
    common = {"cluster_queue": "q", "resource": GPU, "flavor": "f"}
    found = _queues(
        tmp_path, [_series("kueue_cluster_queue_resource_usage", used, **common)], period, days=10
    )["q"]
    whole, recent = 1 - 2 ** (-7 / 2), 1 - 2 ** (-2 / 2)
    assert found.recent_used == pytest.approx(8 * (whole - recent) / whole, rel=1e-6)
    assert found.used_average == pytest.approx(8 * 8 / 10)


def test_quantiles_of_waits() -> None:
    assert quantile([], 0.5) is quantile([(1.0, 0.0)], 0.5) is None
    assert quantile([(1.0, 4.0), (2.0, 8.0)], 0.5) == quantile([(1.0, 1.0), (math.inf, 9.0)], 0.95) == 1


CASE = CASES / "queues-idle-and-borrowed"
SPAN = ["--from", "2026-03-10T00:00", "--to", "2026-03-10T04:00"]


def _stored(folder: Path, described: Fleet, prices: Path) -> Config:
    config = write_config(described, folder, prices)
    pipeline.attribute(config, load(described, scrape(described, lean=True), config))
    return config


@pytest.fixture(scope="module")
def cohort(module_path: Path) -> Config:
    return _stored(module_path, read_fleet(CASE), CASE / "prices.csv")


def _answer(config: Config, *words: str) -> Any:
    return json.loads(call("queue", *SPAN, *words, "--format", "json", "--config", config.path)[0])


def test_waiting_cost_evictions_and_pairs_are_exact(cohort: Config) -> None:
    found = _answer(cohort)
    check_queues(CASE, found)
    assert found["missing"] == [
        "Kueue: GPUs of pending workloads; versions from 0.18 export them",
        "KAI: pending workloads and evictions by queue",
    ]
    text = call("queue", *SPAN, "--config", cohort.path)[0]
    for title in (
        "Cost of waiting",
        "Queues that waited while others had quota",
        "Evictions",
        "Not exported",
    ):
        assert f"\n{title}\n" in text


def test_filter_of_queues_keeps_shares_and_pairs_of_the_cohort(cohort: Config) -> None:
    found = _answer(cohort, "--queue", "research")
    assert [(row["cluster_queue"], row["share_of_quota"]) for row in found["queues"]] == [("research", 0.375)]
    costs = {pair["other_queue"]: round(pair["cost"], 6) for pair in found["pairs"]}
    assert costs == {"product": 16, "spare": 8.333333}
    assert found["evictions"] == []
    _, error = call(
        "queue", *SPAN, "--queue", "research", "--queue", "reserch", "--config", cohort.path, code=1
    )
    assert "no queue 'reserch' in" in error and "fix: use a known name: research, " in error


def test_unknown_waiting_cost_has_its_reason(tmp_path: Path) -> None:
    """Volcano: requests less use, in thousandths. Kueue's counts, pods of an unknown model, and a queue without quota."""
    gpu = {"resource": "nvidia.com/gpu"}
    span = [1773100800, 1773115200]
    volcano = {"deserved": 3000, "allocated": 1000, "request": 3000}
    metrics = {
        f"volcano_queue_{name}_scalar_resources": [[{"queue_name": "v", **gpu}, [*span, value]]]
        for name, value in volcano.items()
    } | {
        "volcano_queue_pod_group_pending_count": [[{"queue_name": "v"}, [*span, 1]]],
        "volcano_queue_pod_group_inqueue_count": [[{"queue_name": "v"}, [*span, 2]]],
        "kueue_pending_workloads": [[{"cluster_queue": "counts", "status": "active"}, [*span, 2]]],
    }
    kueue = "kueue_x_k8s_io_cluster_queue_name"
    pods = [
        pod("runs", "w", [0], 0, 4, labels={"volcano_sh_queue_name": "v"}),
        pod("new", None, [], 0, 4, labels={kueue: "new"}, count=1),
        pod("bare", "w", [1], 0, 1, labels={kueue: "bare"}),
        pod("bare2", None, [], 1, 4, labels={kueue: "bare"}, count=1),
    ]
    described = fleet(4, [node("w", "g6.12xlarge", 0, 4)], pods, {}, queues=metrics)
    found = _answer(_stored(tmp_path, described, write_book(tmp_path)))
    rows = {row["cluster_queue"]: row for row in found["queues"]}
    names = "pending_average pending_gpu_hours pending_source waiting_unallocated_cost waiting_borrowed_cost waiting_cost"
    shown_rows = {name: " ".join(str(row[each]) for each in names.split()) for name, row in rows.items()}
    assert shown_rows == {
        # two of the free GPUs at $1.20 for four hours
        "v": "3.0 8.0 metrics 9.6 0.0 9.6",
        "counts": "2.0 None None None None None",
        "new": "None 4.0 pods None None None",
        "bare": "None 3.0 pods 3.6 None None",
    }
    assert [text for text in found["missing"] if text.startswith("waiting cost")] == [
        "waiting cost of bare: neither quota nor use is exported, so borrowed GPUs are unknown",
        "waiting cost of counts: no metric and no pending pod with the queue's label has the requested GPUs",
        "waiting cost of new: no pod with the queue's label held GPUs, so their model and price are unknown",
    ]


def test_queue_without_a_gauge_of_pending_work_is_unknown() -> None:
    facts = {
        "is_exported": None,
        "unallocated_cost": None,
        "has_models": True,
        "has_quota": True,
        "pending_gpu_hours": None,
    }
    for scheduler, pending, hours in (
        ("Kueue", None, None),
        ("Kueue", 0, 0),
        ("LocalQueue", None, None),
        ("KAI", None, 0),
    ):
        row = waits._with_cost({**facts, "scheduler": scheduler, "pending_max": pending}, Decimal(0))
        assert (row["pending_gpu_hours"], row["waiting_cost"]) == (hours, None if hours is None else 0)
