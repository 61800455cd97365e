"""What is attributed again after a change: the days that it touches, and the figures are those of a store made anew."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpucost import api, attribute, inventory, pipeline, price
from gpucost.cli.command import Call
from gpucost.config.model import Config
from gpucost.errors import StoreError
from gpucost.periods import Period, from_ms
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.property.fleets import ONE, involved, many
from tests.replay.cases.words import BOOK, HEADER, at, busy, fleet, node, pod
from tests.replay.load import windows, write_config
from tests.replay.scrape import scrape
from tests.replay.work import put

DAYS = 4
TABLES = ("cost_hourly", "node_hourly", "cost_daily", "node_daily")
# what can be changed, and into what
CHANGES: dict[str, tuple[Any, ...]] = {
    "timezone": ("UTC", "Asia/Kolkata"),
    "teams": ((("one", "train"),), (), (("one", "t*"), ("two", "serve"))),
    "threshold": (5, 60),
    "step": (None, "2026-03-12"),
    "mig_share": ("compute", "max_compute_memory"),
}
FIRST = {name: values[0] for name, values in CHANGES.items()}


def described() -> dict[str, Any]:
    nodes = [node("n1", "p4de.24xlarge", 0, DAYS * 24), node("n2", "p4de.24xlarge", 5.5, 60, "spot")]
    pods = [
        pod("stays", "n1", [0, 1], 1, DAYS * 24, "train"),
        pod("short", "n1", [2], 30.25, 33.5, "serve"),
        pod("spot", "n2", [0, 1, 2], 6, 59, "train"),
    ]
    return fleet(DAYS * 24, nodes, pods, busy("n1", [0], 1, DAYS * 24, 33) | busy("n2", [0], 6, 50, 71), scrape=300)


def configured(folder: Path, chosen: dict[str, Any]) -> Config:
    folder.mkdir(exist_ok=True)
    step = [f",,,p4de.24xlarge,on_demand,50.00,USD,{chosen['step']}"] if chosen["step"] else []
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK, *step]) + "\n")
    teams = [{"name": name, "namespaces": [glob]} for name, glob in chosen["teams"]]
    config = write_config(described() | {"timezone": chosen["timezone"], "teams": teams}, folder, folder / "prices.csv")
    return config.model_copy(
        update={
            "idle": config.idle.model_copy(update={"threshold_percent": chosen["threshold"]}),
            "mig": config.mig.model_copy(update={"share": chosen["mig_share"]}),
        }
    )


@pytest.fixture(scope="module")
def loads() -> list[Any]:
    told = described()
    return list(windows(told, scrape(told, lean=True), Config(), hours=24))


@pytest.fixture
def redone(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, float]]:
    """The stretches that are attributed, in hours since the fleet began."""
    stretches: list[tuple[float, float]] = []
    clear = attribute._clear

    def noted(con: Any, start: int, end: int) -> None:
        if start > 0 and end < 2**60:
            stretches.append(((start / 1000 - at(0)) / 3600, (end / 1000 - at(0)) / 3600))
        clear(con, start, end)

    monkeypatch.setattr(attribute, "_clear", noted)
    return stretches


def made(folder: Path, chosen: dict[str, Any], loads: list[Any]) -> tuple[Config, Store]:
    config = configured(folder, chosen)
    store = Store(config.store)
    with store.write() as con:
        for window in loads:
            load_window(con, window)
    pipeline.attribute(config, store)
    return config, store


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory, loads: list[Any]) -> Path:
    """The file of the fleet's store."""
    return made(tmp_path_factory.mktemp("stored") / "a", FIRST, loads)[1].path


def copied(file: Path, folder: Path) -> tuple[Config, Store]:
    config = configured(folder, FIRST)
    return config, Store(shutil.copyfile(file, config.store))


@pytest.fixture
def whole(tmp_path: Path, stored: Path) -> tuple[Config, Store]:
    return copied(stored, tmp_path / "a")


