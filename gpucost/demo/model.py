"""What the sample fleet is made of: pools of nodes, nodes, and pods that hold GPUs. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from gpucost.model import Period
from gpucost.timeline import month_period

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
