"""What all what-if commands share: their last options, where an answer goes, and two saved answers side by side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from gpucost.cli.app import app
from tests.unit.command import answer, check_end, run

SCOPE = {"teams", "namespaces", "workloads", "clusters"}
TIME = {"month", "start", "end", "last"}
SHARED = SCOPE | TIME | {"format", "target", "save", "config", "store", "quiet", "verbose", "profile"}
# a plan names whose usage it reads group by group; saved answers have no usage
WITHOUT = {"plan": SCOPE, "compare": SCOPE | TIME | {"save"}}
BASE = "whatif schedule --nodes 8 --on-demand-price 32.77 --active-hours-per-day 10"


def test_every_what_if_takes_the_shared_options() -> None:
    program: Any = typer.main.get_command(app)
    for name, command in program.commands["whatif"].commands.items():
        taken = {parameter.name for parameter in command.params}
        assert taken & SHARED == SHARED - WITHOUT.get(name, set()), name


def test_a_zero_is_given_and_a_flag_or_list_left_out_is_not() -> None:
    found = answer("whatif share --pods 4 --utilization-percent 10 --headroom-percent 0")
    stated = {one["name"]: (one["value"], one["source"]) for one in found["assumptions"]}
    assert (stated["kept free"], stated["added to what is measured"]) == ((0, "option"), (10, "default"))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    for more in ("--save demand", "--spot-price 12.50 --save spot"):
        run(f"{BASE} {more} --store {folder}/new/x.duckdb")
    return folder / "new" / "whatif"


@pytest.fixture
def saved(answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(answers, tmp_path / "whatif"))


def test_saved_beside_the_store_but_under_no_wrong_name(saved: Path, tmp_path: Path) -> None:
    assert sorted(file.name for file in saved.iterdir()) == ["demand.json", "spot.json"]
    assert json.loads((saved / "spot.json").read_text())["schema"] == "gpucost.whatif/1"
    # said before anything is computed
    check_end(f"{BASE} --save a/b --store {tmp_path}/sub/x.duckdb", "2", "--save cannot call an answer 'a/b'")
    assert not (tmp_path / "sub").exists()


def test_side_by_side(saved: Path) -> None:
    comparison = answer("whatif compare demand spot")
    assert comparison["figures"]["saving"] == {"a": 112_728.80, "b": 161_376.80, "difference": 48_648.00}
    assert comparison["figures"]["today.cost"]["difference"] == 0
    assert {"name": "spot price", "a": "-", "b": "12.5 per node-hour"} in comparison["assumptions"]
    assert comparison["notes"] == []
    assert "48,648" in run(f"whatif compare demand {saved / 'spot.json'}").stdout


OTHER = "whatif schedule --nodes 2 --on-demand-price 3 --active-hours-per-day 1"


@pytest.mark.parametrize(
    ("other", "note"),
    [
        (f"{BASE} --hours 400", "The periods differ (730 hours; 400 hours)"),
        (OTHER, "not about the same usage"),
    ],
)
def test_other_periods_and_usage_are_noted(saved: Path, other: str, note: str) -> None:
    run(f"{other} --save other")
    assert note in run("whatif compare demand other").stdout


INCOMPLETE = '{"schema": "gpucost.whatif/1", "today": 3, "scenario": {}}'


def test_what_cannot_be_compared_is_told(saved: Path) -> None:
    check_end("whatif compare demand odd", "1", "saved are demand, spot")
    other = (saved / "spot.json").read_text().replace('"USD"', '"EUR"')
    for text, message, code in (
        ("no", "odd.json", "1"), (INCOMPLETE, "odd.json", "1"), (other, "in USD and EUR", "2")
    ):  # fmt: skip
        (saved / "odd.json").write_text(text)
        check_end("whatif compare demand odd", code, message)
