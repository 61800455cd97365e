"""Plans the sample fleet of a few whole months; the same months give the same fleet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from gpucost.periods import Period, local_days, month_period
from gpucost.records import frozen_dataclass

#: (number of the GPU on its node, MIG instance or None)
Device = tuple[int, int | None]


class DemoPool(NamedTuple):
    """Nodes of one kind. `mig` partitions each of the first `cut_gpus` GPUs into profiles by instance number."""

    instance_type: str
    gpu_model: str
    gpus: int
    capacity_type: Literal["on_demand", "reserved", "spot"]
    zone: str
    subnet: int
    replicas: int = 1
    cut_gpus: int = 0
    mig: tuple[tuple[int, str], ...] = ()

    def resource(self, instance: int | None) -> str:
        """Return kube-state-metrics' resource of whole GPUs, or of a MIG instance."""
        return (
            "nvidia_com_gpu"
            if instance is None
            else f"nvidia_com_mig_{dict(self.mig)[instance].replace('.', '_')}"
        )


@frozen_dataclass
class DemoNode:
    """A node that is up in [start, end), and unschedulable since `cordoned`."""

    name: str
    machine: str
    pool: DemoPool
    uuids: tuple[str, ...]
    start: int
    end: int
    cordoned: int | None = None


@frozen_dataclass
class DemoPod:
    """A pod that holds devices of a node in [start, end).

    `parent` owns `owner`: the Deployment of a ReplicaSet, the CronJob of a Job. `waits` is its time without a node before
    `start`, `pulls` the time of image pulls after it.
    """

    namespace: str
    name: str
    uid: str
    node: DemoNode
    devices: tuple[Device, ...]
    start: int
    end: int
    owner: tuple[str, str]
    profile: str
    parent: tuple[str, str] | None = None
    phase: Literal["Running", "Succeeded", "Failed"] = "Running"
    waits: int = 0
    pulls: int = 0

    @property
    def gone(self) -> int:
        """The time until which it is listed."""
        return self.end if self.phase == "Running" else min(self.end + HOUR, self.node.end)


@dataclass(slots=True)
class DemoFleet:
    """The fleet of a period; `silent` has the spans (from, to) by node in which its exporter could not be scraped.

    `reclaimed` has the spot nodes reclaimed by the cloud.
    """

    start: int
    end: int
    nodes: list[DemoNode] = field(default_factory=list)
    pods: list[DemoPod] = field(default_factory=list)
    silent: dict[str, tuple[int, int]] = field(default_factory=dict)
    reclaimed: list[DemoNode] = field(default_factory=list)


class DemoSeries(NamedTuple):
    """Labels with `__name__`, and samples by time (Unix seconds)."""

    labels: dict[str, str]
    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def months(period: Period) -> list[Period]:
    """Return the calendar months (UTC) of the period."""
    utc = ZoneInfo("UTC")
    return [month_period(day, utc) for day in local_days(period, utc) if day.day == 1]


#: Namespaces and Slurm accounts of each team; `sandbox` has no team.
TEAMS: Mapping[str, tuple[str, ...]] = {
    "research": ("ml-research", "nlp-*"),
    "product": ("serving", "recsys"),
    "platform": ("inference", "ci"),
    "vision": ("vision-*",),
    "life-science": ("genomics", "cryo-em"),
}


HOUR, DAY = 3600, 86_400

