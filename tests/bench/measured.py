"""Measured steps in their own processes, and the page with the results: docs/performance.md, written by `make bench`."""

from __future__ import annotations

import json
import os
import platform
import re
import resource
import signal
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
Each step runs in its own process and is compared with the usual way or a limit in the same run. Seconds are CPU
seconds of all threads unless stated otherwise; only ratios carry over to other machines.

{}

{}The whole run took {:.0f} minutes. Measured once, not in this run: on a Prometheus with 800 GPUs and 3,136 pods, the leading
open-source peer took 43.2 s of CPU including the server for 7 days by hours, and 7.8 s by days. Its figures by days are wrong
if a pod's name is used again or a price changes.
"""


class Ran(NamedTuple):
    """The result of a process: CPU seconds, wall seconds, peak memory and its output."""

    cpu: float
    wall: float
    peak_mb: float
    output: str


class Slow(Exception):
    """A process that took longer than its limit."""


def run(
    *command: str, folder: Path = ROOT, limit: int = 300, codes: tuple[int, ...] = (0,), **environment: str
) -> Ran:
    """Run a command that must end with one of `codes`, within `limit` CPU seconds. Raises Slow."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | environment,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)),
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    words = " ".join(map(str, command[:8]))
    if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        raise Slow(f"ended after {used.ru_utime + used.ru_stime:.0f} s: {words}")
    if process.returncode not in codes:
        raise RuntimeError(f"exit code {process.returncode}: {words} {output[-300:]}")
    return Ran(used.ru_utime + used.ru_stime, time.perf_counter() - began, used.ru_maxrss / 1024, output)


def gpucost(*words: str, folder: Path, limit: int = 300, codes: tuple[int, ...] = (0,)) -> Ran:
    """Run a command of gpucost in a folder with a gpucost.toml."""
    return run(sys.executable, "-m", "gpucost", *words, folder=folder, limit=limit, codes=codes)


def step(name: str, *words: object) -> tuple[Ran, Any]:
    """Run a step of tests/bench/steps.py; return its result."""
    ran = run(sys.executable, "-m", "tests.bench.steps", name, *map(str, words))
    return ran, json.loads(ran.output) if ran.output else None


@dataclass(frozen=True)
class Row:
    """A line of the page; `why` is printed if the target is missed."""

    step: str
    target: str
    met: bool
    ours: str
    beside: str = ""
    ratio: str = ""
    why: str = ""


def _commit() -> str:
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return git.stdout.strip() or "unknown"


@dataclass
class Page:
    """The measurements, in the order of the benches; each row writes the page anew to `path`."""

    path: Path | None = None
    rows: list[Row] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    commit: str = field(default_factory=_commit)

    def row(self, step: str, target: str, met: bool, *cells: str, why: str = "") -> bool:
        """Add a line of the page, with `cells` as in `Row`; return whether the target is met."""
        self.rows.append(Row(step, target, met, *cells, why="" if met else why))
        if self.path:
            self.path.write_text(self.markdown, encoding="utf-8")
        return met

    @property
    def markdown(self) -> str:
        """The page."""
        head = ["step", "gpucost", "compared with", "ratio", "target", ""]
        lines = [
            [row.step, row.ours, row.beside, row.ratio, row.target, "met" if row.met else "**missed**"]
            for row in self.rows
        ]
        missed = [f"- **{row.step}**: {row.why}" for row in self.rows if row.why]
        table = ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)]
        reasons = ["## Missed targets and reasons", "", *missed, ""] if missed else []
        return _PAGE.format(
            datetime.now(UTC),
            self.commit,
            _machine(),
            "\n".join(table),
            "".join(f"{line}\n" for line in reasons),
            (time.monotonic() - self.began) / 60,
        )


def _machine() -> str:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        name = re.search(r"(?m)^model name\s*:\s*(.*)$", info.read_text())
        cpu = name[1] if name else cpu
    return f"{os.cpu_count()} cores of {cpu}, Python {platform.python_version()}"
