"""Collecting from real servers: the same samples as were scraped, from Prometheus and VictoriaMetrics."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpucost.collect.base import CollectResult
from gpucost.collect.prometheus.client import Retries
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.collect.prometheus.queries import selectors
from gpucost.config.model import Activity, Idle, PrometheusSource
from gpucost.periods import Period
from gpucost.store.connection import Store
from tests.programs import listening, require
from tests.replay.fleet import Fleet, all_cases, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.replay.series import Series
from tests.replay.server import free_port

# ruff: noqa: S310 (all addresses are loopback)
pytestmark = pytest.mark.services

#: Slices and whole GPUs.
NAME = "mig-mixed"
QUICK = Retries(attempts=2, initial=0.05, longest=0.1, jitter=0.01)
Serve = Callable[[dict[str, Any]], str]


def case(name: str) -> Path:
    return next(path for path in all_cases() if path.name == name)


def whole(fleet: Fleet) -> Period:
    start, end = fleet["start"], fleet["end"]
    return Period(datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC))


def collect(fleet: Fleet, url: str, path: Path, **settings: Any) -> CollectResult:
    source = PrometheusSource(url=url, cluster=fleet["nodes"][0]["cluster"], **settings)
    return collect_prometheus(source, Store(path), whole(fleet), Activity(), Idle(), retries=QUICK)


def contents(store: Store) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Blocks, states, gaps and drops with labels in place of numbers, so that stores can be compared."""
    queries = {
        "blocks": "SELECT metric, cluster, labels::VARCHAR, b.* EXCLUDE (series_id) FROM blocks b JOIN series USING (series_id)",
        # when the server has other objects is asked for in silences alone, so that it depends on when a run was
        "states": "SELECT metric, cluster, labels::VARCHAR, value, first_ms, last_ms FROM states JOIN series USING (series_id)"
        " WHERE metric <> 'kube_family_samples'",
        "dropped": "SELECT metric, hour, reason, samples FROM dropped_samples",
    }
    return [(name, sorted(store.query(query)[1], key=str)) for name, query in queries.items()]


def test_prometheus_gives_what_was_scraped(prometheus_server: Serve, tmp_path: Path) -> None:
    fleet = read_fleet(case(NAME))
    result = collect(fleet, prometheus_server(fleet), tmp_path / "http.duckdb", max_samples=20_000)
    assert result.ok and not result.not_collected
    config = write_config(fleet, tmp_path, tmp_path / "none.csv")
    assert contents(Store(tmp_path / "http.duckdb")) == contents(
        load(fleet, list(filter(is_selected, scrape(fleet))), config)
    )


def is_selected(series: Series) -> bool:
    """What the selectors ask for, said once more in plain Python."""
    labels = series.labels
    metric = labels["__name__"]
    if metric not in {selector.metric for selector in selectors(Activity())}:
        return False
    if metric.startswith("DCGM"):
        return ("GPU_I_ID" in labels) == (metric == "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
    if "resource" in labels and labels["resource"] in {"cpu", "memory"}:
        return False
    if metric == "kube_node_status_condition":
        return labels["condition"] == "Ready" and labels["status"] == "true"
    return metric != "kube_pod_status_phase" or labels["phase"] in {"Pending", "Succeeded", "Failed"}


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[str]:
    require("victoria-metrics", package="victoria-metrics")
    port = free_port()
    where = [f"-storageDataPath={tmp_path / 'vm'}", f"-httpListenAddr=127.0.0.1:{port}"]
    with listening(
        ["victoria-metrics", *where, "-retentionPeriod=100y", "-loggerLevel=ERROR"], port, tmp_path / "log"
    ) as url:
        yield url


def test_victoria_metrics_gives_the_same(victoria: str, prometheus_server: Serve, tmp_path: Path) -> None:
    fleet = read_fleet(case(NAME))
    lines = [
        json.dumps({"metric": one.labels, "values": one.values.tolist(), "timestamps": one.times.tolist()})
        for one in scrape(fleet)
        if not np.isnan(one.values).any()
    ]
    request = urllib.request.Request(victoria + "/api/v1/import", "\n".join(lines).encode(), method="POST")
    urllib.request.urlopen(request, timeout=30).close()
    urllib.request.urlopen(victoria + "/internal/force_flush", timeout=30).close()
    assert collect(fleet, victoria, tmp_path / "vm.duckdb").ok
    assert collect(fleet, prometheus_server(fleet), tmp_path / "prometheus.duckdb").ok
    assert contents(Store(tmp_path / "vm.duckdb")) == contents(Store(tmp_path / "prometheus.duckdb"))
