"""Steps in processes of their own, what they took, and the page that says so: docs/performance.md, as `make bench` writes it."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_PAGE = """# Performance

Written by `make bench` on {:%Y-%m-%d}, of commit {}: {}.
Each step runs in its own process, and the usual way or the limit runs in the same run. Unless noted, seconds
are CPU seconds of all threads. Only ratios apply to other machines.

{}

{}Measured once, and not in this run: over one Prometheus of 800 GPUs and 3,135 pods the leading open peer
took 46.7 s for 7 days (82 s of CPU with the server's) by hours, and 7.8 s (12.5 s) by days.
"""


class Ran(NamedTuple):
    """What a process took: seconds of CPU, of wall time, the most memory it held, and what it printed."""

    cpu: float
    wall: float
    peak_mb: float
    said: str


def run(*command: str, **environment: str) -> Ran:
    """Runs a command that has to succeed."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | environment
    )
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, said
    return Ran(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024, said)


def step(name: str, *words: object) -> tuple[Ran, Any]:
    """Runs a step of tests/bench/steps.py, and reads what it answers."""
    ran = run(sys.executable, "-m", "tests.bench.steps", name, *map(str, words))
    return ran, json.loads(ran.said) if ran.said else None


@dataclass(frozen=True)
class Row:
    """A line of the page; `why` is told where the target is missed."""

    step: str
    target: str
    met: bool
    ours: str
    beside: str = ""
    ratio: str = ""
    why: str = ""


@dataclass
class Page:
    """What was measured, in the order of the benches."""

    rows: list[Row] = field(default_factory=list)

    def row(self, step: str, target: str, met: bool, *cells: str, why: str = "") -> bool:
        """Adds a line of the page, `cells` as in `Row`; whether the target is met."""
        self.rows.append(Row(step, target, met, *cells, why="" if met else why))
        return met

    def write(self, path: Path) -> None:
        """The page as Markdown."""
        head = ["step", "gpucost", "beside it", "ratio", "target", ""]
        lines = [
            [row.step, row.ours, row.beside, row.ratio, row.target, "met" if row.met else "**missed**"]
            for row in self.rows
        ]
        missed = [f"- **{row.step}**: {row.why}" for row in self.rows if row.why]
        table = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)]
        reasons = ["## Missed targets, and why", "", *missed, ""] if missed else []
        written = _PAGE.format(
            datetime.now(UTC),
            _commit(),
            _machine(),
            "\n".join(table),
            "".join(f"{line}\n" for line in reasons),
        )
        path.write_text(written, encoding="utf-8")


def _commit() -> str:
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return git.stdout.strip() or "unknown"


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        name = re.search(r"(?m)^model name\s*:\s*(.*)$", info.read_text())
        cpu = name[1] if name else cpu
    return f"{os.cpu_count()} cores of {cpu}, Python {platform.python_version()}"
