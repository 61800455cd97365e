"""Peak memory of this process during a block."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Peak:
    """Peak resident MiB, set when the block ends."""

    mib: float = 0.0


@contextmanager
def peak_mib() -> Iterator[Peak]:
    """Measure the block (Linux: proc(5), clear_refs and VmHWM)."""
    process = Path("/proc/self")
    (process / "clear_refs").write_text("5")
    peak = Peak()
    yield peak
    match = re.search(r"VmHWM:\s+(\d+) kB", (process / "status").read_text())
    assert match is not None
    peak.mib = int(match[1]) / 1024
