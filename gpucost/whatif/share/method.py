"""The ways to share a GPU; apart from what they do, since the command line names them before it needs that."""

from __future__ import annotations

from enum import StrEnum


class Method(StrEnum):
    """How pods share a GPU."""

    time_slicing = "time-slicing"
    mps = "mps"
    mig = "mig"
