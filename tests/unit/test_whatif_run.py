"""What all what-if commands share: their last options, and where an answer goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.cli.whatif import SCOPE

PERIOD = ("month", "start", "end", "last")
SHARED = [*SCOPE, *PERIOD, "format", "output", "save", "config", "store", "quiet", "verbose"]
# a plan names whose usage it reads group by group; saved answers have no usage
WITHOUT = {"plan": set(SCOPE), "compare": {*SCOPE, *PERIOD, "save"}}


pytestmark = pytest.mark.usefixtures("stages_together")


def _commands() -> dict[str, Any]:
    program: Any = typer.main.get_command(app)
    found: dict[str, Any] = program.commands["whatif"].commands
    return found


@pytest.mark.parametrize("name", sorted(_commands()))
def test_every_what_if_ends_with_the_shared_options(name: str) -> None:
    expected = [option for option in SHARED if option not in WITHOUT.get(name, set())]
    own = [parameter.name for parameter in _commands()[name].params]
    assert own[-len(expected) :] == expected
    assert not set(own[: -len(expected)]) & set(SHARED)


def test_a_wrong_name_for_save_is_told_before_anything_is_computed(tmp_path: Path) -> None:
    described = ["--nodes", "1", "--on-demand-price", "3", "--active-hours-per-day", "10"]
    store = tmp_path / "new" / "s.duckdb"
    result = CliRunner().invoke(app, ["whatif", "schedule", *described, "--store", str(store), "--save", "../x"])
    assert result.exit_code == 2
    assert "--save cannot call an answer '../x'" in result.output
    assert not store.parent.exists()
    kept = CliRunner().invoke(app, ["whatif", "schedule", *described, "--store", str(store), "--save", "x"])
    assert kept.exit_code == 0, kept.output
    assert (store.parent / "whatif" / "x.json").is_file()


def test_a_zero_is_given_and_a_flag_or_list_left_out_is_not() -> None:
    words = ["--pods", "4", "--utilization-percent", "10", "--headroom-percent", "0", "--format", "json"]
    answer = json.loads(CliRunner().invoke(app, ["whatif", "share", *words]).stdout)
    stated = {one["name"]: (one["value"], one["source"]) for one in answer["assumptions"]}
    assert stated["kept free"] == (0, "option")
    assert stated["added to what is measured"] == (10, "default")
    # neither --across-teams nor --notebook was given: no store is asked for
    both = CliRunner().invoke(app, ["whatif", "share", *words, "--across-teams"])
    assert both.exit_code == 2 and "--across-teams asks for usage in the store" in both.output
