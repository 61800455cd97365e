"""Collecting from real servers: the same samples as were scraped, whatever their labels, from Prometheus and VictoriaMetrics."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest

from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.collector import collect_prometheus
from gpucost.collect.prometheus.queries import one_of, selectors
from gpucost.config.model import Activity, Idle, PrometheusSource
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from tests.programs import listening, require
from tests.replay.fleet import all_cases, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Series
from tests.replay.server import free_port, prometheus_over_text, require_prometheus

pytestmark = pytest.mark.services

QUICK = Retries(attempts=2, initial=0.05, longest=0.1, jitter=0.01)
#: Slices and whole GPUs.
FLEET = read_fleet(next(path for path in all_cases() if path.name == "mig-mixed"))
AT = FLEET["start"] + 3600
VALUES = [
    "ml", "m.", "a b", 'q"b', "back\\slash", "n\nl", "n\\nl", "tab\tbed", "x.y*", "é☃𝄞", "a|b", "-~#&", "(a", "[b", "{c}", "^d$",
    "\u2028", "\x7f", "'", "`", "%41", "a,b=~\"c\"",
]  # fmt: skip


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


@contextmanager
def prometheus(folder: Path) -> Iterator[str]:
    require_prometheus()

    def write(out: TextIO) -> None:
        print("# TYPE m gauge", file=out)
        for number, value in enumerate(VALUES):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            print(f'm{{pod="{escaped}"}} {number} {AT}', file=out)
        write_openmetrics(scrape(FLEET), out)

    with prometheus_over_text(write, folder / "data") as url:
        yield url


@contextmanager
def victoria_metrics(folder: Path) -> Iterator[str]:
    require("victoria-metrics", package="victoria-metrics")
    port = free_port()
    flags = f"-storageDataPath={folder}/vm -httpListenAddr=127.0.0.1:{port} -retentionPeriod=100y -loggerLevel=ERROR"
    lines = [
        {"metric": {"__name__": "m", "pod": value}, "values": [number], "timestamps": [AT * 1000]}
        for number, value in enumerate(VALUES)
    ]
    for one in scrape(FLEET):
        if not np.isnan(one.values).any():
            values, times = one.values.tolist(), one.times.tolist()
            lines.append({"metric": one.labels, "values": values, "timestamps": times})
    with listening(["victoria-metrics", *flags.split()], port, folder / "log") as url:
        body = "\n".join(map(json.dumps, lines)).encode()
        for path, sent in (("/api/v1/import", body), ("/internal/force_flush", b"")):
            request = urllib.request.Request(url + path, sent, method="POST")  # noqa: S310 - loopback
            urllib.request.urlopen(request, timeout=30).close()  # noqa: S310
        yield url


@pytest.mark.parametrize("server", [prometheus, victoria_metrics])
def test_server_gives_what_was_scraped(server: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "http.duckdb")
    period = Period(from_ms(FLEET["start"] * 1000), from_ms(FLEET["end"] * 1000))
    with server(tmp_path) as url:
        source = PrometheusSource(url=url, cluster=FLEET["nodes"][0]["cluster"], max_samples=20_000)
        result = collect_prometheus(source, store, period, Activity(), Idle(), retries=QUICK)
        assert result.ok and not result.not_collected
        for mode in ("refuse", "accept"):
            client = PrometheusClient(PrometheusSource(url=url, partial_response=mode))
            for number, value in enumerate(VALUES):
                assert matched(client, [value]) == {(value, number)}
            assert matched(client, VALUES) == {(value, number) for number, value in enumerate(VALUES)}
            assert matched(client, VALUES * 30) == matched(client, VALUES)  # as a form
            assert client.label_values("pod", AT * 1000 - 1000, AT * 1000 + 1000) >= set(VALUES)
            assert client.value("count(m)", AT * 1000) == len(VALUES)
            assert client.get("labels", {"start": str(AT - 1), "end": str(AT + 1)}) and not client.warnings
            client.close()
    config = write_config(FLEET, tmp_path, tmp_path / "none.csv")
    assert contents(store) == contents(load(FLEET, list(filter(is_selected, scrape(FLEET))), config))


def matched(client: PrometheusClient, values: list[str]) -> set[tuple[str, float]]:
    """The pods that have these names, and their values."""
    answer = client.matrix("m", f"m{{{one_of('pod', values)}}}[3600000ms]", AT * 1000 + 1000)
    assert not answer.is_partial
    found = zip(answer.series_index.tolist(), answer.values.tolist(), strict=True)
    return {(answer.series[index]["pod"], number) for index, number in found}