_CUT = ((2, "3g.20gb"), (3, "2g.10gb"), (7, "1g.5gb"), (8, "1g.5gb"))
A100_SPOT = DemoPool("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8, "spot", "us-east-1b", 12)
A100 = DemoPool("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8, "on_demand", "us-east-1a", 11)
A100_MIG = A100._replace(cut_gpus=4, mig=_CUT)
H100_SPOT = DemoPool("p5.48xlarge", "NVIDIA H100 80GB HBM3", 8, "spot", "us-east-1c", 13)
T4_SHARED = DemoPool("g4dn.12xlarge", "Tesla T4", 4, "on_demand", "us-east-1a", 21, replicas=4)
T4_SPOT = DemoPool("g4dn.12xlarge", "Tesla T4", 4, "spot", "us-east-1b", 22)
A10G = DemoPool("g5.12xlarge", "NVIDIA A10G", 4, "reserved", "us-east-1a", 31)
A10G_SPOT = DemoPool("g5.12xlarge", "NVIDIA A10G", 4, "spot", "us-east-1c", 32)


class _Jobs(NamedTuple):
    """Successive jobs: their run time, wait time and failure rate."""

    namespace: str
    names: tuple[str, ...]
    hours: float
    pause_hours: float
    failing: float
    profile: str


_LLAMA = _Jobs("ml-research", ("llama-sft", "reward-model", "long-context"), 21, 2.5, 0.22, "training")
_SWEEPS = _Jobs("nlp-experiments", ("tokenizer-sweep", "distill"), 9, 3, 0.25, "patchy")
_EVALS = _Jobs("ml-research", ("eval-suite", "ablation"), 11, 4, 0.2, "patchy")
_DETECTOR = _Jobs("vision-training", ("detector-v5", "segmenter"), 30, 4, 0.15, "training")
_VIDEO = _Jobs("vision-video", ("video-encoder",), 16, 7, 0.2, "training")
_QUANTIZE = _Jobs("inference", ("quantize",), 8, 3, 0.1, "training")
_LOAD_TEST = _Jobs("inference", ("load-test",), 5, 4, 0.1, "patchy")
_GPU_TESTS = _Jobs("ci", ("gpu-tests",), 2, 1.9, 0.2, "tests")
_EMBEDDINGS = _Jobs("recsys", ("embedding-refresh",), 5, 2.5, 0.1, "training")
_FEATURES = _Jobs("recsys", ("features", "two-tower"), 4, 0.5, 0.12, "training")


def plan(period: Period, unused_reservation_days: int = 1) -> DemoFleet:
    """Return the fleet of whole months. One of its reserved machines starts `unused_reservation_days` late."""
    return _Planner(period, unused_reservation_days).plan()


class _Planner:
    """All plans share one random generator: the order of planning matters."""

    def __init__(self, period: Period, unused_reservation_days: int) -> None:
        self.unused_reservation = unused_reservation_days * DAY
        self.fleet = DemoFleet(period.start_ms // 1000, period.end_ms // 1000)
        #: starts of the months, for monthly events
        self.months = [month.start_ms // 1000 for month in months(period)]
        self.dice = np.random.default_rng([period.start.year, period.start.month])
        self.runs = Counter[str]()

    def plan(self) -> DemoFleet:
        """Return the sample fleet: its nodes and pods, team by team."""
        self._research()
        self._vision()
        self._platform()
        self._product()
        self._silence()
        self._oversights()
        return self.fleet

    def _research(self) -> None:
        start, end = self.fleet.start, self.fleet.end
        self._spot(A100_SPOT, 8, (range(8), _LLAMA))
        self._spot(A100_SPOT, 8, (range(4), _SWEEPS), (range(4, 8), _SWEEPS))
        desk = self._node(A100, start, end)
        visits = [("alice", 0, start, end), ("bob", 1, start, end)]
        visits += [("chen", 2, month + 3 * DAY, month + 19 * DAY) for month in self.months]
        for who, gpu, first_day, last_day in visits:
            self._notebook(desk, who, gpu, first_day + 9 * HOUR, min(last_day + 17 * HOUR, end), "notebook")
        self._jobs(desk, range(3, 7), _EVALS)

    def _vision(self) -> None:
        self._spot(H100_SPOT, 11, (range(8), _DETECTOR))
        self._spot(H100_SPOT, 7, (range(4), _VIDEO), (range(4, 8), _DETECTOR))

    def _platform(self) -> None:
        shared = self._node(A100_MIG, self.fleet.start, self.fleet.end)
        for name, instance, gpus in (("chat", 2, 3), ("rerank", 3, 4), ("embed", 7, 4), ("guard", 8, 2)):
            self._deployment(shared, "inference", f"{name}-api", range(gpus), instance)
        self._jobs(shared, (4, 5), _QUANTIZE)
        self._jobs(shared, (6,), _LOAD_TEST)
        for node in self._spot_lives(T4_SPOT, days=12):
            self._jobs(node, (0,), _GPU_TESTS)
            self._jobs(node, (3,), _EMBEDDINGS)
            self._nightly(node)

    def _product(self) -> None:
        start, end = self.fleet.start, self.fleet.end
        slots = self._node(T4_SHARED, start, end)
        for name, copies in (("search-ranker", 6), ("ads-ctr", 4), ("spell-fix", 3)):
            self._deployment(slots, "serving", name, [copy % 4 for copy in range(copies)])
        whole = self._node(A10G, start, end)
        self._deployment(whole, "serving", "embedding-api", (0, 1))
        for month in self.months:
            span = (month + 8 * DAY, month + 15 * DAY)
            self._pod(whole, "sandbox", ("<none>", "<none>"), (3,), *span, "quiet", name="try-vllm")
        for day in range(start, end, DAY):
            if (day // DAY + 3) % 7 < 5:  # the epoch began on a Thursday
                opens = day + 6 * HOUR + int(self.dice.integers(0, 1800))
                for _ in range(2):
                    self._jobs(self._node(A10G_SPOT, opens, min(opens + 13 * HOUR, end)), range(4), _FEATURES)

    def _silence(self) -> None:
        """Add two exporters a month that could not be scraped for a while: some time stays unmeasured."""
        for month in self.months:
            lasting = [
                node for node in self.fleet.nodes if node.start >= month and node.end - node.start > 6 * DAY
            ]
            for node, hours in zip(lasting[:2], (31, 14), strict=False):
                begin = node.start + 2 * DAY
                self.fleet.silent[node.name] = (begin, begin + hours * HOUR)

    def _oversights(self) -> None:
        """Add accidental waste: a forgotten notebook, spare replicas, GPUs requested but unused, an idle node."""
        start, end = self.fleet.start, self.fleet.end
        desk = next(node for node in self.fleet.nodes if node.pool == A100)
        self._notebook(desk, "dora", 7, start + 4 * DAY, end, "forgotten")
        whole = self._node(A10G, start + self.unused_reservation, end)
        self._deployment(whole, "serving", "summarize-api", range(4), profile="sparse", pulls=1500)
        for number, month in enumerate(self.months, start=1):
            node = self._node(A10G_SPOT, month + 9 * DAY, month + 18 * DAY)
            owner, span = ("Job", f"ltr-ranker-{number:02d}"), (node.start + 600, node.end - HOUR)
            self._pod(
                node, "recsys", owner, range(4), *span, "narrow", phase="Succeeded", waits=5 * DAY, pulls=900
            )
            self._node(T4_SPOT, month + 20 * DAY, month + 24 * DAY, cordoned=month + 20 * DAY + 2 * HOUR)

    def _spot(self, pool: DemoPool, days: float, *lanes: tuple[range, _Jobs]) -> None:
        for node in self._spot_lives(pool, days):
            for gpus, jobs in lanes:
                self._jobs(node, gpus, jobs)

    def _spot_lives(self, pool: DemoPool, days: float) -> Iterator[DemoNode]:
        """Yield successive nodes, each until the cloud reclaims it."""
        moment = self.fleet.start
        while moment < self.fleet.end - HOUR:
            life = max(6 * HOUR, int(self.dice.exponential(days * DAY)))
            node = self._node(pool, moment, min(moment + life, self.fleet.end))
            if node.end < self.fleet.end:
                self.fleet.reclaimed.append(node)
            yield node
            moment = node.end + int(self.dice.integers(300, 2400))

    def _node(self, pool: DemoPool, start: int, end: int, cordoned: int | None = None) -> DemoNode:
        host = int(self.dice.integers(4, 250)), int(self.dice.integers(4, 250))
        name = f"ip-10-{pool.subnet}-{host[0]}-{host[1]}.ec2.internal"
        uuids = tuple(f"GPU-{self._uuid()}" for _ in range(pool.gpus))
        node = DemoNode(name, f"aws:///{pool.zone}/i-0{self._hex(16)}", pool, uuids, start, end, cordoned)
        self.fleet.nodes.append(node)
        return node

    def _jobs(self, node: DemoNode, gpus: Iterable[int], jobs: _Jobs) -> None:
        moment = node.start + int(self.dice.exponential(jobs.pause_hours / 2 * HOUR))
        while moment < node.end - 600:
            name = jobs.names[int(self.dice.integers(len(jobs.names)))]
            self.runs[name] += 1
            owner = ("Job", f"{name}-{self.runs[name]:02d}")
            fails = self.dice.random() < jobs.failing
            hours = float(self.dice.lognormal(np.log(jobs.hours), 0.5)) * (0.4 if fails else 1)
            stop = moment + max(240, int(hours * HOUR))
            profile = "hung" if fails and self.dice.random() < 0.5 else jobs.profile
            phase = "Failed" if fails or stop >= node.end < self.fleet.end else "Succeeded"
            self._pod(node, jobs.namespace, owner, gpus, moment, min(stop, node.end), profile, phase=phase)
            moment = stop + 120 + int(self.dice.exponential(jobs.pause_hours * HOUR))

    def _nightly(self, node: DemoNode) -> None:
        for day in range(self.fleet.start, self.fleet.end, DAY):
            begin = day + 2 * HOUR
            stop = begin + int(self.dice.integers(3 * HOUR, 6 * HOUR))
            if node.start <= begin and stop <= node.end:
                owner, parent = ("Job", f"nightly-scoring-{begin // 60}"), ("CronJob", "nightly-scoring")
                self._pod(
                    node, "recsys", owner, (1, 2), begin, stop, "training", parent=parent, phase="Succeeded"
                )

    def _notebook(self, node: DemoNode, who: str, gpu: int, start: int, end: int, profile: str) -> None:
        owner = ("StatefulSet", f"jupyter-{who}")
        self._pod(node, "ml-research", owner, (gpu,), start, end, profile, name=f"jupyter-{who}-0")

    def _deployment(
        self,
        node: DemoNode,
        namespace: str,
        name: str,
        gpus: Iterable[int],
        instance: int | None = None,
        profile: str = "serving",
        pulls: int = 0,
    ) -> None:
        """Add serving pods while the node is up, each on one of `gpus`, with one rollout."""
        rollout = self.fleet.start + int(self.dice.integers(8 * DAY, 20 * DAY))
        for start, end in ((node.start, rollout - 900), (rollout, node.end)):
            owner = ("ReplicaSet", f"{name}-{self._hex(9)}")
            for gpu in gpus:
                parent = ("Deployment", name)
                self._pod(
                    node,
                    namespace,
                    owner,
                    (gpu,),
                    start,
                    end,
                    profile,
                    instance=instance,
                    parent=parent,
                    pulls=pulls,
                )

    def _pod(
        self,
        node: DemoNode,
        namespace: str,
        owner: tuple[str, str],
        gpus: Iterable[int],
        start: int,
        end: int,
        profile: str,
        *,
        name: str | None = None,
        instance: int | None = None,
        **more: Any,
    ) -> None:
        name = name or f"{owner[1]}-{''.join(self.dice.choice(list('bcdfghjklmnpqrstvwxz2456789'), 5))}"
        devices = tuple((gpu, instance) for gpu in gpus)
        self.fleet.pods.append(
            DemoPod(namespace, name, self._uuid(), node, devices, start, end, owner, profile, **more)
        )

    def _uuid(self) -> str:
        digits = self._hex(32)
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def _hex(self, digits: int) -> str:
        return self.dice.bytes(digits // 2 + 1).hex()[:digits]
