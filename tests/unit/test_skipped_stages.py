"""Statements that are skipped without their input change no figure: each fleet alone in a store, with and without skipping."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from gpucost import engine, pipeline
from gpucost.store.connection import Store
from tests.replay.fleet import all_cases, read_fleet
from tests.replay.load import load, write_book, write_config
from tests.replay.scrape import scrape

TABLES = """
    nodes node_prices node_stops allocations allocation_traits collected coverage_gaps pending_pods mig_fragmentation warnings
    cost_runs node_runs activity_hours cost_daily node_daily"""
#: Fleets of which a stage's condition is the only hint at their kind.
QUICK = ("hami-memory-and-percentages", "kai-fractions", "relabeled-exporter", "over-before-it-was-seen")


def figures(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    with store.read() as con:
        return {name: con.execute(f"FROM {name} ORDER BY ALL").fetchall() for name in TABLES.split()}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.name, marks=() if case.name in QUICK else pytest.mark.slow)
        for case in all_cases()
    ],
)
def test_skipped_statements_change_nothing(
    case: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = read_fleet(case)
    config = write_config(fleet, tmp_path, write_book(tmp_path))
    store = load(fleet, scrape(fleet), config)
    shutil.copyfile(store.path, tmp_path / "copy")
    pipeline.attribute(config, store)
    skipping = figures(store)
    shutil.copyfile(tmp_path / "copy", store.path)
    monkeypatch.setattr(engine, "has_input", lambda *_: True)
    pipeline.attribute(config, store)
    assert figures(store) == skipping
