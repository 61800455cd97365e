"""What was measured of pods, as scenarios read it: when they were idle, how busy and how full their GPUs were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpucost.model import MS_PER_HOUR
from gpucost.store.activity import read_idle, read_levels
from gpucost.whatif.fleet import Pod

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Activity
    from gpucost.model import Period

Span = tuple[int, int]
PodKey = tuple[str, str]  # cluster, uid

# Stretches [from_ms, to_ms), in order, in which every GPU of a pod was measured idle.
Idle = Mapping[PodKey, tuple[Span, ...]]

# Workloads and namespaces whose names say that a person sits before them.
NOTEBOOKS = ("*notebook*", "*jupyter*", "*workspace*")


@dataclass(frozen=True, slots=True)
class Level:
    """How busy a pod was: shares 0-1 of a GPU's activity, memory in MiB of one GPU (None: not collected).

    `high` figures are 95th percentiles of the pod's busiest GPU; `devices` are the GPUs known, of which `active_devices` were
    ever active.
    """

    devices: int
    active_devices: int
    measured_hours: float
    mean: float
    high: float
    high_memory_mib: float | None = None


Levels = Mapping[PodKey, Level]


def idle_stretches(con: DuckDBPyConnection, metrics: Activity, period: Period, at_least_ms: int) -> Idle:
    """When pods of `period` were idle for `at_least_ms` or more, all their GPUs alike; of an attributed store."""
    spans: dict[PodKey, list[Span]] = defaultdict(list)
    for row in read_idle(con, metrics, period, at_least_ms):
        spans[row["cluster"], row["uid"]].append((row["from_ms"], row["to_ms"]))
    return {key: tuple(several) for key, several in spans.items()}


def levels(con: DuckDBPyConnection, metrics: Activity, period: Period) -> Levels:
    """How busy and how full the GPUs of each measured pod of `period` were; of an attributed store."""
    return {
        (row["cluster"], row["uid"]): Level(
            row["devices"],
            row["active_devices"],
            row["measured_ms"] / MS_PER_HOUR,
            row["mean_activity"],
            row["high_activity"],
            row["high_memory_mib"],
        )
        for row in read_levels(con, metrics, period)
    }


def is_notebook(pod: Pod, patterns: Iterable[str] = NOTEBOOKS) -> bool:
    """Whether a glob fits the pod's workload (with or without its kind) or namespace, in any case."""
    names = (pod.workload.lower(), pod.workload.partition("/")[2].lower(), pod.namespace.lower())
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns for name in names)


def is_batch(pod: Pod) -> bool:
    """Whether the pod ends by itself when its work is done: a Job, CronJob, PyTorchJob, Workflow and the like."""
    kind = pod.workload.partition("/")[0]
    return kind.endswith("Job") or kind == "Workflow"
