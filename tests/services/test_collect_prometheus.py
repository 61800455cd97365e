"""Collecting from real servers stores the scraped samples.

Any labels, from Prometheus and VictoriaMetrics; constant series as chunks and by their hourly sums; late samples. For clocks, see
unit/test_collect_windows.py.
"""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pytest

from gpucost import pipeline
from gpucost.collect.prometheus import collector
from gpucost.collect.prometheus.client import PrometheusClient, Retries
from gpucost.collect.prometheus.collector import PrometheusCollector, collect_prometheus
from gpucost.collect.prometheus.queries import one_of, selectors
from gpucost.config.model import Activity, Config, PrometheusSource
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from gpucost.store.metrics import ReadAnswer
from tests.programs import listening, require
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.edits import drop
from tests.replay.fleet import all_cases, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape, write_openmetrics
from tests.replay.series import Series
from tests.replay.server import (
    free_port,
    prometheus_over_text,
    require_prometheus,
    start_prometheus,
    stop,
    write_blocks,
)

pytestmark = pytest.mark.services

QUICK = Retries(attempts=2, initial=0.05, longest=0.1, jitter=0.01)
#: Slices and whole GPUs.
FLEET = read_fleet(next(path for path in all_cases() if path.name == "mig-mixed"))
AT = FLEET["start"] + 3600
VALUES = json.loads(r"""[
    "ml", "m.", "a b", "q\"b", "back\\slash", "n\nl", "n\\nl", "tab\tbed", "x.y*", "é☃𝄞", "a|b", "-~#&", "(a", "[b", "{c}", "^d$",
    "\u2028", "\u007f", "'", "`", "%41", "a,b=~\"c\""
]""")


def contents(store: Store) -> list[tuple[str, list[tuple[object, ...]]]]:
    """Return blocks, states, gaps and drops with labels instead of ids, so that stores can be compared."""
    queries = {
        "blocks": "SELECT metric, cluster, labels::VARCHAR, b.* EXCLUDE (series_id) FROM blocks b JOIN series USING (series_id)",
        # samples of other objects are only queried in gaps, so they depend on the time of the run
        "states": "SELECT metric, cluster, labels::VARCHAR, value, first_ms, last_ms FROM states JOIN series USING (series_id)"
        " WHERE metric <> 'kube_family_samples'",
        "dropped": "SELECT metric, hour, reason, samples FROM dropped_samples",
    }
    return [(name, sorted(store.query(query)[1], key=str)) for name, query in queries.items()]


def is_selected(series: Series) -> bool:
    """Return whether the selectors match, in plain Python."""
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
def test_collected_samples_match_the_scrapes(server: Any, tmp_path: Path) -> None:
    store = Store(tmp_path / "http.duckdb")
    period = Period(from_ms(FLEET["start"] * 1000), from_ms(FLEET["end"] * 1000))
    with server(tmp_path) as url:
        source = PrometheusSource(url=url, cluster=FLEET["nodes"][0]["cluster"], max_samples=20_000)
        result = collect_prometheus(Config(store=store.path), source, store, period, retries=QUICK)
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
    """Return the pods with these names, and their values."""
    answer = client.matrix("m", f"m{{{one_of('pod', values)}}}[3600000ms]", AT * 1000 + 1000)
    assert not answer.is_partial
    found = zip(answer.series_index.tolist(), answer.values.tolist(), strict=True)
    return {(answer.series[index]["pod"], number) for index, number in found}


START, HOURS = 1_790_812_800, 8
END = START + HOURS * 3600.0
#: Per node and pod: a metric, more labels, a value, and the moments of its lifetime between which it is exported.
NODE = """
kube_node_info               provider_id="aws:///a/i-1"          1        born  gone
kube_node_created            -                                   1e9      born  gone
kube_node_labels             label_a="b"                         1        born  gone
kube_node_status_capacity    resource="nvidia_com_gpu"           8        born  gone
kube_node_status_condition   condition="Ready",status="true"     1        born  gone
kube_node_spec_unschedulable -                                   0        born  gone
"""
POD = """
kube_pod_info                           -                        1        born  bound
kube_pod_info                           node="n1"                1        bound gone
kube_pod_container_resource_requests    resource="nvidia_com_gpu" 2       born  bound
kube_pod_container_resource_requests    resource="nvidia_com_gpu",node="n1" 2 bound gone
kube_pod_owner                          owner_kind="Job"         1        born  gone
kube_pod_status_scheduled_time          -                        bound    bound gone
kube_pod_start_time                     -                        bound    bound gone
kube_pod_completion_time                -                        over     over  gone
kube_pod_status_phase                   phase="Pending"          pending  born  gone
kube_pod_status_phase                   phase="Running"          running  born  gone
kube_pod_status_phase                   phase="Succeeded"        ended    born  gone
"""


