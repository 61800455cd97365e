"""What the doctor says about one thing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """ok: as it should be; warn: figures are poorer for it; fail: figures are missing or wrong."""

    ok = "ok"
    warn = "warn"
    fail = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. `fix` is one command or setting, and stands wherever the status is not ok."""

    area: str
    subject: str
    status: Status
    found: str
    fix: str | None = None
