"""Plans the sample fleet of a few whole months: the same months give the same fleet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from gpucost.periods import Period, month_period

Profile = Literal["training", "patchy", "notebook", "forgotten", "serving", "sparse", "tests", "hung", "narrow", "quiet"]
Phase = Literal["Running", "Succeeded", "Failed"]
#: (number of the GPU on its node, MIG instance or None)
Device = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one kind. `mig` cuts every one of the first `cut_gpus` GPUs into (instance, profile)s."""

    instance_type: str
    gpu_model: str
    gpus: int
    capacity_type: Literal["on_demand", "reserved", "spot"]
    zone: str
    subnet: int
    replicas: int = 1
    cut_gpus: int = 0
    mig: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is up in [start, end)."""

    name: str
    machine: str
    pool: Pool
    uuids: tuple[str, ...]
    start: int
    end: int
    #: since then nothing can be scheduled on it
    cordoned: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that holds devices of a node in [start, end) and is listed until `gone`.

    `parent` owns `owner`: the Deployment of a ReplicaSet, the CronJob of a Job. It `waits` so long for a node before `start`, and
    `pulls` images so long after it.
    """

    namespace: str
    name: str
    uid: str
    node: Node
    resource: str
    devices: tuple[Device, ...]
    start: int
    end: int
    gone: int
    phase: Phase
    owner: tuple[str, str]
    parent: tuple[str, str] | None
    profile: Profile
    waits: int = 0
    pulls: int = 0


@dataclass(slots=True)
class Fleet:
    """Everything that was there in the period."""

    start: int
    end: int
    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    #: nodes whose exporter could not be scraped: {name: (from, to)}
    silent: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Series:
    """Labels with `__name__`, and samples in order of time (Unix seconds)."""

    labels: dict[str, str]
    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


def months(period: Period) -> list[Period]:
    """The calendar months (UTC) that make up the period."""
    found = [month_period(period.start.date(), ZoneInfo("UTC"))]
    while found[-1].end < period.end:
        found.append(month_period(found[-1].end.date(), ZoneInfo("UTC")))
    return found


#: Which namespaces a team owns; whoever uses `sandbox` is nobody's.
TEAMS: Mapping[str, tuple[str, ...]] = {
    "research": ("ml-research", "nlp-*"),
    "product": ("serving", "recsys"),
    "platform": ("inference", "ci"),
    "vision": ("vision-*",),
}


HOUR, DAY = 3600, 86_400

