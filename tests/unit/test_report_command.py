"""The commands `gpucost report`, `open` and `diff`, and the parts of a cost change, derived by hand."""

from __future__ import annotations

import csv
import io
import re
import webbrowser
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.questions.diff.parts import PARTS, Cell, Parts, Use, parts_of
from tests.golden.report_fleet import HOUR, OCTOBER, Fleet, stored
from tests.text_tables import text_rows
from tests.unit.command import answer, check_end, run
from tests.unit.whatif_costs import figures, shown

store = stored(hours=48)


DAYS = "--from 2026-10-01 --to 2026-10-03"

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@pytest.mark.parametrize(
    ("name", "start"), [("r.json", "{"), ("r", "GPU report"), ("r.html", "<!doctype html>\n")]
)
def test_file_has_the_format_of_its_suffix(store: Path, tmp_path: Path, name: str, start: str) -> None:
    assert run(f"report --store {store} -o {tmp_path / name} {DAYS}").stdout == ""
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(start)
    assert [item.name for item in tmp_path.iterdir()] == [name]


ENDS = """
4 | --strict --from 2026-09-29 --to 2026-10-03 | 2026-09-29 to 2026-10-02 is incomplete: 48.0 h of prod
1 | --month 2026-09 | the newest month with data is October 2026: gpucost report --month 2026-10
1 | -o no/such/folder/r.md --from 2026-10-01 --to 2026-10-03 | cannot write no/such/folder/r.md
2 | -o report.pdf | -o knows .md, .html, .json, .csv, .parquet, .txt
0 | -o report.pdf --format csv --from 2026-10-01 --to 2026-10-03 | written to report.pdf
2 | -o . | -o . is a directory
2 | --last 9999w | --last 9999w goes back to 18
2 | --brief | --brief needs --format markdown
2 | --brief --format html | --brief needs --format markdown"""


@pytest.mark.parametrize(("code", "options", "message"), text_rows(ENDS))
def test_report_exit_codes_and_messages(store: Path, code: str, options: str, message: str) -> None:
    check_end(f"report --store {store} {options}", code, message)


