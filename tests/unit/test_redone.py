"""Attribution after a change: only affected days are redone, and the figures match a new store."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gpucost import api, attribute, inventory, pipeline, price
from gpucost.config.model import Config
from gpucost.errors import StoreError
from gpucost.store.connection import Store
from tests.replay.cases.words import at
from tests.replay.work import put
from tests.unit.four_days import FIRST, configured, figures

Stretches = list[tuple[float, float]]
Both = tuple[Config, Store]


@pytest.fixture
def redone(monkeypatch: pytest.MonkeyPatch) -> Stretches:
    """The attributed intervals, in hours since the start of the fleet."""
    stretches: Stretches = []
    clear = attribute._clear

    def noted(con: Any, start: int, end: int) -> None:
        if start > 0 and end < 2**60:
            stretches.append(((start / 1000 - at(0)) / 3600, (end / 1000 - at(0)) / 3600))
        clear(con, start, end)

    monkeypatch.setattr(attribute, "_clear", noted)
    return stretches


def test_change_redoes_only_affected_days(
    whole: Both, four_days: Path, redone: Stretches, tmp_path: Path
) -> None:
    _, store = whole
    for change, expected in (
        # another team for the pod of the second day
        ({"teams": (("one", "train"), ("two", "serve"))}, (24, 48)),
        ({}, (24, 48)),
        # another price from the third day on
        ({"step": "2026-03-12"}, (48, 96)),
        ({"threshold": 60}, (0, 96)),
    ):
        redone.clear()
        pipeline.attribute(configured(tmp_path / "a", FIRST | change), store)
        assert redone == [expected], change
        if not change:
            assert figures(store) == figures(Store(four_days))


def test_days_are_redone_only_after_a_new_attribution_algorithm(
    whole: Both, redone: Stretches, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = whole
    monkeypatch.setattr("gpucost.__version__", "99")
    pipeline.attribute(config, store)
    assert redone == []
    runs: list[str] = []
    whole = price.stage
    monkeypatch.setattr(price, "stage", lambda *args: (runs.append("price"), whole(*args)))
    for stages, expected in ((("inventory", "price"), []), (("attribute",), [(0, 96)])):
        for stage in stages:
            monkeypatch.setitem(pipeline.ALGORITHM, stage, 99)
        pipeline.attribute(config, store)
        assert redone == expected, stages
    assert runs == ["price"] * 2


def test_loaded_work_does_not_redo_attribution(whole: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    config, store = whole
    monkeypatch.setattr(inventory, "stage", lambda *_: pytest.fail("inventory was made again"))
    put(store, [])
    pipeline.attribute(config, store)


def test_sql_uses_the_given_configuration(
    whole: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = whole
    notes: list[str] = []

    def teams(config: Config) -> list[Any]:
        sql = "SELECT DISTINCT team FROM daily_costs WHERE team IS NOT NULL ORDER BY ALL"
        frame = api.query(sql, config=config.path, store=store.path)
        notes.extend(frame.attrs["messages"])
        return frame.team.tolist()

    other = configured(tmp_path / "b", FIRST | {"teams": (("two", "*"),)})
    assert [teams(config), teams(other)] == [["one", "unassigned"], ["two"]]
    assert not notes

    failure = StoreError("cannot write the store")
    monkeypatch.setattr(pipeline, "_attribute", Mock(side_effect=failure))
    assert teams(config) == ["two"]
    assert notes == [
        "note: costs are from the last configuration that the store was attributed for: cannot write the store"
    ]
