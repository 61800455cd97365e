"""What samples say of pods: idle stretches and levels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from gpucost.config.load import load_config
from gpucost.periods import Period
from gpucost.store.connection import scratch_store
from gpucost.store.usage import read_idle, read_levels
from gpucost.whatif.fleet import Pod, is_batch, is_notebook

MINUTE = 60_000
METRICS = load_config(None).activity
PERIOD = Period(datetime.fromtimestamp(360_000, UTC), datetime.fromtimestamp(367_200, UTC))


def _insert(con: Any, series: int, metric: str, labels: dict[str, str], hour: int, values: list[float], threshold: float) -> None:
    """An hour of one sample a minute."""
    con.execute("INSERT INTO series VALUES ($1, $1, 's', 'c', $2, $3)", [series, metric, labels])
    idle = sum(value < threshold for value in values[:-1])
    con.execute(
        "INSERT INTO blocks VALUES ($1, $2, $3, $4, $5, $6, 0, 60000, NULL, 60000, $7, $8, $9)",
        [series, hour, len(values), sum(values), idle, threshold, (len(values) - 1) * MINUTE, values[-1], values],
    )


@pytest.fixture
def pod() -> Iterator[Any]:
    """A pod with two GPUs for two hours: one idle from minute 10 to 40 of the first hour, the other from 20 on."""
    with scratch_store() as con:
        begin, end = 100 * 3_600_000, 102 * 3_600_000
        con.execute(
            "INSERT INTO allocations VALUES (1, 'c', 'ns', 'p', 'u', 1, 'nvidia_com_gpu', 2, 2, $1, $2, 'Job', 'Job/p')",
            [begin, end],
        )
        labels = {"exported_namespace": "ns", "exported_pod": "p"}
        one = [0.0 if 10 <= minute < 40 else 90.0 for minute in range(60)]
        two = [0.0 if minute >= 20 else 50.0 for minute in range(60)]
        _insert(con, 1, "DCGM_FI_DEV_GPU_UTIL", {**labels, "UUID": "g1"}, 100, one, 5)
        _insert(con, 2, "DCGM_FI_DEV_GPU_UTIL", {**labels, "UUID": "g2"}, 100, two, 5)
        _insert(con, 3, "DCGM_FI_DEV_FB_USED", {**labels, "UUID": "g1"}, 100, [1000.0 + minute for minute in range(60)], 0)
        yield con


def test_a_pod_is_idle_while_all_its_gpus_are(pod: Any) -> None:
    (row,) = read_idle(pod, METRICS, PERIOD, 0)
    assert [(row[end] - 360_000_000) / MINUTE for end in ("from_ms", "to_ms")] == [20, 40]
    assert read_idle(pod, METRICS, PERIOD, 21 * MINUTE) == []


def test_a_pod_of_which_a_gpu_is_not_measured_is_never_idle(pod: Any) -> None:
    pod.execute("UPDATE allocations SET gpus = 3, units = 3")
    assert read_idle(pod, METRICS, PERIOD, 0) == []


def test_a_pod_with_all_gpus_of_its_node_needs_no_label(pod: Any) -> None:
    pod.execute("UPDATE series SET labels = MAP {'UUID': labels['UUID'], 'Hostname': 'node-1'}")
    assert read_idle(pod, METRICS, PERIOD, 0) == []
    pod.execute(
        "INSERT INTO nodes BY NAME SELECT 1 AS node_id, 'c' AS cluster, 'node-1' AS node, 0 AS up_from_ms, 999999999 AS up_to_ms,"
        " 'on_demand' AS capacity_type, 2 AS gpu_count"
    )
    assert len(read_idle(pod, METRICS, PERIOD, 0)) == 1
    pod.execute("UPDATE nodes SET gpu_count = 8")
    assert read_idle(pod, METRICS, PERIOD, 0) == []


def test_levels_with_memory(pod: Any) -> None:
    (row,) = read_levels(pod, METRICS, PERIOD)
    assert (row["devices"], row["active_devices"]) == (2, 2)
    assert row["mean_activity"] == pytest.approx((0.9 * 0.5 + 0.5 / 3) / 2)
    assert row["high_activity"] == pytest.approx(0.9)
    assert row["high_memory_mib"] == pytest.approx(1056.05)


def test_what_a_notebook_is() -> None:
    assert is_notebook(Pod("n", "StatefulSet/Jupyter-eve", 1, 0, 1))
    assert is_notebook(Pod("n", "Pod/x", 1, 0, 1, namespace="notebooks"))
    assert not is_notebook(Pod("n", "Job/train", 1, 0, 1))
    assert is_batch(Pod("n", "PyTorchJob/x", 1, 0, 1)) and not is_batch(Pod("n", "Deployment/x", 1, 0, 1))