def figures(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    with store.read() as con:
        return {table: con.execute(f"FROM {table} ORDER BY ALL").fetchall() for table in TABLES}


def days(first: int, end: int = DAYS) -> list[tuple[float, float]]:
    return [(first * 24.0, end * 24.0)]


def test_a_change_redoes_the_days_that_it_touches(tmp_path: Path, loads: list[Any], redone: list[tuple[float, float]]) -> None:
    _, store = made(tmp_path / "a", FIRST, loads)
    assert redone == days(0)
    for change, expected in (
        # a price that holds from the third day on
        ({"step": "2026-03-12"}, days(2)),
        ({"step": None}, days(2)),
        # of the pod that ran in the second day
        ({"teams": (("one", "train"), ("two", "serve"))}, days(1, 2)),
        ({}, days(1, 2)),
        ({"threshold": 60}, days(0)),
    ):
        redone.clear()
        pipeline.attribute(configured(tmp_path / "a", FIRST | change), store)
        assert redone == expected, change


def test_days_are_redone_where_figures_are_worked_out_otherwise(
    whole: tuple[Config, Store], redone: list[tuple[float, float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = whole
    monkeypatch.setattr("gpucost.__version__", "99")
    pipeline.attribute(config, store)
    assert redone == []
    runs: list[str] = []
    whole = price.stage
    monkeypatch.setattr(price, "stage", lambda *args: (runs.append("price"), whole(*args)))
    for stage, expected in (("inventory", []), ("price", []), ("attribute", days(0))):
        redone.clear()
        monkeypatch.setitem(pipeline.ALGORITHM, stage, 99)
        pipeline.attribute(config, store)
        assert redone == expected, stage
    assert runs == ["price"] * 3


def test_work_that_is_loaded_changes_nothing(whole: tuple[Config, Store], monkeypatch: pytest.MonkeyPatch) -> None:
    config, store = whole
    made_again: list[str] = []
    whole_stage = inventory.stage
    monkeypatch.setattr(inventory, "stage", lambda *args: (made_again.append("inventory"), whole_stage(*args)))
    put(store, [])
    pipeline.attribute(config, store)
    assert not made_again


ORDERS = st.lists(
    st.sampled_from([(name, value) for name, values in CHANGES.items() for value in values]), min_size=1, max_size=4
)
OTHERS = {"late": st.integers(0, DAYS - 1), "cut": st.sampled_from([None, 30.5])}


@ONE
@given(order=involved(ORDERS), **OTHERS)
def test_after_any_changes_figures_are_those_of_a_store_made_anew(
    order: list[tuple[str, Any]], late: int, cut: float | None, loads: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    chosen = dict(FIRST)
    # a day that comes late, and a report that cuts an hour
    config, store = made(folder / "a", chosen, [window for number, window in enumerate(loads) if number != late])
    period = Period(from_ms(at(cut) * 1000), from_ms(at(DAYS * 24) * 1000)) if cut else None
    for number, (name, value) in enumerate(order):
        chosen[name] = value
        config = configured(folder / "a", chosen)
        if number == len(order) // 2:
            with store.write() as con:
                load_window(con, loads[late])
        pipeline.attribute(config, store, period if number == 0 else None)
    anew, other = made(folder / "b", chosen, loads)
    pipeline.attribute(anew, other, period)
    assert figures(store) == figures(other)


test_after_many_more = many(test_after_any_changes_figures_are_those_of_a_store_made_anew, given(order=ORDERS, **OTHERS), ONE, 4)


def test_sql_answers_for_the_configuration_it_is_called_with(
    whole: tuple[Config, Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, store = whole
    notes: list[str] = []
    monkeypatch.setattr(Call, "note", lambda _, text: notes.append(text))

    def teams(config: Config) -> list[Any]:
        return (
            api.query("SELECT DISTINCT team FROM daily_costs ORDER BY ALL", config=config.path, store=store.path)
            .team.dropna()
            .tolist()
        )

    other = configured(tmp_path / "b", FIRST | {"teams": (("two", "*"),)})
    first = ["one", "unassigned"]
    assert [teams(config), teams(other), teams(config)] == [first, ["two"], first]
    assert not notes

    def refused(*_: object) -> None:
        raise StoreError("cannot write the store")

    monkeypatch.setattr(pipeline, "_attribute", refused)
    assert teams(other) == first
    assert notes == ["note: costs are those of the configuration that the store was attributed for last: cannot write the store"]
