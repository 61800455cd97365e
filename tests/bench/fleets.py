"""A large fleet as the series of a Prometheus, made without one.

GPUs hold long pods in cycles and are free in between. Some run pods of half an hour at the start of each cycle. As dcgm-exporter
does, a held GPU has a series with the pod's labels, and a free one the same series without them again and again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from gpucost.store.metrics import SampleWindow, Threshold
from tests.replay.scrape import answers
from tests.replay.series import Series, Times, Values
from tests.text_tables import words

START_S = 1_790_812_800  # 2026-10-01T00:00Z
GPUS_PER_NODE = 8
PRICE = {"on_demand": 32.0, "spot": 12.0}
HOUR_S, DAY_S = 3600, 86_400
# Every 40th GPU runs half-hour pods in the first 12 hours of a cycle, one an hour. After a cycle, a GPU is free for 20 minutes.
SHORT_EVERY, SHORT_HOURS, SHORT_S, FREE_S = 40, 12, 1800, 1200
# Scrapes and values repeat in slots of two hours, of which there are a few kinds: a block of samples is encoded once per kind.
SLOT_S, KINDS, JITTERED = 7200, 16, 0.01


@dataclass(frozen=True)
class Fleet:
    """`gpus` GPUs for `days`, scraped every `step_s`, with long pods of about `pod_hours`.

    With `jitter`, 1 % of an exporter's scrapes are 3 to 15 ms late.
    """

    gpus: int
    days: int
    step_s: int = 60
    pod_hours: int = 60
    jitter: bool = True

    @property
    def end(self) -> int:
        return START_S + self.days * DAY_S

    @cached_property
    def pods(self) -> pd.DataFrame:
        """The pods: number, gpu, start and stop in seconds; all are multiples of five minutes."""
        parts = []
        for at in range(START_S, self.end, self.pod_hours * HOUR_S):
            gpu = np.arange(self.gpus)
            is_short = gpu % SHORT_EVERY == 7
            first = at + np.where(is_short, 0, gpu * 37 % 12 * 300)
            shorts = [(gpu[is_short], first[is_short] + n * HOUR_S, SHORT_S) for n in range(SHORT_HOURS)]
            begin = first + is_short * SHORT_HOURS * HOUR_S
            length = first + self.pod_hours * HOUR_S - FREE_S - begin
            parts += [
                pd.DataFrame({"gpu": g, "start": s, "stop": s + n})
                for g, s, n in (*shorts, (gpu, begin, length))
            ]
        pods = pd.concat(parts).sort_values(["gpu", "start"], ignore_index=True)
        pods = pods[pods["start"] < self.end].reset_index(drop=True)
        pods["stop"] = pods["stop"].clip(upper=self.end)
        return pods.assign(number=pods.index)

    @cached_property
    def free(self) -> pd.DataFrame:
        """The times between pods: gpu, start and stop in seconds."""
        pods = self.pods
        first = pods.groupby("gpu")["start"].min().reset_index().rename(columns={"start": "stop"})
        after = pods.assign(next=pods.groupby("gpu")["start"].shift(-1).fillna(self.end).astype("int64"))
        spans = [
            first.assign(start=START_S),
            pd.DataFrame({"gpu": after["gpu"], "start": after["stop"], "stop": after["next"]}),
        ]
        found = pd.concat(spans)
        return found[found["start"] < found["stop"]].sort_values(["gpu", "start"], ignore_index=True)

    def states(
        self, *, with_pods: bool = True, step_s: int = 600, with_zeros: bool = False
    ) -> Iterator[Series]:
        """Yield kube-state-metrics' series, with a sample every `step_s`.

        `with_zeros`: as on a server, a pod has a series for each phase, 0 or 1. The store needs only the ones.
        """

        def made(name: str, labels: dict[str, str], value: float, first: int, last: int) -> Series:
            times = np.append(np.arange(first, last, step_s, dtype=np.int64), last) * 1000
            target = words(f"__name__=kube_{name} job=kube-state-metrics instance=ksm:8080")
            return Series(target | labels, times, np.full(len(times), float(value)))

        life = (START_S, self.end - self.step_s)
        for node in range(self.gpus // GPUS_PER_NODE):
            name = {"node": f"n{node}"}
            yield made("node_created", name, START_S, *life)
            yield made("node_info", {**name, "provider_id": f"aws:///us-east-1a/i-{node:017x}"}, 1, *life)
            yield made("node_labels", {**name, **_labels(node)}, 1, *life)
        for gpu, start, stop, number in self.pods.itertuples(index=False) if with_pods else ():
            pod = words(f"namespace=team-{gpu % 40} pod=job-{number} uid=u{number}")
            bound = {**pod, "node": f"n{gpu // GPUS_PER_NODE}"}
            last = min(stop, self.end - self.step_s)
            request = bound | words("container=main resource=nvidia_com_gpu")
            yield made("pod_container_resource_requests", request, 1, start, last)
            yield made("pod_info", bound, 1, start, last)
            yield made("pod_status_scheduled_time", pod, start, start, last)
            running = min(stop, self.end) - self.step_s
            yield made("pod_status_phase", {**pod, "phase": "Running"}, 1, start, running)
            for phase in ("Succeeded", "Failed", "Pending", "Unknown") if with_zeros else ():
                yield made("pod_status_phase", {**pod, "phase": phase}, 0, start, running)
            if stop < self.end:
                yield made("pod_completion_time", pod, stop, stop, stop)
                yield made("pod_status_phase", {**pod, "phase": "Succeeded"}, 1, stop, stop)

    def activity(self) -> Iterator[Series]:
        """Yield DCGM_FI_DEV_GPU_UTIL of every GPU: a series for each pod, and one for the times without a pod."""
        for gpu, start, stop, number in self.pods.itertuples(index=False):
            times = self._scrapes(gpu, start, stop)
            pod = words(f"namespace=team-{gpu % 40} pod=job-{number} container=main")
            yield Series(_device(gpu) | pod, times, levels(times // 1000, number))
        for gpu, spans in self.free.groupby("gpu"):
            parts = [
                self._scrapes(gpu, start, stop)
                for start, stop in zip(spans["start"], spans["stop"], strict=True)
            ]
            times = np.concatenate(parts)
            yield Series(_device(gpu), times, np.zeros(len(times)))

    def _scrapes(self, gpu: int, start: int, stop: int) -> Times:
        times = np.arange(start, stop, self.step_s, dtype=np.int64)
        return times * 1000 + (late_ms(times, gpu // GPUS_PER_NODE) if self.jitter else 0)


def late_ms(times: Times, node: int) -> Times:
    """How late the scrapes of a node's exporter are, in milliseconds."""
    return _LATE[(node * 7 + times // SLOT_S * 13) % KINDS, times % SLOT_S // 60]


def levels(times: Times, number: int) -> Values:
    """The utilization of a pod in percent: two thirds of all 20-minute intervals are active."""
    return _LEVELS[number % 3, (number * 31 + times // SLOT_S * 17) % KINDS, times % SLOT_S // 60]


def _late() -> Times:
    rng = np.random.default_rng(2)
    return np.where(
        rng.random((KINDS, SLOT_S // 60)) < JITTERED, rng.integers(3, 16, (KINDS, SLOT_S // 60)), 0
    ).astype(np.int64)


def _levels() -> Values:
    rng = np.random.default_rng(1)
    shape = (3, KINDS, SLOT_S // 60)
    phase, minute = np.arange(3)[:, None, None], np.arange(SLOT_S // 60)
    is_busy = (minute // 20 + phase) % 3 > 0
    return np.where(is_busy, rng.integers(5, 101, shape), rng.integers(0, 5, shape)).astype(np.float64)


_LATE, _LEVELS = _late(), _levels()


def windows(fleet: Fleet, first: int, end: int, *, with_pods: bool = True) -> Iterator[SampleWindow]:
    """Yield the days from `first` until `end`, a window each; without pods, activity is missing too."""
    series = [*fleet.states(with_pods=with_pods), *(fleet.activity() if with_pods else ())]
    for day in range(first, end):
        yield window(series, START_S + day * DAY_S, START_S + (day + 1) * DAY_S)


def window(series: list[Series], from_s: int, to_s: int) -> SampleWindow:
    """The samples of some time, as a collector passes them to the store."""
    activity = {"DCGM_FI_DEV_GPU_UTIL": Threshold(5.0, 0.0, 100.0)}
    found = list(answers(series, from_s * 1000, to_s * 1000))
    return SampleWindow("bench", 1, from_s * 1000, to_s * 1000, "cluster", "bench", activity, found)


def block_kinds() -> tuple[list[Series], pd.DataFrame]:
    """Series of one hour each for every kind of hour, and their properties by series number.

    `phase` is the pod's, -1 of a free GPU; `value` and `late` are the kinds of the slot; `half` is the hour in the slot; `first`
    and `last` are the first and the last five minutes. Only whole hours have all kinds of values.
    """
    found, rows = [], []
    at = START_S - DAY_S
    for half in (0, 1):
        minutes = np.arange(60) + half * 60
        for late in range(KINDS):
            ends = [(first, last) for first in range(12) for last in range(first, 12)]
            for first, last in ends:
                chosen = slice(first * 5, last * 5 + 5)
                is_whole = (first, last) == (0, 11)
                for phase in (-1, 0, 1, 2):
                    for value in range(KINDS if is_whole and phase >= 0 else 1):
                        times = (at + np.arange(60) * 60)[chosen] * 1000 + _LATE[late, minutes][chosen]
                        values = (
                            _LEVELS[phase, value, minutes][chosen] if phase >= 0 else np.zeros(len(times))
                        )
                        labels = words(
                            f"__name__=DCGM_FI_DEV_GPU_UTIL job=dcgm instance=kinds kind={len(rows)}"
                        )
                        found.append(Series(labels, times, values))
                        rows.append((len(rows), phase, value, late, half, first, last))
    return found, pd.DataFrame(rows, columns=["kind", "phase", "value", "late", "half", "first", "last"])


def _device(gpu: int) -> dict[str, str]:
    host = f"n{gpu // GPUS_PER_NODE}"
    return words(f"""
        __name__=DCGM_FI_DEV_GPU_UTIL job=dcgm instance={host}:9400 gpu={gpu % GPUS_PER_NODE} UUID=GPU-{gpu}
        Hostname={host} modelName="NVIDIA A100-SXM4-40GB" """)


def _labels(node: int) -> dict[str, str]:
    return words(f"""
        label_node_kubernetes_io_instance_type=p4d.24xlarge label_topology_kubernetes_io_region=us-east-1
        label_karpenter_sh_capacity_type={"spot" if node % 3 else "on-demand"} label_nvidia_com_gpu_count={GPUS_PER_NODE}
        label_nvidia_com_gpu_product=NVIDIA-A100-SXM4-40GB""")
