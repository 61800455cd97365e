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
    ran = {workers: step("lake_attribute", path, lake, workers)[0] for workers in (1, 2)}
    with page.row(
        f"a lake from nothing, {GPUS:,} GPUs × {DAYS} days",
        f"≤ {OVERHEAD} × the store",
        "series and states are read from Parquet, and each task fills a store of its own.",
    ) as row:
        row |= {
            "ours": f"{ran[1].cpu:.1f} s, {ran[1].peak_mb:,.0f} MB; in two processes {ran[2].cpu:.1f} s",
            "beside": f"one store {store.cpu:.1f} s; the export before {exported.cpu:.0f} s",
        }
        row["ratio"] = f"{ran[1].cpu / store.cpu:.2f} ×; wall {ran[1].wall:.0f} s with one process, {ran[2].wall:.0f} s with two"
        assert ran[1].cpu <= OVERHEAD * store.cpu
