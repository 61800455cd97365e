"""`gpucost report` and `gpucost open` as they are called: options, files, exit codes; and what `--compare previous` says."""

from __future__ import annotations

import re
import webbrowser
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpucost.periods import Period, to_ms
from gpucost.questions.report.changes import change, previous_period
from tests.golden.report_fleet import stored
from tests.text_tables import text_rows
from tests.unit.command import answer, check_end, run
from tests.unit.whatif_costs import figures

store = stored(hours=48)


DAYS = "--from 2026-10-01 --to 2026-10-03"

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


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


BERLIN = ZoneInfo("Europe/Berlin")
PRICES = Decimal("24.48") + Decimal("9.36") + Decimal("1.4") + Decimal("0.805")


days = stored(hours=240)
COMPARE = "report --compare previous"
LATER = f"{COMPARE} --from 2026-10-03 --to 2026-10-05"


# what is asked for, until when there is data, and the period before
BEFORE = """
a whole month, whatever its length
2026-10-01 2026-11-01              2026-11-05        2026-09-01 2026-10-01
as much of the month before as is known of this one, in whole hours
2026-10-01 2026-11-01              2026-10-04T05:30  2026-09-01 2026-09-04T06:00
2026-03-01 2026-04-01              2026-03-31T12:00  2026-02-01 2026-03-01
whole days stay whole where clocks change
2026-10-26 2026-10-28              2026-10-28        2026-10-24 2026-10-26
2026-10-25 2026-10-26              2026-10-26        2026-10-24 2026-10-25
2026-10-05T06:00 2026-10-05T08:00  2026-10-28        2026-10-05T04:00 2026-10-05T06:00"""


@pytest.mark.parametrize("line", [line for line in BEFORE.splitlines() if line.startswith("20")])
def test_the_period_before(line: str) -> None:
    start, end, known, *before = (
        datetime.fromisoformat(text).replace(tzinfo=BERLIN) for text in line.split()
    )
    assert previous_period(Period(start, end), to_ms(known), BERLIN) == Period(*before)


def test_percent_of_nothing_is_unknown() -> None:
    assert change(Decimal(3), Decimal(2)).cost_change_percent == 50
    assert change(Decimal(3), Decimal(0)).cost_change_percent is None


def test_a_period_before_any_data_is_nothing_to_compare_with(days: Path) -> None:
    message = "nothing to compare with: there is no data for 2026-09-29 to 2026-09-30"
    check_end(f"{COMPARE} --from 2026-10-01 --to 2026-10-03 --store {days}", "1", message)


def test_json_tells_of_every_row_and_the_changes_add_up(days: Path) -> None:
    later = answer(f"{LATER} --by workload --store {days}")
    before = "2026-10-01 to 2026-10-02 2026-10-01T00:00:00Z 2026-10-03T00:00:00Z"
    assert figures(later["previous"], "name from to") == before
    # vision held its GPU on October 1 and 2 only
    (gone,) = [row for row in later["rows"] if row["workload"] == "Pod/ocr-1"]
    assert figures(gone, "cost cost_change_percent previous_cost") == "0 -100 38.64"
    held = [row for row in later["rows"] if row["kind"] == "allocated"]
    for name in ("cost_change", "previous_cost"):
        assert sum(row[name] for row in held) == pytest.approx(later["totals"][name])
    assert later["totals"]["previous_node_cost"] == pytest.approx(float(PRICES * 48))
    assert all(row["cost_change"] == pytest.approx(row["cost"] - row["previous_cost"]) for row in held)


@pytest.mark.parametrize(
    ("options", "messages"), [("--from 2026-10-02T12:00", ["24.0 h of prod"]), ("--by workload", [])]
)
def test_a_period_before_that_was_collected_in_part_is_said_to_be(
    days: Path, options: str, messages: list[str]
) -> None:
    warnings = answer(f"{LATER} {options} --store {days}")["coverage"]["warnings"]
    found = [one["message"] for one in warnings if one["code"] == "not_collected_before"]
    assert [re.findall("of which (.+?) were not collected", text) for text in found] == [messages] * len(
        messages
    )


def test_arrows_on_a_terminal(days: Path) -> None:
    shown = run(f"{LATER} --store {days}").stdout
    assert re.search("vision.*▼ -100.0 %", shown) and "\x1b" not in shown


def test_one_team_is_compared_without_nodes(days: Path) -> None:
    assert answer(f"{LATER} --team research --store {days}")["totals"]["previous_node_cost"] is None


@pytest.fixture
def opened(in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses that a browser was asked for; the cache is a folder of the test's own."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not addresses.append(address))
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_an_empty_folder / "cache"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return addresses


def test_a_page_of_ones_own(
    store: Path, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "cache/gpucost/report.html"
    october = f"--month 2026-10 --store {store}"
    assert (run(f"open {october}").stdout, opened) == (f"{page}\n", [])
    assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
    assert page.read_text(encoding="utf-8") == run(f"report {october} --format html").stdout
    monkeypatch.setattr("gpucost.questions.report.page.page", lambda *given: given[3])
    monkeypatch.setenv("DISPLAY", ":0")
    result = run(f"open {october} --team research")
    assert (opened, result.stdout) == (
        [page.as_uri()],
        f"{page}\n",
    ) and "opened in your browser" in result.stderr
    assert "Monthly GPU report: research" in page.read_text(encoding="utf-8")
    assert page.stat().st_mode & 0o777 == 0o600
