"""What a run of a collector came to: figures, and findings with what mends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from gpucost.model import Period
    from gpucost.store.samples import MetricSamples


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about the data that a reader should know. `fix` is one setting or command, where there is one."""

    level: Literal["warning", "note"]
    code: str
    message: str
    fix: str | None = None


@dataclass(frozen=True, slots=True)
class FailedWindow:
    """A part of the period that could not be collected; `command` collects it later."""

    period: Period
    error: str
    command: str


@dataclass(frozen=True, slots=True)
class Dropped:
    """Samples that were left out: reason is 'nan', 'sentinel' or 'out_of_range'."""

    metric: str
    reason: str
    samples: int


@dataclass(slots=True)
class CollectResult:
    """What one run brought from one source.

    `gaps` are whole hours without any state sample between the first and the last; `not_collected` lies before the
    server's oldest data; `resumed` counts windows that an earlier, killed run had committed.
    """

    source: str
    asked: Period
    windows: int = 0
    resumed: int = 0
    samples: int = 0
    new_series: int = 0
    metrics: dict[str, MetricSamples] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    gaps: list[Period] = field(default_factory=list)
    not_collected: Period | None = None
    failed_windows: list[FailedWindow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """False where a window failed: the command's exit status says so."""
        return not self.failed_windows


@dataclass(frozen=True, slots=True)
class ProgressState:
    """How far a run is: milliseconds of the period done and in all, samples so far, and what it does now."""

    source: str
    done_ms: int
    total_ms: int
    samples: int
    note: str = ""
