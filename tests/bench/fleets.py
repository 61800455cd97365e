"""A large fleet as the series of a Prometheus, made without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpucost.store.metrics import SampleWindow, Threshold
from tests.replay.scrape import answers
from tests.replay.series import Series
from tests.text_tables import words

START_S = 1_790_812_800  # 2026-10-01T00:00Z
GPUS_PER_NODE = 8
PRICE = {"on_demand": 32.0, "spot": 12.0}


@dataclass(frozen=True)
class Fleet:
    """`gpus` GPUs for `days`, scraped every `step_s`; each GPU runs successive pods of `pod_hours`."""

    gpus: int
    days: int
    step_s: int = 60
    pod_hours: int = 48

    @property
    def end(self) -> int:
        return START_S + self.days * 86_400

    def pods(self) -> list[tuple[int, int, int]]:
        """Return (gpu, start, end) of each pod in seconds; starts are spread over the hour."""
        length = self.pod_hours * 3600
        return [
            (gpu, at, min(at + length - 2 * self.step_s, self.end))
            for gpu in range(self.gpus)
            for at in range(START_S + gpu * 37 % 60 * self.step_s, self.end, length)
        ]

    def states(self, *, with_pods: bool = True, step_s: int = 600) -> list[Series]:
        """Return kube-state-metrics' series, with a sample every ten minutes."""
        found = []

        def put(name: str, labels: dict[str, str], value: float, first: int, last: int) -> None:
            times = np.unique([*range(first, last, step_s), last]) * 1000
            target = words(f"__name__=kube_{name} job=kube-state-metrics instance=ksm:8080")
            found.append(Series(target | labels, times, np.full(len(times), float(value))))

        life = (START_S, self.end - self.step_s)
        for node in range(self.gpus // GPUS_PER_NODE):
            name = {"node": f"n{node}"}
            put("node_created", name, START_S, *life)
            put("node_info", {**name, "provider_id": f"aws:///us-east-1a/i-{node:017x}"}, 1, *life)
            put("node_labels", {**name, **_labels(node)}, 1, *life)
        for number, (gpu, start, stop) in enumerate(self.pods() if with_pods else []):
            pod = words(f"namespace=team-{gpu % 40} pod=job-{number} uid=u{number}")
            bound = {**pod, "node": f"n{gpu // GPUS_PER_NODE}"}
            request = bound | words("container=main resource=nvidia_com_gpu")
            put("pod_container_resource_requests", request, 1, start, stop)
            put("pod_info", bound, 1, start, stop)
            put("pod_status_scheduled_time", pod, start, start, stop)
            put("pod_completion_time", pod, stop, stop, stop)
            put("pod_status_phase", {**pod, "phase": "Running"}, 1, start, stop - self.step_s)
            put("pod_status_phase", {**pod, "phase": "Succeeded"}, 1, stop, stop)
        return found

    def activity(self) -> list[Series]:
        """Return DCGM_FI_DEV_GPU_UTIL of every GPU, one series for each of `pods`."""
        rng = np.random.default_rng(1)
        found = []
        for number, (gpu, start, stop) in enumerate(self.pods()):
            host = f"n{gpu // GPUS_PER_NODE}"
            labels = words(f"""
                __name__=DCGM_FI_DEV_GPU_UTIL job=dcgm instance={host}:9400 gpu={gpu % GPUS_PER_NODE} UUID=GPU-{gpu}
                Hostname={host} modelName="NVIDIA A100-SXM4-40GB" namespace=team-{gpu % 40} pod=job-{number} container=main""")
            times = np.arange(-(-start // self.step_s) * self.step_s, stop, self.step_s, dtype=np.int64)
            busy = (times // 1200 + number) % 3 > 0  # two thirds of all 20-minute intervals are active
            values = np.where(busy, rng.integers(5, 101, len(times)), rng.integers(0, 5, len(times)))
            found.append(Series(labels, times * 1000, values.astype(np.float64)))
        return found


def windows(fleet: Fleet, first: int, end: int, *, with_pods: bool = True) -> Iterator[SampleWindow]:
    """Yield the days from `first` until `end`, a window each; without pods, activity is missing too."""
    series = [*fleet.states(with_pods=with_pods), *(fleet.activity() if with_pods else [])]
    for day in range(first, end):
        span = ((START_S + day * 86_400) * 1000, (START_S + (day + 1) * 86_400) * 1000)
        activity = {"DCGM_FI_DEV_GPU_UTIL": Threshold(5.0, 0.0, 100.0)}
        yield SampleWindow("bench", 1, *span, "cluster", "bench", activity, list(answers(series, *span)))


def _labels(node: int) -> dict[str, str]:
    return words(f"""
        label_node_kubernetes_io_instance_type=p4d.24xlarge label_topology_kubernetes_io_region=us-east-1
        label_karpenter_sh_capacity_type={"spot" if node % 3 else "on-demand"} label_nvidia_com_gpu_count={GPUS_PER_NODE}
        label_nvidia_com_gpu_product=NVIDIA-A100-SXM4-40GB""")