_CUT = ((2, "3g.20gb"), (3, "2g.10gb"), (7, "1g.5gb"), (8, "1g.5gb"))
A100_SPOT = Pool("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8, "spot", "us-east-1b", 12)
A100 = Pool("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8, "on_demand", "us-east-1a", 11)
A100_MIG = Pool("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", 8, "on_demand", "us-east-1a", 11, cut_gpus=4, mig=_CUT)
H100_SPOT = Pool("p5.48xlarge", "NVIDIA H100 80GB HBM3", 8, "spot", "us-east-1c", 13)
T4_SHARED = Pool("g4dn.12xlarge", "Tesla T4", 4, "on_demand", "us-east-1a", 21, replicas=4)
T4_SPOT = Pool("g4dn.12xlarge", "Tesla T4", 4, "spot", "us-east-1b", 22)
A10G = Pool("g5.12xlarge", "NVIDIA A10G", 4, "reserved", "us-east-1a", 31)
A10G_SPOT = Pool("g5.12xlarge", "NVIDIA A10G", 4, "spot", "us-east-1c", 32)


def plan(period: Period) -> Fleet:
    """The fleet of one whole month, or of several."""
    return _Planner(period).plan()


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Jobs that follow one another: how long they run and wait, how often they fail."""

    namespace: str
    names: tuple[str, ...]
    hours: float
    pause_hours: float
    failing: float
    profile: Profile


class _Planner:
    def __init__(self, period: Period) -> None:
        self.fleet = Fleet(period.start_ms // 1000, period.end_ms // 1000)
        #: what happens once a month happens in each: when they begin
        self.months = [month.start_ms // 1000 for month in months(period)]
        self.dice = np.random.default_rng([period.start.year, period.start.month])
        self.runs: dict[str, int] = {}

    def plan(self) -> Fleet:
        self._research()
        self._vision()
        self._platform()
        self._product()
        self._silence()
        self._oversights()
        return self.fleet

    def _research(self) -> None:
        start, end = self.fleet.start, self.fleet.end
        training = _Jobs("ml-research", ("llama-sft", "reward-model", "long-context"), 21, 2.5, 0.22, "training")
        sweeps = _Jobs("nlp-experiments", ("tokenizer-sweep", "distill"), 9, 3, 0.25, "patchy")
        for lanes in ([(0, 8)], [(0, 4), (4, 8)]):
            for node in self._spot_lives(A100_SPOT, days=8):
                for low, high in lanes:
                    self._jobs(node, _whole(range(low, high)), training if high - low == 8 else sweeps)
        desk = self._node(A100, start, end)
        desks = [("alice", 0, start, end), ("bob", 1, start, end)]
        desks += [("chen", 2, month + 3 * DAY, month + 19 * DAY) for month in self.months]
        for who, number, first_day, last_day in desks:
            begin, stop = first_day + 9 * HOUR, min(last_day + 17 * HOUR, end)
            self._pod(
                desk,
                "ml-research",
                f"jupyter-{who}-0",
                _whole([number]),
                begin,
                stop,
                ("StatefulSet", f"jupyter-{who}"),
                "notebook",
            )
        self._jobs(desk, _whole(range(3, 7)), _Jobs("ml-research", ("eval-suite", "ablation"), 11, 4, 0.2, "patchy"))

    def _vision(self) -> None:
        detector = _Jobs("vision-training", ("detector-v5", "segmenter"), 30, 4, 0.15, "training")
        video = _Jobs("vision-video", ("video-encoder",), 16, 7, 0.2, "training")
        for node in self._spot_lives(H100_SPOT, days=11):
            self._jobs(node, _whole(range(8)), detector)
        for node in self._spot_lives(H100_SPOT, days=7):
            self._jobs(node, _whole(range(4)), video)
            self._jobs(node, _whole(range(4, 8)), detector)

    def _platform(self) -> None:
        start, end = self.fleet.start, self.fleet.end
        shared = self._node(A100_MIG, start, end)
        for name, instance, profile, gpus in (
            ("chat", 2, "3g_20gb", 3),
            ("rerank", 3, "2g_10gb", 4),
            ("embed", 7, "1g_5gb", 4),
            ("guard", 8, "1g_5gb", 2),
        ):
            devices: list[tuple[Device, ...]] = [((gpu, instance),) for gpu in range(gpus)]
            self._deployment(shared, "inference", f"{name}-api", devices, f"nvidia_com_mig_{profile}")
        self._jobs(shared, _whole([4, 5]), _Jobs("inference", ("quantize",), 8, 3, 0.1, "training"))
        self._jobs(shared, _whole([6]), _Jobs("inference", ("load-test",), 5, 4, 0.1, "patchy"))
        for node in self._spot_lives(T4_SPOT, days=12):
            self._jobs(node, _whole([0]), _Jobs("ci", ("gpu-tests",), 2, 1.9, 0.2, "tests"))
            self._jobs(node, _whole([3]), _Jobs("recsys", ("embedding-refresh",), 5, 2.5, 0.1, "training"))
            self._nightly(node)

    def _product(self) -> None:
        start, end = self.fleet.start, self.fleet.end
        slots = self._node(T4_SHARED, start, end)
        for name, copies in (("search-ranker", 6), ("ads-ctr", 4), ("spell-fix", 3)):
            self._deployment(slots, "serving", name, [_whole([copy % 4]) for copy in range(copies)])
        whole = self._node(A10G, start, end)
        self._deployment(whole, "serving", "embedding-api", [_whole([0]), _whole([1])])
        for month in self.months:
            begin, stop = month + 8 * DAY, month + 15 * DAY
            self._pod(whole, "sandbox", "try-vllm", _whole([3]), begin, stop, ("<none>", "<none>"), "quiet")
        for day in range(start, end, DAY):
            if (day // DAY + 3) % 7 < 5:  # the epoch began on a Thursday
                opens = day + 6 * HOUR + int(self.dice.integers(0, 1800))
                for _ in range(2):
                    node = self._node(A10G_SPOT, opens, min(opens + 13 * HOUR, end))
                    self._jobs(node, _whole(range(4)), _Jobs("recsys", ("features", "two-tower"), 4, 0.5, 0.12, "training"))

    def _nightly(self, node: Node) -> None:
        for day in range(self.fleet.start, self.fleet.end, DAY):
            begin = day + 2 * HOUR
            stop = begin + int(self.dice.integers(3 * HOUR, 6 * HOUR))
            if node.start <= begin and stop <= node.end:
                job = f"nightly-scoring-{begin // 60}"
                owner, parent = ("Job", job), ("CronJob", "nightly-scoring")
                self._pod(
                    node,
                    "recsys",
                    f"{job}-{self._suffix()}",
                    _whole([1, 2]),
                    begin,
                    stop,
                    owner,
                    "training",
                    parent=parent,
                    phase="Succeeded",
                )

    def _silence(self) -> None:
        """Two exporters a month that could not be scraped for a while: some time stays unmeasured."""
        for month in self.months:
            lasting = [node for node in self.fleet.nodes if node.start >= month and node.end - node.start > 6 * DAY]
            for node, hours in zip(lasting[:2], (31, 14), strict=False):
                begin = node.start + 2 * DAY
                self.fleet.silent[node.name] = (begin, begin + hours * HOUR)

    def _oversights(self) -> None:
        """Waste that nobody meant: a notebook left alone, replicas to spare, GPUs asked for and not used, a node that waits."""
        start, end = self.fleet.start, self.fleet.end
        desk = next(node for node in self.fleet.nodes if node.pool == A100)
        owner = ("StatefulSet", "jupyter-dora")
        self._pod(desk, "ml-research", "jupyter-dora-0", _whole([7]), start + 4 * DAY, end, owner, "forgotten")
        whole = self._node(A10G, start + DAY, end)
        copies = [_whole([gpu]) for gpu in range(4)]
        self._deployment(whole, "serving", "summarize-api", copies, profile="sparse", begin=whole.start, pulls=1500)
        for number, month in enumerate(self.months, start=1):
            node = self._node(A10G_SPOT, month + 9 * DAY, month + 18 * DAY)
            job = f"ltr-ranker-{number:02d}"
            self._pod(
                node,
                "recsys",
                f"{job}-{self._suffix()}",
                _whole(range(4)),
                node.start + 600,
                node.end - HOUR,
                ("Job", job),
                "narrow",
                phase="Succeeded",
                waits=5 * DAY,
                pulls=900,
            )
            self._node(T4_SPOT, month + 20 * DAY, month + 24 * DAY, cordoned=month + 20 * DAY + 2 * HOUR)

    def _spot_lives(self, pool: Pool, days: float) -> Iterator[Node]:
        """Nodes that follow one another, each until the cloud takes it back."""
        moment = self.fleet.start
        while moment < self.fleet.end - HOUR:
            life = max(6 * HOUR, int(self.dice.exponential(days * DAY)))
            node = self._node(pool, moment, min(moment + life, self.fleet.end))
            yield node
            moment = node.end + int(self.dice.integers(300, 2400))

    def _node(self, pool: Pool, start: int, end: int, cordoned: int | None = None) -> Node:
        host = int(self.dice.integers(4, 250)), int(self.dice.integers(4, 250))
        name = f"ip-10-{pool.subnet}-{host[0]}-{host[1]}.ec2.internal"
        uuids = tuple(f"GPU-{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}" for h in (self._hex(32) for _ in range(pool.gpus)))
        node = Node(name, f"aws:///{pool.zone}/i-0{self._hex(16)}", pool, uuids, start, end, cordoned)
        self.fleet.nodes.append(node)
        return node

    def _jobs(self, node: Node, devices: tuple[Device, ...], jobs: _Jobs) -> None:
        moment = node.start + int(self.dice.exponential(jobs.pause_hours / 2 * HOUR))
        while moment < node.end - 600:
            name = jobs.names[int(self.dice.integers(len(jobs.names)))]
            self.runs[name] = self.runs.get(name, 0) + 1
            job = f"{name}-{self.runs[name]:02d}"
            fails = self.dice.random() < jobs.failing
            hours = float(self.dice.lognormal(np.log(jobs.hours), 0.5)) * (0.4 if fails else 1)
            stop = moment + max(240, int(hours * HOUR))
            evicted = stop >= node.end
            hung: Profile = "hung" if fails and self.dice.random() < 0.5 else jobs.profile
            phase: Phase = "Failed" if fails or (evicted and node.end < self.fleet.end) else "Succeeded"
            owner = ("Job", job)
            self._pod(
                node, jobs.namespace, f"{job}-{self._suffix()}", devices, moment, min(stop, node.end), owner, hung, phase=phase
            )
            moment = stop + 120 + int(self.dice.exponential(jobs.pause_hours * HOUR))

    def _deployment(
        self,
        node: Node,
        namespace: str,
        name: str,
        copies: list[tuple[Device, ...]],
        resource: str = "nvidia_com_gpu",
        profile: Profile = "serving",
        begin: int | None = None,
        pulls: int = 0,
    ) -> None:
        """Serving pods all month, or from `begin` on, rolled out anew once."""
        rollout = self.fleet.start + int(self.dice.integers(8 * DAY, 20 * DAY))
        first = self.fleet.start if begin is None else begin
        for starts, stop in ((first, rollout - 900), (rollout, self.fleet.end)):
            replica_set = f"{name}-{self._hex(9)}"
            for devices in copies:
                pod = f"{replica_set}-{self._suffix()}"
                owner, parent = ("ReplicaSet", replica_set), ("Deployment", name)
                self._pod(
                    node, namespace, pod, devices, starts, stop, owner, profile, resource=resource, parent=parent, pulls=pulls
                )

    def _pod(
        self,
        node: Node,
        namespace: str,
        name: str,
        devices: tuple[Device, ...],
        start: int,
        end: int,
        owner: tuple[str, str],
        profile: Profile,
        *,
        resource: str = "nvidia_com_gpu",
        parent: tuple[str, str] | None = None,
        phase: Phase = "Running",
        waits: int = 0,
        pulls: int = 0,
    ) -> None:
        h = self._hex(32)
        uid = f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
        gone = end if phase == "Running" else min(end + HOUR, node.end)
        self.fleet.pods.append(
            Pod(namespace, name, uid, node, resource, devices, start, end, gone, phase, owner, parent, profile, waits, pulls)
        )

    def _hex(self, digits: int) -> str:
        return self.dice.bytes(digits // 2 + 1).hex()[:digits]

    def _suffix(self) -> str:
        return "".join(self.dice.choice(list("bcdfghjklmnpqrstvwxz2456789"), 5))


def _whole(numbers: range | list[int]) -> tuple[Device, ...]:
    return tuple((number, None) for number in numbers)
