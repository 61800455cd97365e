"""`gpucost report` as it is called: options, files, colors and exit codes. Attribution has its own tests and is left out here."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from tests.golden.report_fleet import stored

store = stored(hours=48)


@cache
def run(store: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["report", "--store", str(store), *options])


DAYS = ("--from", "2026-10-01", "--to", "2026-10-03")

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def test_without_a_period_the_newest_month_with_data(store: Path) -> None:
    result = run(store)
    assert result.exit_code == 0
    assert result.stdout.startswith("Monthly GPU report: all teams, October 2026")
    assert "; the " in result.stdout.splitlines()[1]  # newest, or current: as the clock has it


def test_one_team(store: Path) -> None:
    result = run(store, "--team", "research", *DAYS)
    assert result.exit_code == 0
    assert result.stdout.startswith("GPU report: research, 2026-10-01 to 2026-10-02\n")
    assert "\x1b" not in result.stdout
    assert "Unallocated" not in result.stdout


def test_data_on_stdout_is_nothing_but_data(store: Path) -> None:
    result = run(store, "--format", "json", "--by", "team,day", "--by", "team", *DAYS)
    assert json.loads(result.stdout)["by"] == ["team", "day"]


@pytest.mark.parametrize(
    ("name", "start"), [("r.json", "{"), ("r", "GPU report"), ("r.html", "<!doctype html>\n")]
)
def test_a_file_is_written_in_the_format_of_its_suffix(
    store: Path, tmp_path: Path, name: str, start: str
) -> None:
    result = run(store, "-o", str(tmp_path / name), *DAYS)
    assert result.exit_code == 0
    assert result.stdout == ""
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert [item.name for item in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ("--strict", "--from", "2026-09-29", "--to", "2026-10-03"),
            4,
            "2026-09-29 to 2026-10-02 is incomplete: 48.0 h of prod",
        ),
        (
            ("--month", "2026-09"),
            1,
            "the newest month with data is October 2026: gpucost report --month 2026-10",
        ),
        (("--top", "-1", *DAYS), 2, "--top"),
        (("--share-unallocated", "evenly", *DAYS), 2, "--share-unallocated"),
        (("-o", "no/such/folder/r.md", *DAYS), 1, "cannot write no/such/folder/r.md"),
        (("-o", "report.pdf", *DAYS), 2, "-o knows .md, .html, .json, .csv, .parquet, .txt"),
        (("-o", "report.pdf", "--format", "csv", *DAYS), 0, "written to report.pdf"),
        (("-o", "", *DAYS), 2, "-o names a directory"),
        (("--last", "9999w"), 2, "--last 9999w goes back to 18"),
    ],
)
def test_exit_codes(store: Path, options: tuple[str, ...], code: int, message: str) -> None:
    result = run(store, *options)
    assert result.exit_code == code, result.output
    assert message in result.stderr


def test_a_dash_is_stdout_as_wide_as_columns_say(
    store: Path, in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    result = run(store, "-o", "-", "-q", *DAYS)
    assert max(map(len, result.stdout.splitlines())) <= 72
    assert result.stdout.startswith("GPU report: all teams")
    assert result.stderr == ""
    assert not list(in_an_empty_folder.iterdir())


def test_without_a_store_the_next_command_is_named(tmp_path: Path) -> None:
    result = run(tmp_path / "none.duckdb")
    assert result.exit_code == 1
    assert "gpucost collect prometheus" in result.stderr


def test_the_summary_of_a_report_in_three_lines(store: Path) -> None:
    whole, brief = (run(store, "--format", "markdown", *more, *DAYS).stdout for more in ((), ("--brief",)))
    assert brief in whole and len(brief.splitlines()) == 3
    totals = json.loads(run(store, "--format", "json", *DAYS).stdout)["totals"]
    cost, idle, most = brief.splitlines()
    assert cost.startswith(
        f"**GPU report: all teams, 2026-10-01 to 2026-10-02: ${totals['node_cost']:,.2f}; unallocated "
    )
    share = totals["idle_cost"] / totals["cost"]
    assert idle.startswith(
        f"Idle ${totals['idle_cost']:,.2f}, {share:.1%}".replace("%", " %")
        + " of allocated cost; efficiency "
    )
    assert most.startswith("Most: ") and "; collected " in most
    for words in (("--brief",), ("--brief", "--format", "html")):
        result = run(store, *words, *DAYS)
        assert result.exit_code == 2 and "--brief is of Markdown only" in result.stderr