def test_dash_is_stdout_with_the_width_of_columns(
    store: Path, in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    result = run(f"report --store {store} -o - -q {DAYS}")
    assert max(map(len, result.stdout.splitlines())) <= 72
    assert result.stdout.startswith("GPU report: all teams")
    assert result.stderr == ""
    assert not list(in_an_empty_folder.iterdir())


def test_brief_report_has_three_lines(store: Path) -> None:
    words = f"report --store {store} {DAYS}"
    whole, brief = (run(f"{words} --format markdown {more}").stdout for more in ("", "--brief"))
    assert brief in whole
    totals = answer(words)["totals"]
    cost, idle, most = brief.splitlines()
    assert cost.startswith(
        f"**all GPU nodes: ${totals['node_cost']:,.2f} from 2026-10-01 to 2026-10-02; idle "
    )
    share = 100 * totals["idle_cost"] / totals["cost"]
    assert idle.startswith(f"Idle ${totals['idle_cost']:,.2f}, {share:.1f} % of allocated cost; unallocated ")
    assert most.startswith("Most: ") and "; collected " in most


@pytest.fixture
def opened(in_an_empty_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The addresses opened in a browser; the cache is a temporary folder."""
    addresses: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: not addresses.append(address))
    monkeypatch.setenv("XDG_CACHE_HOME", str(in_an_empty_folder / "cache"))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    return addresses


def test_open_writes_a_private_page_and_opens_it(
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


D = Decimal


# workloads with their capacity type, hours, idle hours and cost, before and after, and the parts of the change
CHANGES = """
a price that rose
train on_demand 10 0 20 > train on_demand 10 0 30 > price=10

10 h at 2 become 16 h at 3: 4 more used (8), 2 more idle (4), and 1 more for each of the 16
train on_demand 10 1 20 > train on_demand 16 3 48 > volume=8 idle=4 price=16

all 10 h move from a price of 4 to a spot price that rose from 1 to 2
train on_demand 10 0 40, chat spot 10 0 10 > train spot 10 0 20, chat spot 10 0 10 > price=10 mix=-30

a kind of GPU without an old price
train on_demand 10 0 40 > train spot 10 0 15 > mix=-25

new and gone workloads
train spot 5 0 5 > chat spot 3 0 9 > new=9 gone=-5

unallocated GPUs
free spot 10 0 10 > free spot 6 0 12 > price=6 unallocated=-4

cost without GPUs is host cost
train on_demand 0 0 3 > train on_demand 0 0 5 > host=2"""


def cells(text: str) -> dict[Cell, Use]:
    found = {}
    for name, capacity_type, *amounts in re.findall(r"(\w+) (\w+) (\d+) (\d+) (\d+)", text):
        kind, (hours, idle, cost) = ("prod", "A100", capacity_type), map(D, amounts)
        cell = (
            Cell(kind, kind, "unallocated")
            if name == "free"
            else Cell((name, "prod", "ml", f"Job/{name}"), kind)
        )
        found[cell] = Use(hours, idle, cost)
    return found


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        pytest.param(*line.rsplit(" > ", 1), id=name)
        for name, line in map(str.splitlines, CHANGES.strip().split("\n\n"))
    ],
)
def test_parts_of_a_change(change: str, parts: str) -> None:
    whole = sum(parts_of(*map(cells, change.split(" > "))).values(), Parts())
    found = {part: getattr(whole, part) for part in PARTS if getattr(whole, part)}
    assert found == {name: D(cost) for name, cost in re.findall(r"(\w+)=(\S+)", parts)}


six_days = stored(hours=144)


@pytest.mark.parametrize("by", ["team", "gpu_model,capacity_type"])
def test_rows_and_parts_add_up_to_the_change(six_days: Path, by: str) -> None:
    found = answer(f"diff 2026-10-01..2026-10-03 2026-10-03..2026-10-06 --by {by} --store {six_days}")
    change = found["cost_change"]
    assert (found["before"]["days"], found["after"]["days"]) == (2.0, 3.0)
    assert (found["before"]["cost"], change) == pytest.approx((36.045 * 48, 36.045 * 24))
    assert found["cost_change_per_day"] == pytest.approx(0)
    assert sum(found["parts"].values()) == pytest.approx(change)
    assert sum(row["cost_change"] for row in found["rows"]) == pytest.approx(change)
    assert found["parts"]["gone"] < 0  # vision stopped after two days
    for row in found["rows"]:
        assert sum(row[name] for name in PARTS) == pytest.approx(row["cost_change"])


def test_team_in_only_one_period_is_gone(six_days: Path) -> None:
    words = f"diff 2026-10-01 2026-10-05 --store {six_days}"
    rows = list(csv.DictReader(io.StringIO(run(f"{words} --format csv").stdout)))
    assert {row["kind"] for row in rows} == {"allocated", "unallocated"}
    assert sum(D(row["cost_change"]) for row in rows) == 0
    found = answer(f"{words} --team vision")
    assert (found["by"], found["after"]["cost"]) == (["workload"], 0)
    assert found["parts"]["gone"] == found["cost_change"] < 0


def test_numbered_runs_are_one_workload(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node(1, "n1", "A100", 4, "on_demand", "4")
    for number, name in enumerate(("sweep-1", "sweep-2", "solo-9", "v2", "sweep-3", "v1"), 1):
        fleet.pod(number, 1, "ml", name, f"Job/{name}")
    for hour in range(48):
        held = [(1, 1), (3, 1), (5, 1), (6, 1)] if hour < 24 else [(2, 3), (4, 1)]
        fleet.cell(OCTOBER + hour * HOUR, 1, [(number, "research", gpus, 1.0, 1.0) for number, gpus in held])
    fleet.rows["collected"].append(("prod", OCTOBER, OCTOBER + 48 * HOUR))
    fleet.write(tmp_path / "store.duckdb")
    found = answer(f"diff 2026-10-01 2026-10-02 --team research --store {tmp_path / 'store.duckdb'}")
    rows = {row["workload"]: (row["new"], row["gone"], row["volume"]) for row in found["rows"]}
    others = {"Job/solo-9": (0, -24, 0), "Job/v1": (0, -24, 0), "Job/v2": (24, 0, 0)}
    assert rows == {"Job/sweep-*": (0, 0, 24)} | others


NOT_COMPARED = """
2026-10 soon                   | 2 | invalid period 'soon'
2026-10-05..2026-10-01 2026-10 | 2 | empty
2026-10-01 2026-10-02 --by pod | 2 | --by 'pod' is not supported
2026-08 2026-10                | 1 | no data for August 2026
"""


@pytest.mark.parametrize(("words", "code", "message"), text_rows(NOT_COMPARED))
def test_invalid_comparison_is_an_error(six_days: Path, words: str, code: str, message: str) -> None:
    check_end(f"diff {words} --store {six_days}", code, message)


def two_clusters(path: Path, lab_days: int = 10) -> Path:
    """Ten days of a $1 node, the last two not collected and only one of them billed, and of a $2 node in `lab`."""
    fleet = Fleet()
    fleet.node(1, "n1", "A100", 1, "on_demand", "1")
    fleet.node(2, "n2", "A100", 1, "on_demand", "2", cluster="lab")
    fleet.pod(1, 1, "ml", "a", "Job/a")
    fleet.pod(2, 2, "ml", "b", "Job/b", cluster="lab")
    for hour in range(240):
        at = OCTOBER + hour * HOUR
        if hour < 192:
            fleet.cell(at, 1, [(1, "research", 1, 1.0, 1.0)])
        elif hour < 216:
            fleet.unseen(at, 1)
        if hour < lab_days * 24:
            fleet.cell(at, 2, [(2, "research", 1, 1.0, 1.0)])
    fleet.rows["collected"] += [
        ("prod", OCTOBER, OCTOBER + 192 * HOUR),
        ("lab", OCTOBER, OCTOBER + lab_days * 24 * HOUR),
    ]
    fleet.write(path)
    return path


@pytest.mark.parametrize("lab_days", [10, 7])
def test_cost_per_day_counts_only_collected_days(tmp_path: Path, lab_days: int) -> None:
    path = two_clusters(tmp_path / "store.duckdb", lab_days)
    found = answer(f"diff 2026-10-01..2026-10-06 2026-10-06..2026-10-11 --by cluster --store {path}")
    days = min(3, lab_days - 5)
    # the billed cost of time that was not collected counts in the cost, but not in the cost per day
    assert figures(found["before"], "days cost cost_per_day") == "5 360 72"
    expected = shown(days, 72 + 24 + (lab_days - 5) * 48, 72)
    assert figures(found["after"], "days cost cost_per_day") == expected and found["cost_change_per_day"] == 0
