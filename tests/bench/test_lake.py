"""A lake beside the store: the same figures of a month of a large fleet, from nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.measured import Page, step

pytestmark = pytest.mark.bench

GPUS, DAYS, OVERHEAD = 10_000, 30, 1.3


def test_a_month_of_a_large_fleet_in_a_lake(tmp_path: Path, page: Page) -> None:
    path, lake = tmp_path / "store.duckdb", tmp_path / "lake"
    step("large", path, GPUS, DAYS)
    exported = step("lake_export", path, lake)[0]
    store = step("attribute", path)[0]
    ran = step("lake_attribute", path, lake)[0]
    assert page.row(
        f"a lake from nothing, {GPUS:,} GPUs × {DAYS} days",
        f"≤ {OVERHEAD} × the store",
        ran.cpu <= OVERHEAD * store.cpu,
        f"{ran.cpu:.1f} s, {ran.peak_mb:,.0f} MB",
        f"one store {store.cpu:.1f} s; the export before {exported.cpu:.0f} s",
        f"{ran.cpu / store.cpu:.2f} ×; wall {ran.wall:.0f} s",
        why="series and states are read from Parquet, and each task fills a store of its own.",
    )
