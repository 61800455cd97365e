"""What a run of a collector came to: figures, and findings with what mends them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal

from gpucost.model import iso

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


@dataclass(frozen=True, slots=True)
class MissingTime:
    """Time of a cluster that was not seen whole, and why."""

    cluster: str
    period: Period
    reason: str
    families: tuple[str, ...] = ()

    def __str__(self) -> str:
        hours = (self.period.end - self.period.start) / timedelta(hours=1)
        families = f" ({', '.join(self.families)})" if self.families else ""
        span = f"from {iso(self.period.start)} to {iso(self.period.end)} ({hours:,.1f} h)"
        return f"cluster {self.cluster} {span}: {self.reason}{families}"


@dataclass(slots=True)
class CollectResult:
    """What one run brought from one source.

    `moment` is when the run began, `spans` what was asked for, in milliseconds; `gaps` are silences of over ten minutes in it;
    `incomplete` is what closed days lack and will not be asked for again; `asked_again` are incomplete hours of earlier runs;
    `not_collected` lies before the server's oldest data; `resumed` counts windows that an earlier, killed run had committed.
    """

    source: str
    asked: Period
    moment: datetime = field(default_factory=lambda: datetime.now(UTC))
    spans: list[tuple[int, int]] = field(default_factory=list)
    windows: int = 0
    resumed: int = 0
    samples: int = 0
    new_series: int = 0
    metrics: dict[str, MetricSamples] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    gaps: list[MissingTime] = field(default_factory=list)
    incomplete: list[MissingTime] = field(default_factory=list)
    asked_again: int = 0
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
