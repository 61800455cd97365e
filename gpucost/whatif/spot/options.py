"""What a question about spot assumes: how work is checkpointed, how often it is interrupted, and how that is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gpucost.errors import UsageError
from gpucost.whatif.answer import Assumption
from gpucost.whatif.spot.formulas import Work
from gpucost.whatif.spot.rates import Rate

_MINUTES_PER_HOUR = 60
_SECONDS_PER_HOUR = 3600


class Target(StrEnum):
    """Where usage is moved to."""

    spot = "spot"
    on_demand = "on-demand"


@dataclass(frozen=True, slots=True)
class Options:
    """Assumptions about work on spot; `given` names the options that the user gave, the rest are defaults."""

    checkpoint_minutes: float = 30.0
    checkpoint_write_minutes: float = 0.0
    restart_minutes: float = 0.0
    notice_seconds: float = 0.0
    capacity_wait_minutes: float = 0.0
    first_hour_free: bool = False
    runs: int = 10_000
    seed: int = 0
    to: Target = Target.spot
    given: frozenset[str] = field(default_factory=frozenset)

    def work(self, per_hour: float, nodes: int = 1) -> Work:
        """The same in hours."""
        return Work(
            per_hour=per_hour,
            checkpoint=self.checkpoint_minutes / _MINUTES_PER_HOUR,
            write=self.checkpoint_write_minutes / _MINUTES_PER_HOUR,
            restart=self.restart_minutes / _MINUTES_PER_HOUR,
            notice=self.notice_seconds / _SECONDS_PER_HOUR,
            nodes=nodes,
            first_hour_free=self.first_hour_free,
        )

    @property
    def wait_hours(self) -> float:
        return self.capacity_wait_minutes / _MINUTES_PER_HOUR

    def check(self, hours: float) -> None:
        """Raises UsageError where the work cannot be checkpointed as asked."""
        if self.checkpoint_minutes > hours * _MINUTES_PER_HOUR * (1 + 1e-9):
            raise UsageError(
                f"a checkpoint every {self.checkpoint_minutes:g} minutes is longer than the job of {hours:g} hours",
                "give --checkpoint-minutes up to the job's length, or more --hours",
            )

    def assumptions(self) -> tuple[Assumption, ...]:
        """All but the rate, each with where it comes from."""

        def told(name: str, value: float, unit: str, option: str) -> Assumption:
            return Assumption(name, value, unit, "option" if option in self.given else "default")

        shown = [
            told("checkpoint interval", self.checkpoint_minutes, "minutes", "checkpoint_minutes"),
            told("writing a checkpoint", self.checkpoint_write_minutes, "minutes", "checkpoint_write_minutes"),
            told("restart (provision, pull, load)", self.restart_minutes, "minutes", "restart_minutes"),
            told("notice of an interruption", self.notice_seconds, "seconds", "notice_seconds"),
            told("wait for capacity (time, not paid)", self.capacity_wait_minutes, "minutes", "capacity_wait_minutes"),
        ]
        if self.first_hour_free:
            shown.append(Assumption("instances interrupted in their first hour", 0, "price", "option --first-hour-free"))
        return tuple(shown)


def rate_assumption(rate: Rate, name: str = "interruptions") -> Assumption:
    """The rate as an assumption."""
    return Assumption(name, rate.per_hour, "per node-hour", rate.source, rate.as_of)