class World:
    """Scrapes of two targets over some hours; `trouble` is the rate of faults in their series."""

    def __init__(self, seed: int, trouble: float) -> None:
        self.dice, self.trouble = random.Random(seed), trouble
        self.families: dict[str, dict[str, list[tuple[float, float]]]] = {}
        names = self.dice.choice(['replica="a",', ""])
        targets = [f'job="ksm",instance="10.0.0.{n}:8080",{names}' for n in range(2)]
        if names and self.happens():  # the same target, scraped twice
            targets.append(targets[0].replace('"a"', '"b"'))
        for self.target in targets:
            self.scrapes = self._scrapes()
            for number in range(3):
                late = self.happens(0.3)
                life = {
                    "born": START + self.dice.uniform(0, 9000) if late else 0.0,
                    "gone": END - 1000 * late,
                }
                self._put(NODE, f'node="n{number}"', life)
            for number in range(12):
                self._pod(number)
        busy = [(START + second, 50.0) for second in range(7, HOURS * 3600, 60)]
        self.families["DCGM_FI_DEV_GPU_UTIL"] = {'job="dcgm",UUID="GPU-1",Hostname="n0"': busy}

    def happens(self, share: float = 1.0) -> bool:
        """Return whether a fault occurs here."""
        return self.dice.random() < self.trouble * share

    def _scrapes(self) -> list[float]:
        step = self.dice.choice([30, 60, 60])
        # on the hour, and a millisecond before it, since versions of Prometheus differ there
        moment, moments = START - 3600 + self.dice.choice([0.0, 59.999, 13.217]), set()
        while moment < END:
            moments.add(round(moment + (self.dice.uniform(-0.4, 0.4) if self.happens(0.2) else 0), 3))
            moment += step
            if self.happens(0.004):
                step = self.dice.choice([15, 30, 60])
            if self.happens(0.004):
                moment += self.dice.choice([300, 700, 2400, 5000])
        return sorted(moments)

    def _pod(self, number: int) -> None:
        born = self.dice.uniform(START - 5000, END)
        bound = born + self.dice.choice([0, 90, 600])
        over = bound + self.dice.choice([20, 130, 4000, 20_000])
        life = {"born": born, "bound": bound, "over": over, "gone": over + self.dice.choice([0, 100, 5000])}
        uid = "" if self.happens(0.05) else f',uid="u{number}"'
        self._put(POD, f'namespace="ml",pod="p{number}"{uid}', life)

    def _put(self, table: str, name: str, life: dict[str, float]) -> None:
        """Add the series of an object; while kube-state-metrics does not know it, all of its series pause."""
        begins = life | {
            "pending": life["born"],
            "running": life.get("bound", 0) + 60,
            "ended": life.get("over", 0),
        }
        ends = {"pending": begins["running"], "running": begins["ended"], "ended": END * 2}
        away = self._absence(life) if self.happens(0.2) else (0.0, 0.0)
        for metric, labels, text, since, until in map(str.split, table.strip().splitlines()):
            odd = self._absence(life) if self.happens(0.15) and not metric.endswith("_info") else (0.0, 0.0)
            changed = self.dice.uniform(START, END) if self.happens(0.1) else END  # another value for a while
            other = self.dice.choice([0.0, 1.0, 2.0, 0.1, float("nan")])
            samples = []
            for moment in self.scrapes:
                value = (
                    float(begins[text] <= moment < ends[text])
                    if text in ends
                    else float(int(life.get(text, 0)) or text)
                )
                if life[since] <= moment < life[until] and not (
                    away[0] <= moment < away[1] or odd[0] <= moment < odd[1]
                ):
                    samples.append((moment, other if changed <= moment < changed + 900 else value))
            if samples:
                series = f"{self.target}{name},{labels}" if labels != "-" else self.target + name
                self.families.setdefault(metric, {})[series] = samples

    def _absence(self, life: dict[str, float]) -> tuple[float, float]:
        """Return a range of one or several samples."""
        gone = self.dice.choice([one for one in self.scrapes if life["born"] <= one < life["gone"]] or [0.0])
        return gone, gone + self.dice.choice([1, 200, 900, 4000])

    def write(self, out: TextIO) -> None:
        """Write all samples as OpenMetrics text."""
        for metric, series in sorted(self.families.items()):
            out.write(f"# TYPE {metric} gauge\n")
            for labels, samples in series.items():
                for moment, value in samples:
                    out.write(f"{metric}{{{labels}}} {str(value).replace('nan', 'NaN')} {moment:.3f}\n")
        out.write("# EOF\n")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 16))])
