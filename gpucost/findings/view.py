"""What a finding is, before and after a what-if was asked what it saves."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

# What a finding lays claim to: (cluster, namespace, workload, bucket) of held GPU time, or (cluster, GPU model, capacity type,
# bucket) of free GPUs; the bucket "*" is all of them.
Claim = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: its name, what people call it, and what to do about it."""

    name: str
    title: str
    advice: str


@dataclass(frozen=True, slots=True)
class Question:
    """A what-if over the store's usage. `workloads` are globs; `options` are those of the command, in its own words."""

    command: str
    cluster: str | None = None
    namespace: str | None = None
    workloads: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()

    def words(self, period: tuple[str, ...]) -> str:
        """The command line, for a shell; `period` are the words that name the period."""
        words = ["gpucost", "whatif", self.command, *period]
        words += ["--cluster", self.cluster] if self.cluster else []
        words += ["--namespace", self.namespace] if self.namespace else []
        for workload in self.workloads:
            words += ["--workload", workload]
        for name, value in self.options:
            words += [name] if value is None else [name, value]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a what-if said, over the period."""

    question: Question
    cost: Decimal
    saving: Decimal


@dataclass(frozen=True, slots=True)
class Candidate:
    """Waste that may become a finding. Of `questions` the one that saves most counts; without any, `waste_cost` is at stake.

    GPU-hours are those held (or free), `waste_gpu_hours` and `waste_cost` those of the buckets that the finding is about.
    """

    kind: str
    cluster: str
    namespace: str | None
    team: str | None
    subject: str
    claims: frozenset[Claim]
    begins: datetime
    ends: datetime
    gpu_hours: float
    waste_gpu_hours: float
    cost: Decimal
    waste_cost: Decimal
    utilization: float | None
    evidence: str
    questions: tuple[Question, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """`saving` is of the period, and what `command` shows; `saving_per_month` the same of 730 hours (a whole month: as it is).

    `is_bound`: no command shows it: what the waste cost, so that no more than that can be saved. `utilization` is 0-1 over
    measured time, None where nothing was measured.
    """

    rank: int
    kind: str
    title: str
    cluster: str
    namespace: str | None
    team: str | None
    subject: str
    evidence: str
    begins: datetime
    ends: datetime
    gpu_hours: float
    waste_gpu_hours: float
    utilization: float | None
    cost: Decimal
    saving: Decimal
    saving_per_month: Decimal
    is_bound: bool
    command: str | None
    advice: str


@dataclass(frozen=True, slots=True)
class Findings:
    """`findings` are the dearest first; `passed_over` counts those under the minimum."""

    findings: tuple[Finding, ...]
    minimum_per_month: Decimal
    passed_over: int

    @property
    def saving_per_month(self) -> Decimal:
        """Of those that a command shows: what only bounds a saving is not added to it."""
        return sum((found.saving_per_month for found in self.findings if not found.is_bound), Decimal(0))
