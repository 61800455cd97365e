"""Constant series told by their sums in each hour: the store is the same as from raw samples, whatever series do."""

from __future__ import annotations

import random
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
END = START + HOURS * 3600.0
#: Of each node and pod: a metric, labels beside its name, a value, and the moments of its life between which it is exported.
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
    """Scrapes of two targets over some hours; `trouble` is how much befalls their series."""

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
        busy = [(START + at, 50.0) for at in range(7, HOURS * 3600, 60)]
        self.families["DCGM_FI_DEV_GPU_UTIL"] = {'job="dcgm",UUID="GPU-1",Hostname="n0"': busy}

    def happens(self, share: float = 1.0) -> bool:
        """Whether a trouble strikes here."""
        return self.dice.random() < self.trouble * share

    def _scrapes(self) -> list[float]:
        step = self.dice.choice([30, 60, 60])
        # on the hour, and a millisecond before it, where versions of Prometheus disagree
        at, moments = START - 3600 + self.dice.choice([0.0, 59.999, 13.217]), set()
        while at < END:
            moments.add(round(at + (self.dice.uniform(-0.4, 0.4) if self.happens(0.2) else 0), 3))
            at += step
            if self.happens(0.004):
                step = self.dice.choice([15, 30, 60])
            if self.happens(0.004):
                at += self.dice.choice([300, 700, 2400, 5000])
        return sorted(moments)

    def _pod(self, number: int) -> None:
        born = self.dice.uniform(START - 5000, END)
        bound = born + self.dice.choice([0, 90, 600])
        over = bound + self.dice.choice([20, 130, 4000, 20_000])
        life = {"born": born, "bound": bound, "over": over, "gone": over + self.dice.choice([0, 100, 5000])}
        uid = "" if self.happens(0.05) else f',uid="u{number}"'
        self._put(POD, f'namespace="ml",pod="p{number}"{uid}', life)

    def _put(self, table: str, name: str, life: dict[str, float]) -> None:
        """The series of an object; one of which kube-state-metrics does not know for a while tells nothing at all."""
        begins = life | {
            "pending": life["born"],
            "running": life.get("bound", 0) + 60,
            "ended": life.get("over", 0),
        }
        ends = {"pending": begins["running"], "running": begins["ended"], "ended": END * 2}
        away = self._absence(life) if self.happens(0.2) else (0.0, 0.0)
        for metric, labels, text, since, until in map(str.split, table.strip().splitlines()):
            odd = self._absence(life) if self.happens(0.15) and not metric.endswith("_info") else (0.0, 0.0)
            changed = (
                self.dice.uniform(START, END) if self.happens(0.1) else END
            )  # to another value for a while
            other = self.dice.choice([0.0, 1.0, 2.0, 0.1, float("nan")])
            samples = []
            for at in self.scrapes:
                value = (
                    float(begins[text] <= at < ends[text])
                    if text in ends
                    else float(int(life.get(text, 0)) or text)
                )
                if life[since] <= at < life[until] and not (away[0] <= at < away[1] or odd[0] <= at < odd[1]):
                    samples.append((at, other if changed <= at < changed + 900 else value))
            if samples:
                series = f"{self.target}{name},{labels}" if labels != "-" else self.target + name
                self.families.setdefault(metric, {})[series] = samples

    def _absence(self, life: dict[str, float]) -> tuple[float, float]:
        """Of one sample, or a stretch of them."""
        gone = self.dice.choice([one for one in self.scrapes if life["born"] <= one < life["gone"]] or [0.0])
        return gone, gone + self.dice.choice([1, 200, 900, 4000])

    def write(self, out: TextIO) -> None:
        """All samples as OpenMetrics text."""
        for metric, series in sorted(self.families.items()):
            out.write(f"# TYPE {metric} gauge\n")
            for labels, samples in series.items():
                for at, value in samples:
                    out.write(f"{metric}{{{labels}}} {str(value).replace('nan', 'NaN')} {at:.3f}\n")
        out.write("# EOF\n")


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 16))])
def test_hours_tell_the_same_as_samples(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_prometheus()
    read = {"hours": 0, "samples": 0}
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
        for name, most in (("hours", dice.choice([1_000, 2_000_000])), ("samples", 2_000_000)):
            if name == "samples":
                monkeypatch.setattr(PrometheusCollector, "_scrapes", lambda *_: None)
            store = Store(tmp_path / name)
            source = PrometheusSource(url=url, cluster="c", max_samples=most)
            assert collect_prometheus(source, store, period, Activity(), Idle(), retries=QUICK).ok
            rows = store.query("SELECT hour, samples FROM asked_hours ORDER BY ALL")[1]
            gaps = store.query("SELECT * EXCLUDE (source) FROM scrape_gaps ORDER BY ALL")[1]
            stored.append([*contents(store), rows, gaps])
    assert stored[0] == stored[1]
    assert read["hours"] != read["samples"]  # it was asked otherwise
