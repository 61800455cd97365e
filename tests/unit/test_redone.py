"""What is attributed again after a change: the days that it touches, and the figures are those of a store made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpucost import api, attribute, inventory, pipeline, price
from gpucost.config.model import Config
from gpucost.errors import StoreError
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.property.fleets import ONE
from tests.replay.cases.words import at
from tests.replay.work import put
from tests.unit.four_days import DAYS, FIRST, configured, figures, made

Stretches = list[tuple[float, float]]
Both = tuple[Config, Store]


@pytest.fixture
def redone(monkeypatch: pytest.MonkeyPatch) -> Stretches:
    """The stretches that are attributed, in hours since the fleet began."""
    stretches: Stretches = []
    clear = attribute._clear

    def noted(con: Any, start: int, end: int) -> None:
        if start > 0 and end < 2**60:
            stretches.append(((start / 1000 - at(0)) / 3600, (end / 1000 - at(0)) / 3600))
        clear(con, start, end)

    monkeypatch.setattr(attribute, "_clear", noted)
    return stretches


def test_a_change_redoes_the_days_that_it_touches(
    whole: Both, four_days: Path, redone: Stretches, tmp_path: Path
) -> None:
    _, store = whole
    for change, expected in (
        # of the pod that ran in the second day
        ({"teams": (("one", "train"), ("two", "serve"))}, (24, 48)),
        ({}, (24, 48)),
        # a price that holds from the third day on
        ({"step": "2026-03-12"}, (48, 96)),
        ({"threshold": 60}, (0, 96)),
    ):
        redone.clear()
        pipeline.attribute(configured(tmp_path / "a", FIRST | change), store)
        assert redone == [expected], change
        if not change:
            assert figures(store) == figures(Store(four_days))


def test_days_are_redone_where_figures_are_worked_out_otherwise(
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


def test_work_that_is_loaded_changes_nothing(whole: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    config, store = whole
    monkeypatch.setattr(inventory, "stage", lambda *_: pytest.fail("inventory was made again"))
    put(store, [])
    pipeline.attribute(config, store)


def test_sql_answers_for_the_configuration_it_is_called_with(
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
        "note: costs are those of the configuration that the store was attributed for last: cannot write the store"
    ]


CHANGES: dict[str, tuple[Any, ...]] = {
    "timezone": ("UTC", "Asia/Kolkata"),
    "teams": ((("one", "train"),), (), (("one", "t*"), ("two", "serve"))),
    "threshold": (5, 60),
    "step": (None, "2026-03-12"),
    "mig_share": ("compute", "max_compute_memory"),
}
ORDERS = st.lists(
    st.sampled_from([(name, value) for name, values in CHANGES.items() for value in values]),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(ONE, max_examples=4)
@given(order=ORDERS, late=st.integers(0, DAYS - 1), cut=st.sampled_from([None, 30.5]))
@example(order=[("timezone", "UTC")], late=2, cut=30.5)
def test_after_any_changes_figures_are_those_of_a_store_made_anew(
    order: list[tuple[str, Any]],
    late: int,
    cut: float | None,
    loads: list[Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Settings change, a day comes late, and a report cuts an hour."""
    folder = tmp_path_factory.mktemp("changed")
    chosen = dict(FIRST)
    others = [window for number, window in enumerate(loads) if number != late]
    store = made(folder / "a", chosen, others)
    period = Period(from_ms(at(cut) * 1000), from_ms(at(DAYS * 24) * 1000)) if cut else None
    pipeline.attribute(configured(folder / "a", chosen), store, period)
    for number, (name, value) in enumerate(order):
        chosen[name] = value
        if number == len(order) // 2:
            with store.write() as con:
                load_window(con, loads[late])
        pipeline.attribute(configured(folder / "a", chosen), store)
    other = made(folder / "b", chosen, loads)
    pipeline.attribute(configured(folder / "b", chosen), other, period)
    assert figures(store) == figures(other)
