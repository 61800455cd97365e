"""gpucost.api: the data frames of every command contain the same values as its JSON."""

from __future__ import annotations

import json
import re
import shlex
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from gpucost import api
from gpucost.cli.app import app
from gpucost.errors import GpucostError, UsageError
from gpucost.render.frames import tables
from tests.golden.report_fleet import stored

# One command for each form of answer; commands in OCTOBER_OF run on October 2026 in a handmade store.
COMMANDS = {
    "report": "--by team",
    "waste": "",
    "explain team": "research",
    "budget check": "",
    "prices": "L40S",
    "prices tco": "--purchase-price 250000 --gpus-per-node 8 --gpu-watts 700 --years 4 --price-per-kwh 0.12",
    "quote": "H100 --gpus 16 --days 7",
    "whatif move": "--gb-per-start 40 --starts-per-day 10 --price-per-gb 0.09",
}
OCTOBER_OF = {"report", "waste", "explain team", "budget check"}
store = stored(hours=48)


@pytest.fixture
def small(store: Path, in_an_empty_folder: Path) -> Path:
    """A configuration of three teams over two days; its attribution is not checked."""
    path = in_an_empty_folder / "gpucost.toml"
    path.write_text(f'[store]\npath = "{store}"\n[[budgets]]\nname = "all GPUs"\namount = 1\n')
    return path


def run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code in (0, 3), result.output
    return result.stdout


def options_of(words: list[str]) -> tuple[list[str], dict[str, Any]]:
    """Arguments and options in the form of Python arguments."""
    pairs: dict[str, Any] = {}
    rest = list(words)
    while any(word.startswith("--") for word in rest):
        at = next(at for at, word in enumerate(rest) if word.startswith("--"))
        flag, value = rest[at : at + 2]
        pairs[flag.lstrip("-").replace("-", "_")] = value
        del rest[at : at + 2]
    return rest, pairs


@pytest.mark.parametrize("name", COMMANDS)
def test_frames_hold_the_rows_of_the_command(name: str, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(COMMANDS[name]) + (["--month", "2026-10"] if name in OCTOBER_OF else [])
    arguments, options = options_of(words)
    payload = json.loads(run(*name.split(), *words, "--format", "json"))
    answer = api.Gpucost().ask(name, *arguments, **options)
    monkeypatch.setattr(api.Gpucost, "ask", lambda *_, **__: answer)
    frames = api.tables(name, *arguments, **options)
    named = tables(payload)
    assert list(frames) == list(named)
    for table, rows in named.items():
        pd.testing.assert_frame_equal(frames[table], pd.json_normalize(rows))
    # `report` has its own function, which returns the rows of CSV
    ask = partial(api.answer, name) if name == "report" else getattr(api, name.replace(" ", "_"))
    frame = ask(*arguments, **options)
    pd.testing.assert_frame_equal(frame, next(iter(frames.values())))
    assert frame.attrs["exit_code"] == (3 if name == "budget check" else 0)
    assert {
        key: value for key, value in payload.items() if key not in named and key != "tables"
    }.items() <= frame.attrs.items()


def test_options_match_the_command(small: Path, capfd: pytest.CaptureFixture[str]) -> None:
    config = str(small)
    few = api.waste(start="2026-10-01", end="2026-10-02", team=["research", "vision"], top=3, config=config)
    assert few.attrs["from"] == "2026-10-01T00:00:00Z" and few.attrs["to"] == "2026-10-02T00:00:00Z"
    assert len(api.tables("waste", month="2026-10", top=3, config=config)["workloads"]) == 3
    assert api.budget_check(month="2026-10", config=config).attrs["messages"] == [
        "budget all GPUs: the budget is exceeded"
    ]
    assert capfd.readouterr() == ("", "")


REFUSED = """
reprot        -                   'reprot' is not a question > did you mean report?
waste         tema=x              No such option: --tema > gpucost waste --help
waste         month=October       invalid month 'October' > 2026-10
explain team  -                   Missing argument > gpucost explain team --help
explain node  name=nothing        node with GPUs not found: nothing > did you mean a100-1
waste         store=none.duckdb   none.duckdb > gpucost collect"""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_invalid_calls_raise_the_error_of_the_command(line: str, small: Path) -> None:
    name, options, words = re.split("  +", line)
    message, fix = words.split(" > ")
    with pytest.raises(GpucostError) as raised:
        api.answer(name, config=str(small), **dict(re.findall(r"(\w+)=(\S+)", options)))
    assert message in raised.value.message and fix in str(raised.value.fix)


def test_flag_takes_no_value(small: Path) -> None:
    with pytest.raises(GpucostError, match="team takes a value, not True"):
        api.answer("waste", config=str(small), team=True)


def test_unknown_command_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"gpucost.api has no collect_prometheus: .*whatif_spot"):
        api.collect_prometheus()
    with pytest.raises(UsageError):
        api.answer("collect prometheus")


def test_answer_has_rows_json_and_a_page(small: Path) -> None:
    gpucost = api.Gpucost(small)
    answer = gpucost.report(month="2026-10", by="team")
    assert "## Cost by team" in answer.page() and "Cost by team" in answer.page("text")
    assert json.loads(answer.json())["schema"] == "gpucost.report/1" and answer.df()["team"].notna().any()
    with pytest.raises(UsageError, match="not made for an HTML page"):
        answer.page("html")
    assert gpucost.report(month="2026-10", format="html").page("html").startswith("<!doctype html>")
    assert {"report", "unit", "whatif"} <= {*dir(gpucost)} and "epoch" in dir(gpucost.unit)
    assert gpucost.prices("L40S").json() == gpucost.ask("prices", "L40S").json()
