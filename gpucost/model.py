"""Words shared by all stages: periods and the small facts that travel between them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

MS_PER_HOUR = 3_600_000


@dataclass(frozen=True, slots=True)
class Period:
    """A half-open interval [start, end) of UTC instants."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a period is made of instants with a time zone")
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))

    @property
    def start_ms(self) -> int:
        """Start in milliseconds since 1970-01-01T00:00Z."""
        return to_ms(self.start)

    @property
    def end_ms(self) -> int:
        """End (exclusive) in milliseconds since 1970-01-01T00:00Z."""
        return to_ms(self.end)

    @property
    def is_empty(self) -> bool:
        return self.end <= self.start

    def __str__(self) -> str:
        return f"{iso(self.start)} .. {iso(self.end)}"


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970-01-01T00:00Z of an aware instant, rounded to the nearest."""
    return round(instant.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    """The UTC instant of milliseconds since 1970-01-01T00:00Z."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC with a trailing Z; fractions of a second only where there are any."""
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def label_name(key: str) -> str:
    """A Kubernetes label as kube-state-metrics exports it: `nvidia.com/gpu` is `label_nvidia_com_gpu`."""
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)
