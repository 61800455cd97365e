"""Constant series told by their sums in each hour: the store is the same as from raw samples, whatever series do."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TextIO

import pytest

from gpucost.collect.prometheus.client import PrometheusClient
from gpucost.collect.prometheus.collector import PrometheusCollector, collect_prometheus
from gpucost.config.model import Activity, Idle, PrometheusSource
from gpucost.periods import Period
from gpucost.store.connection import Store
from gpucost.store.metrics import ReadAnswer
from tests.replay.server import prometheus_over_text, require_prometheus
from tests.services.test_collect_prometheus import QUICK, contents

pytestmark = pytest.mark.services

START, HOURS = 1_790_812_800, 8
END = START + HOURS * 3600
Series = dict[str, list[tuple[float, float]]]


class World:
    """Scrapes of two targets over some hours; `trouble` is how much befalls their series."""

    def __init__(self, seed: int, trouble: float) -> None:
        self.dice, self.trouble = random.Random(seed), trouble
        self.families: dict[str, Series] = {}
        names = self.dice.choice(['replica="a",', ""])
        self.targets = [f'job="ksm",instance="10.0.0.{n}:8080",{names}' for n in range(2)]
        if names and self.dice.random() < trouble:  # the same target, scraped twice
            self.targets.append(self.targets[0].replace('"a"', '"b"'))
        for target in self.targets:
            self.scrapes = self._scrapes()
            self.target = target
            for node in range(3):
                self._node(f"n{node}")
            for pod in range(12):
                self._pod(pod)
        series = [(START + at, 50.0) for at in range(7, HOURS * 3600, 60)]
        self.families["DCGM_FI_DEV_GPU_UTIL"] = {'job="dcgm",UUID="GPU-1",Hostname="n0"': series}

    def happens(self, share: float = 1.0) -> bool:
        """Whether a trouble strikes here."""
        return self.dice.random() < self.trouble * share

    def _scrapes(self) -> list[float]:
        step = self.dice.choice([30, 60, 60])
        # on the hour, and a millisecond before it, where versions of Prometheus disagree
        offset = self.dice.choice([0.0, 59.999, 13.217])
        at, moments = START - 3600 + offset, []
        while at < END:
            moments.append(round(at + (self.dice.uniform(-0.4, 0.4) if self.happens(0.2) else 0), 3))
            at += step
            if self.happens(0.004):
                step = self.dice.choice([15, 30, 60])
            if self.happens(0.004):
                at += self.dice.choice([300, 700, 2400, 5000])
        return sorted(set(moments))

    def put(self, metric: str, labels: str, value: float, life: tuple[float, float]) -> None:
        """A series, and what befalls it; an object of which kube-state-metrics does not know tells nothing at all."""
        away = (
            [self.away]
            if metric.endswith("_info") or not self.happens(0.15)
            else [self.away, self._absence(life)]
        )
        samples = [
            (at, value)
            for at in self.scrapes
            if life[0] <= at < life[1] and not any(a <= at < b for a, b in away)
        ]
        if self.happens(0.1):  # another value for a while
            since, other = (
                self.dice.uniform(START, END),
                self.dice.choice([0.0, 1.0, 2.0, 0.1, float("nan"), value + 1]),
            )
            samples = [(at, other if since <= at < since + 900 else one) for at, one in samples]
        if samples:
            self.families.setdefault(metric, {})[self.target + labels] = samples

    def _absence(self, life: tuple[float, float]) -> tuple[float, float]:
        """Of one sample, or a stretch of them."""
        gone = self.dice.choice([one for one in self.scrapes if life[0] <= one < life[1]] or [0.0])
        return gone, gone + self.dice.choice([1, 200, 900, 4000])

    def _node(self, node: str) -> None:
        life = (
            (0.0, float(END)) if not self.happens(0.3) else (START + self.dice.uniform(0, 9000), END - 1000.0)
        )
        self.away = self._absence(life) if self.happens(0.2) else (0.0, 0.0)
        name = f'node="{node}"'
        self.put("kube_node_info", f'{name},provider_id="aws:///a/i-{node}"', 1, life)
        self.put("kube_node_created", name, START - 9000, life)
        self.put("kube_node_labels", f'{name},label_a="{node}"', 1, life)
        self.put(
            "kube_node_status_capacity", f'{name},resource="nvidia_com_gpu"', self.dice.choice([8, 0]), life
        )
        self.put("kube_node_status_condition", f'{name},condition="Ready",status="true"', 1, life)
        self.put("kube_node_spec_unschedulable", name, 0, life)

    def _pod(self, number: int) -> None:
        dice = self.dice
        born = dice.uniform(START - 5000, END)
        bound = born + dice.choice([0, 90, 600])
        over = bound + dice.choice([20, 130, 4000, 20_000])
        gone = over + dice.choice([0, 100, 5000])
        self.away = self._absence((born, gone)) if self.happens(0.2) else (0.0, 0.0)
        uid = "" if self.happens(0.05) else f',uid="u{number}"'
        pod = f'namespace="ml",pod="p{number}"{uid}'
        for node, life in (("", (born, bound)), (',node="n1"', (bound, gone))):
            self.put("kube_pod_info", f"{pod}{node}", 1, life)
            self.put(
                "kube_pod_container_resource_requests", f'{pod}{node},resource="nvidia_com_gpu"', 2, life
            )
        self.put("kube_pod_owner", f'{pod},owner_kind="Job"', 1, (born, gone))
        self.put("kube_pod_status_scheduled_time", pod, int(bound), (bound, gone))
        self.put("kube_pod_start_time", pod, int(bound), (bound + dice.choice([0, 60]), gone))
        self.put("kube_pod_completion_time", pod, int(over), (over, gone))
        for phase, life in (
            ("Pending", (born, bound + 60)),
            ("Running", (bound + 60, over)),
            ("Succeeded", (over, gone)),
        ):
            labels = f'{pod},phase="{phase}"'
            self.put("kube_pod_status_phase", labels, 0, (born, gone))
            if self.happens(0.1):
                continue
            samples = self.families.get("kube_pod_status_phase", {}).get(self.target + labels, [])
            samples[:] = [(at, float(life[0] <= at < life[1])) for at, _ in samples]

    def write(self, out: TextIO) -> None:
        """All samples as OpenMetrics text."""
        for metric, series in sorted(self.families.items()):
            out.write(f"# TYPE {metric} gauge\n")
            for labels, samples in series.items():
                out.writelines(
                    f"{metric}{{{labels}}} {str(value).replace('nan', 'NaN')} {at:.3f}\n"
                    for at, value in samples
                )
        out.write("# EOF\n")


def collected(url: str, path: Path, hours: float, **settings: int) -> list[object]:
    """What the store holds after a collect of so many hours."""
    store = Store(path)
    start = datetime.fromtimestamp(START, UTC)
    source = PrometheusSource(url=url, cluster="c", **settings)
    assert collect_prometheus(
        source, store, Period(start, start + timedelta(hours=hours)), Activity(), Idle(), retries=QUICK
    ).ok
    rows = store.query("SELECT hour, samples FROM asked_hours ORDER BY ALL")[1]
    gaps = store.query("SELECT * EXCLUDE (source) FROM scrape_gaps ORDER BY ALL")[1]
    return [*contents(store), rows, gaps]


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 16))])
def test_hours_tell_the_same_as_samples(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_prometheus()
    dice = random.Random(seed)
    world = World(seed, trouble=dice.choice([0.1, 0.4, 0.9]))
    hours = dice.choice([HOURS, HOURS - 0.3])
    with prometheus_over_text(world.write, tmp_path / "prometheus") as url:
        told = collected(url, tmp_path / "told.duckdb", hours, max_samples=dice.choice([1_000, 2_000_000]))
        monkeypatch.setattr(PrometheusCollector, "_scrapes", lambda *_: None)
        assert collected(url, tmp_path / "raw.duckdb", hours) == told


def test_raw_samples_of_constant_series_are_read_at_their_edges_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_prometheus()
    read = Counter[str]()
    matrix = PrometheusClient.matrix

    def counted(self: PrometheusClient, metric: str, query: str, at_ms: int) -> ReadAnswer:
        answer = matrix(self, metric, query, at_ms)
        read["activity" if metric.startswith("DCGM") else "state"] += len(answer.ts_ms)
        return answer

    monkeypatch.setattr(PrometheusClient, "matrix", counted)
    world = World(0, trouble=0)
    with prometheus_over_text(world.write, tmp_path / "prometheus") as url:
        collected(url, tmp_path / "told.duckdb", HOURS)
        told, all_of_them = (
            read["state"],
            sum(len(s) for family in world.families.values() for s in family.values()),
        )
        read.clear()
        monkeypatch.setattr(PrometheusCollector, "_scrapes", lambda *_: None)
        collected(url, tmp_path / "raw.duckdb", HOURS)
    assert 0 < told < read["state"] / 3 < all_of_them
