"""Saved answers, and two of them side by side."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from inspect import signature
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app, leaves
from tests.unit.whatif_costs import stages_at_once

BASE = ["whatif", "schedule", "--nodes", "8", "--on-demand-price", "32.77", "--active-hours-per-day", "10"]


@pytest.fixture(scope="module", autouse=True)
def _stages_at_once() -> Iterator[None]:
    with stages_at_once():
        yield


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("answers")
    run(*BASE, "--save", "demand", "--store", str(folder / "x.duckdb"))
    run(*BASE, "--spot-price", "12.50", "--save", "spot", "--store", str(folder / "x.duckdb"))
    return folder / "whatif"


@pytest.fixture(autouse=True)
def saved(answers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(answers, tmp_path / "whatif"))


def run(*args: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, list(args))
    assert result.exit_code == code, result.output
    return result.output


def test_saved_beside_the_store(saved: Path, tmp_path: Path) -> None:
    assert sorted(file.name for file in saved.iterdir()) == ["demand.json", "spot.json"]
    assert json.loads((saved / "spot.json").read_text())["schema"] == "gpucost.whatif/1"
    run(*BASE, "--save", "there", "--store", str(tmp_path / "sub" / "x.duckdb"))
    assert (tmp_path / "sub" / "whatif" / "there.json").exists()


def test_every_command_saves(saved: Path) -> None:
    for words, command in leaves():
        assert command.callback is not None
        if words[0] == "whatif" and words[1] != "compare":
            assert "save" in signature(command.callback).parameters, words
    run("whatif", "spot", "--on-demand-price", "32", "--spot-price", "12", "--interruptions-per-hour", "0.3",
        "--checkpoint-minutes", "30", "--save", "risky")  # fmt: skip
    assert "risky.json" in {file.name for file in saved.iterdir()}


def test_side_by_side() -> None:
    told = json.loads(run("whatif", "compare", "demand", "spot", "--format", "json"))
    assert told["figures"]["saving"] == {"a": 112_728.80, "b": 161_376.80, "difference": 48_648.00}
    assert told["figures"]["today.cost"]["difference"] == 0
    assert {"name": "spot price", "a": "-", "b": "12.5 per node-hour"} in told["assumptions"]
    assert told["notes"] == []


@pytest.mark.parametrize("format", ["table", "markdown", "csv"])
def test_every_format_holds_the_difference(format: str) -> None:
    assert "48,648" in run("whatif", "compare", "demand", "spot", "--format", format).replace("48648", "48,648")


def test_files_do_as_well(saved: Path) -> None:
    assert "48,648" in run("whatif", "compare", "demand", str(saved / "spot.json"))


def test_other_periods_are_noted() -> None:
    run(*BASE, "--hours", "400", "--save", "short")
    assert "The periods differ (730 hours; 400 hours)" in run("whatif", "compare", "demand", "short")


def test_other_usage_is_noted() -> None:
    run(*BASE, "--gpus", "4", "--save", "same")
    run("whatif", "schedule", "--nodes", "2", "--on-demand-price", "3", "--active-hours-per-day", "1", "--save", "other")
    assert "not about the same usage" in run("whatif", "compare", "demand", "other")


def test_other_currencies_are_refused(saved: Path) -> None:
    (saved / "euro.json").write_text((saved / "spot.json").read_text().replace('"USD"', '"EUR"'))
    assert "in USD and EUR" in run("whatif", "compare", "demand", "euro", code=2)


@pytest.mark.parametrize("text", ["{}", "[1]", "no", '{"schema": "gpucost.whatif/1", "today": 3, "scenario": {}}'])
def test_what_is_no_answer_is_told(saved: Path, text: str) -> None:
    (saved / "odd.json").write_text(text)
    assert "odd.json" in run("whatif", "compare", "demand", "odd", code=1)


def test_an_unknown_name_lists_the_known() -> None:
    assert "saved are demand, spot" in run("whatif", "compare", "demand", "none", code=1)
