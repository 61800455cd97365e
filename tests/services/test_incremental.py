"""Attributing after every window gives what attributing once at the end gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.store.connection import Store
from tests.replay.fleet import CASES, Fleet, read_fleet
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

pytestmark = pytest.mark.slow

TABLES = (
    "cost_hourly", "node_hourly", "cost_daily", "node_daily", "nodes", "allocations", "node_prices", "collected", "warnings",
)  # fmt: skip
FLEETS = sorted(
    [
        "completion-time-while-running", "held-since-before-the-window", "local-midnight-half-hour", "node-name-reused",
        "prometheus-pair", "requeued-within-the-hour", "spot-churn", "time-slicing",
    ]
)  # fmt: skip


def contents(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    with store.read() as con:
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES}


def stepwise_and_at_once(fleet: Fleet, prices: Path, tmp_path: Path, hours: int) -> list[dict[str, list[tuple[Any, ...]]]]:
    result = []
    for folder, step in ((tmp_path / "once", False), (tmp_path / "stepwise", True)):
        folder.mkdir()
        config = write_config(fleet, folder, prices)
        after = (lambda store, config=config: pipeline.attribute(config, store)) if step else None
        store = load(fleet, scrape(fleet, lean=True), config, hours_per_window=hours, after=after)
        pipeline.attribute(config, store)
        result.append(contents(store))
    return result


@pytest.mark.parametrize("name", FLEETS)
def test_window_by_window_equals_at_once(name: str, tmp_path: Path) -> None:
    result = stepwise_and_at_once(read_fleet(CASES / name), CASES / name / "prices.csv", tmp_path, hours=2)
    assert result[0]["cost_hourly"]
    assert result[0] == result[1]


def test_a_scrape_missed_at_midnight(tmp_path: Path) -> None:
    """Whether the last sample of a day is bridged shows only in the next day's load."""
    fleet = read_fleet(CASES / "whole-gpus")
    midnight = fleet["start"] - fleet["start"] % 86_400 + 86_400
    fleet["start"], fleet["end"] = midnight - 7200, midnight + 7200
    for node in fleet["nodes"]:
        node["from"], node["to"] = fleet["start"], fleet["end"]
    for pod in fleet["pods"]:
        pod["scheduled"] = pod["from"] = fleet["start"]
        pod["to"], pod["keep_until"] = fleet["end"], fleet["end"]
    fleet["silent"] = [[node["name"], midnight - 30, midnight + 30] for node in fleet["nodes"]]
    result = stepwise_and_at_once(fleet, CASES / "whole-gpus" / "prices.csv", tmp_path, hours=2)
    assert result[0]["cost_hourly"]
    assert result[0] == result[1]
