"""All scrapes of a fleet, as OpenMetrics text or arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

import numpy as np

from tests.replay.dcgm import dcgm
from tests.replay.fleet import Fleet
from tests.replay.kube import kube_state
from tests.replay.series import Recorder, Series, clock

if TYPE_CHECKING:
    from gpucost.store.metrics import ReadAnswer

# Replicas never scrape in step.
_KSM_LAG, _PROMETHEUS_LAG = 0.31, 0.43


def scrape(fleet: Fleet, lean: bool = False) -> list[Series]:
    """Return every series of the fleet; `lean` leaves out metrics without effect on figures."""
    out = Recorder()
    steps = fleet.get("ksm_scrapes") or [fleet["scrape"]] * fleet.get("ksm_replicas", 1)
    replicas = fleet.get("prometheus_replicas", 1)
    for number in range(replicas):
        name = {"prometheus_replica": f"prometheus-{number}"} if replicas > 1 else {}
        lag = number * _PROMETHEUS_LAG
        for replica, step in enumerate(steps):
            target = {"job": "kube-state-metrics", "instance": f"10.4.0.{30 + replica}:8080"}
            ticks = clock({**fleet, "scrape": step}, lag + replica * _KSM_LAG)
            kube_state(fleet, out, {**target, **name}, ticks.without(fleet.get("ksm_silent", [])))
        dcgm(fleet, out, name, clock(fleet, lag), lean)
        for metric, rows in fleet.get("queues", {}).items():
            for labels, *spans in rows:
                for start, end, value in spans:
                    ticks = clock(fleet, lag)
                    target = {"job": "scheduler", "instance": "10.4.0.40:8443", **name}
                    out.add(metric, {**target, **labels}, ticks.times[ticks.slice(start, end)], value)
        for pod, spans in fleet.get("epochs", {}).items():
            times = clock(fleet, lag)
            for start, end, value in spans:
                labels = {"job": "train", "instance": f"{pod}:8000", "namespace": "train", "pod": pod, **name}
                out.add("train_epochs", labels, times.times[times.slice(start, end)], value)
    return out.series()


def write_openmetrics(series: list[Series], out: TextIO, *, ends: bool = True) -> None:
    """Write series as OpenMetrics text with timestamps for promtool; without `ends`, more text can follow."""
    for name in sorted({s.labels["__name__"] for s in series}):
        print(f"# TYPE {name} gauge", file=out)
        for one in series:
            if one.labels["__name__"] == name:
                labels = ",".join(f'{k}="{_escaped(v)}"' for k, v in one.labels.items() if k != "__name__")
                out.writelines(
                    f"{name}{{{labels}}} {'NaN' if math.isnan(v) else repr(v)} {t / 1000:.3f}\n"
                    for t, v in zip(one.times.tolist(), one.values.tolist(), strict=True)
                )
    if ends:
        print("# EOF", file=out)


def _escaped(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text).replace("\n", r"\n")


def answers(series: list[Series], from_ms: int, to_ms: int) -> Iterator[ReadAnswer]:
    """Yield the samples in [from_ms, to_ms) as a collector passes them to the store: one answer per metric."""
    from gpucost.store.metrics import ReadAnswer

    by_metric = {}
    for one in series:
        by_metric.setdefault(one.labels["__name__"], []).append(one)
    for found in by_metric.values():
        kept = []
        for one in found:
            low, high = np.searchsorted(one.times, [from_ms, to_ms])
            if high > low:
                kept.append((one.labels, one.times[low:high], one.values[low:high]))
        if kept:
            yield ReadAnswer(
                series=[labels for labels, _, _ in kept],
                series_index=np.repeat(np.arange(len(kept), dtype=np.int32), [len(t) for _, t, _ in kept]),
                ts_ms=np.concatenate([t for _, t, _ in kept]),
                values=np.concatenate([v for _, _, v in kept]),
            )
