"""Findings on fleets of one-pod workloads: their time grows as the workloads do."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from tests.bench.measured import Page, run, step
from tests.bench.test_start import RUN

pytestmark = pytest.mark.bench

EXPONENT = 1.05
SIZES = (250, 1_000)


def test_findings_are_linear_in_workloads(tmp_path: Path, page: Page) -> None:
    taken = []
    for gpus in SIZES:
        folder = tmp_path / str(gpus)
        folder.mkdir()
        store = folder / "store.duckdb"
        step("fill", store, gpus, 7)
        config = folder / "gpucost.toml"
        config.write_text('store = "store.duckdb"\n[prices]\nbook = "prices.csv"\n')
        words = f"findings --from 2026-10-01 --to 2026-10-08 --config {config}".split()
        for _ in "ab":
            ran = run(sys.executable, "-c", RUN, *words)
        taken.append(ran.cpu)
    slope = math.log(taken[1] / taken[0]) / math.log(SIZES[1] / SIZES[0])
    assert page.row(
        f"findings, {SIZES[0] * 4:,} and {SIZES[1] * 4:,} one-pod workloads",
        f"exponent ≤ {EXPONENT}",
        slope <= EXPONENT,
        ", ".join(f"{seconds:.2f} s" for seconds in taken),
        "",
        f"exponent {slope:.2f}",
    )