def test_hourly_states_match_samples(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_prometheus()
    read = {"chunks": 0, "hours": 0, "samples": 0}
    matrix, dice = PrometheusClient.matrix, random.Random(seed)

    def counted(self: PrometheusClient, metric: str, query: str, at_ms: int) -> ReadAnswer:
        answer = matrix(self, metric, query, at_ms)
        read[name] += len(answer.ts_ms)
        return answer

    monkeypatch.setattr(PrometheusClient, "matrix", counted)
    start = datetime.fromtimestamp(START, UTC)
    period = Period(start, start + timedelta(hours=dice.choice([HOURS, HOURS - 0.3])))
    stored = []
    with prometheus_over_text(
        World(seed, dice.choice([0.1, 0.4, 0.9])).write, tmp_path / "prometheus"
    ) as url:
        few = dice.choice([1_000, 2_000_000])
        for name, most in (("chunks", few), ("hours", few), ("samples", 2_000_000)):
            if name == "samples":
                monkeypatch.setattr(PrometheusCollector, "_scrapes", lambda *_: None)
            store = Store(tmp_path / name)
            source = PrometheusSource(url=url, cluster="c", max_samples=most, remote_read=name == "chunks")
            assert collect_prometheus(Config(store=store.path), source, store, period, retries=QUICK).ok
            rows = store.query("SELECT hour, samples FROM asked_hours ORDER BY ALL")[1]
            gaps = store.query("SELECT * EXCLUDE (source) FROM scrape_gaps ORDER BY ALL")[1]
            stored.append([*contents(store), rows, gaps])
    assert stored[0] == stored[1] == stored[2]
    assert read["hours"] != read["samples"] and not read["chunks"]  # queried in other ways


DAY_HOURS = 24
_COLLECT = collector.collect_prometheus
SOUTH = {"cluster": "south"}
#: A dead exporter with late samples, another that is always three hours late, and an agent that sends its backlog last: samples
#: not served yet, and the hours at which a run collects the rest.
LATE: dict[str, list[tuple[tuple[Any, ...] | None, tuple[float, ...]]]] = {
    "exporter-for-two-hours": [(("DCGM.*", {}, (10, 12)), (13.1,)), (None, (16.2, DAY_HOURS))],
    "always": [
        (("DCGM.*", {}, (5, 99)), (8, 9.2, 10.4)),
        (("DCGM.*", {}, (8, 99)), (11,)),
        (None, (DAY_HOURS,)),
    ],
    "backlog": [
        ((".*", SOUTH, (5, 99)), (8, 9.2, 10.4)),
        ((".*", SOUTH, (5, 12)), (13,)),
        (None, (14, DAY_HOURS)),
    ],
}


def described() -> Any:
    """Return two clusters with a node of four GPUs each: one GPU always held, one from the fifth to the ninth hour."""
    nodes, pods, util = [], [], {}
    for cluster in ("north", "south"):
        nodes.append(node(cluster, "g6.12xlarge", 0, DAY_HOURS, cluster=cluster))
        for number, (start, end) in enumerate(((0, DAY_HOURS), (5, 9))):
            pods.append(pod(f"work-{number}", cluster, [number], start, end, cluster=cluster))
            util |= busy(cluster, [number], start, end, 40 + 20 * number)
    return fleet(DAY_HOURS, nodes, pods, util, cluster_label=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE)
def test_late_samples_are_collected(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_prometheus()
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    port, series, found = free_port(), scrape(described()), []
    for way, phases in (("late", LATE[name]), ("calm", [(None, (DAY_HOURS,))])):
        (tmp_path / way).mkdir()
        url = f"http://127.0.0.1:{port}"
        config = write_config(
            described(), tmp_path / way, tmp_path / "prices.csv", url, cluster_label="cluster"
        )
        store = Store(config.store)
        for number, (hidden, hours) in enumerate(phases):
            served = drop(series, *hidden) if hidden else series
            data = tmp_path / way / str(number)
            write_blocks(partial(write_openmetrics, served), data)
            process = start_prometheus(data, port)
            for hour in hours:
                collect = partial(_COLLECT, now=from_ms(at(hour) * 1000), retries=QUICK)
                monkeypatch.setattr(collector, "collect_prometheus", collect)
                (result,), errors = pipeline.collect(config, store, None)
                assert not errors and result.ok
                assert result.queried_again or not number or hour == DAY_HOURS
            stop(process)
        pipeline.attribute(config, store)
        money = store.query("SELECT * EXCLUDE (allocation_id) FROM cost_hourly ORDER BY ALL")[1]
        assert len(money) > DAY_HOURS
        found.append((contents(store), money))
    assert found[0] == found[1]
