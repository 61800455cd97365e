"""Attributing after every window gives what attributing once at the end gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.store import Store
from tests.replay.fleet import CASES, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

TABLES = (
    "cost_hourly",
    "node_hourly",
    "cost_daily",
    "node_daily",
    "nodes",
    "allocations",
    "node_prices",
    "collected",
    "warnings",
)
FLEETS = sorted(
    [
        "completion-time-while-running",
        "held-since-before-the-window",
        "local-midnight-half-hour",
        "node-name-reused",
        "prometheus-pair",
        "requeued-within-the-hour",
        "spot-churn",
        "time-slicing",
    ]
)


def contents(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    with store.read() as con:
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES}


@pytest.mark.parametrize("name", FLEETS)
def test_window_by_window_equals_at_once(name: str, tmp_path: Path) -> None:
    fleet = read_fleet(CASES / name)
    found = []
    for folder, step in ((tmp_path / "once", False), (tmp_path / "stepwise", True)):
        folder.mkdir()
        config = write_config(fleet, folder, CASES / name / "prices.csv")
        after = (lambda store, config=config: pipeline.attribute(config, store)) if step else None
        store = load(fleet, scrape(fleet, lean=True), config, hours_per_window=2, after=after)
        pipeline.attribute(config, store)
        found.append(contents(store))
    assert found[0]["cost_hourly"]
    assert found[0] == found[1]
