"""`gpucost report` as it is called: options, files, colors and exit codes. Attribution has its own tests and is left out here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.report_fleet import stored
from tests.text_tables import text_rows
from tests.unit.command import answer, check_end, run

store = stored(hours=48)


DAYS = "--from 2026-10-01 --to 2026-10-03"

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


def test_without_a_period_the_newest_month_with_data(store: Path) -> None:
    text = run(f"report --store {store}").stdout
    assert text.startswith("Monthly GPU report: all teams, October 2026")
    assert "; the " in text.splitlines()[1]  # newest, or current: as the clock has it


@pytest.mark.parametrize(
    ("name", "start"), [("r.json", "{"), ("r", "GPU report"), ("r.html", "<!doctype html>\n")]
)
def test_a_file_is_written_in_the_format_of_its_suffix(
    store: Path, tmp_path: Path, name: str, start: str
) -> None:
    assert run(f"report --store {store} -o {tmp_path / name} {DAYS}").stdout == ""
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert [item.name for item in tmp_path.iterdir()] == [name]


ENDS = """
4 | --strict --from 2026-09-29 --to 2026-10-03 | 2026-09-29 to 2026-10-02 is incomplete: 48.0 h of prod
1 | --month 2026-09 | the newest month with data is October 2026: gpucost report --month 2026-10
1 | -o no/such/folder/r.md --from 2026-10-01 --to 2026-10-03 | cannot write no/such/folder/r.md
2 | -o report.pdf | -o knows .md, .html, .json, .csv, .parquet, .txt
0 | -o report.pdf --format csv --from 2026-10-01 --to 2026-10-03 | written to report.pdf
2 | -o . | -o names a directory
2 | --last 9999w | --last 9999w goes back to 18
2 | --brief | --brief is of Markdown only
2 | --brief --format html | --brief is of Markdown only"""


@pytest.mark.parametrize(("code", "options", "message"), text_rows(ENDS))
def test_how_it_ends(store: Path, code: str, options: str, message: str) -> None:
    check_end(f"report --store {store} {options}", code, message)


def test_a_dash_is_stdout_as_wide_as_columns_say(
    store: Path, in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    result = run(f"report --store {store} -o - -q {DAYS}")
    assert max(map(len, result.stdout.splitlines())) <= 72
    assert result.stdout.startswith("GPU report: all teams")
    assert result.stderr == ""
    assert not list(in_an_empty_folder.iterdir())


def test_the_summary_of_a_report_in_three_lines(store: Path) -> None:
    words = f"report --store {store} {DAYS}"
    whole, brief = (run(f"{words} --format markdown {more}").stdout for more in ("", "--brief"))
    assert brief in whole
    totals = answer(words)["totals"]
    cost, idle, most = brief.splitlines()
    assert cost.startswith(
        f"**GPU report: all teams, 2026-10-01 to 2026-10-02: ${totals['node_cost']:,.2f}; unallocated "
    )
    share = 100 * totals["idle_cost"] / totals["cost"]
    assert idle.startswith(f"Idle ${totals['idle_cost']:,.2f}, {share:.1f} % of allocated cost; efficiency ")
    assert most.startswith("Most: ") and "; collected " in most
