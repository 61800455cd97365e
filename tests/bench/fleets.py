"""A large fleet as arrays: what a Prometheus would have answered, made without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpucost.store.metrics import ReadAnswer, SampleWindow, Threshold

START_S = 1_790_812_800  # 2026-10-01T00:00Z
GPUS_PER_NODE = 8
PRICE = {"on_demand": 32.0, "spot": 12.0}


@dataclass(frozen=True)
class Fleet:
    """`gpus` GPUs for `days`, scraped every `step_s`; each GPU runs one pod after another, `pod_hours` long."""

    gpus: int
    days: int
    step_s: int = 60
    pod_hours: int = 48

    @property
    def samples(self) -> int:
        return self.gpus * self.days * 86_400 // self.step_s

    def pods(self) -> list[tuple[int, int, int]]:
        """(gpu, start, end) of each pod in seconds; starts are spread over the hour."""
        spans = []
        length = self.pod_hours * 3600
        end = START_S + self.days * 86_400
        for gpu in range(self.gpus):
            at = START_S + gpu * 37 % 60 * self.step_s
            while at < end:
                spans.append((gpu, at, min(at + length - 2 * self.step_s, end)))
                at += length
        return spans

    def states(self, *, with_pods: bool = True) -> ReadAnswer:
        """kube-state-metrics' series, a sample every ten minutes."""
        series: list[dict[str, str]] = []
        rows: list[tuple[int, int, float]] = []

        def put(name: str, labels: dict[str, str], value: float, first: int, last: int) -> None:
            series.append({"__name__": name, "job": "kube-state-metrics", "instance": "ksm:8080", **labels})
            rows.extend((len(series) - 1, at, value) for at in range(first * 1000, last * 1000 + 1, 600_000))
            rows.append((len(series) - 1, last * 1000, value))

        end = START_S + self.days * 86_400 - self.step_s
        for node in range(self.gpus // GPUS_PER_NODE):
            name = {"node": f"n{node}"}
            put("kube_node_created", name, START_S, START_S, end)
            put(
                "kube_node_info", {**name, "provider_id": f"aws:///us-east-1a/i-{node:017x}"}, 1, START_S, end
            )
            put("kube_node_labels", {**name, **_labels(node)}, 1, START_S, end)
        for number, (gpu, start, stop) in enumerate(self.pods() if with_pods else []):
            pod = {"namespace": f"team-{gpu % 40}", "pod": f"job-{number}", "uid": f"u{number}"}
            node = {"node": f"n{gpu // GPUS_PER_NODE}"}
            put(
                "kube_pod_container_resource_requests",
                {**pod, **node, "container": "main", "resource": "nvidia_com_gpu"},
                1,
                start,
                stop,
            )
            put("kube_pod_info", {**pod, **node}, 1, start, stop)
            put("kube_pod_status_scheduled_time", pod, start, start, stop)
            put("kube_pod_completion_time", pod, stop, stop, stop)
            put("kube_pod_status_phase", {**pod, "phase": "Running"}, 1, start, stop - self.step_s)
            put("kube_pod_status_phase", {**pod, "phase": "Succeeded"}, 1, stop, stop)
        index, at, value = zip(*rows, strict=True)
        return ReadAnswer(
            series, np.array(index, np.int32), np.array(at, np.int64), np.array(value, np.float64)
        )

    def activity(self) -> tuple[ReadAnswer, NDArray[np.int32]]:
        """DCGM_FI_DEV_GPU_UTIL of every GPU, one series per pod on it; and each sample's GPU."""
        rng = np.random.default_rng(1)
        series, index, times = [], [], []
        for number, (gpu, start, stop) in enumerate(self.pods()):
            series.append({
                "__name__": "DCGM_FI_DEV_GPU_UTIL", "job": "dcgm", "instance": f"n{gpu // GPUS_PER_NODE}:9400",
                "gpu": str(gpu % GPUS_PER_NODE), "UUID": f"GPU-{gpu}", "Hostname": f"n{gpu // GPUS_PER_NODE}",
                "modelName": "NVIDIA A100-SXM4-40GB", "namespace": f"team-{gpu % 40}", "pod": f"job-{number}",
                "container": "main",
            })  # fmt: skip
            ticks = (
                np.arange(-(-start // self.step_s) * self.step_s, stop, self.step_s, dtype=np.int64) * 1000
            )
            times.append(ticks)
            index.append(np.full(len(ticks), number, np.int32))
        at, which = np.concatenate(times), np.concatenate(index)
        busy = (at // 1_200_000 + which) % 3 > 0  # two thirds of all 20-minute stretches are busy
        values = np.where(busy, rng.integers(5, 101, len(at)), rng.integers(0, 5, len(at))).astype(np.float64)
        return ReadAnswer(series, which, at, values), which


def windows(fleet: Fleet, first: int, end: int, *, with_pods: bool = True) -> Iterator[SampleWindow]:
    """The days from `first` to before `end`, a window each; without pods there is no activity either."""
    answers = [fleet.states(with_pods=with_pods), *([fleet.activity()[0]] if with_pods else [])]
    for day in range(first, end):
        from_ms = (START_S + day * 86_400) * 1000
        yield SampleWindow(
            source="bench", run_id=1, from_ms=from_ms, to_ms=from_ms + 86_400_000, cluster_label="cluster",
            default_cluster="bench", activity={"DCGM_FI_DEV_GPU_UTIL": Threshold(5.0, 0.0, 100.0)},
            answers=[_between(answer, from_ms, from_ms + 86_400_000) for answer in answers],
        )  # fmt: skip


def _between(answer: ReadAnswer, from_ms: int, to_ms: int) -> ReadAnswer:
    """What of the answer lies in [from_ms, to_ms), with the series that have samples there."""
    inside = (answer.ts_ms >= from_ms) & (answer.ts_ms < to_ms)
    there, index = np.unique(answer.series_index[inside], return_inverse=True)
    return ReadAnswer(
        [answer.series[at] for at in there],
        index.astype(np.int32),
        answer.ts_ms[inside],
        answer.values[inside],
    )


def _labels(node: int) -> dict[str, str]:
    return {
        "label_node_kubernetes_io_instance_type": "p4d.24xlarge",
        "label_topology_kubernetes_io_region": "us-east-1",
        "label_karpenter_sh_capacity_type": "spot" if node % 3 else "on-demand",
        "label_nvidia_com_gpu_count": str(GPUS_PER_NODE),
        "label_nvidia_com_gpu_product": "NVIDIA-A100-SXM4-40GB",
    }
