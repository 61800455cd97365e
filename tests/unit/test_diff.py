"""`gpucost diff`: each part on figures small enough to work out by hand, and the command on a store filled by hand."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.questions.diff.parts import PARTS, Cell, Parts, Use, parts_of
from tests.golden.report_fleet import HOUR, OCTOBER, Fleet, stored
from tests.text_tables import text_rows
from tests.unit.command import answer, check_end, run
from tests.unit.whatif_costs import figures, shown

pytestmark = pytest.mark.usefixtures("in_an_empty_folder")
D = Decimal


# whose GPUs of which capacity type (hours, of them idle, and cost) before and after, and the parts of the change
CHANGES = """
a price that rose
train on_demand 10 0 20 > train on_demand 10 0 30 > price=10

10 h at 2 become 16 h at 3: 4 more in use (8), 2 more idle (4), and 1 more for each of the 16
train on_demand 10 1 20 > train on_demand 16 3 48 > volume=8 idle=4 price=16

all 10 h move from 4 to a spot price that was 1 for others and is 2 now
train on_demand 10 0 40, chat spot 10 0 10 > train spot 10 0 20, chat spot 10 0 10 > price=10 mix=-30

a kind of GPU that has no old price
train on_demand 10 0 40 > train spot 10 0 15 > mix=-25

new and gone workloads
train spot 5 0 5 > chat spot 3 0 9 > new=9 gone=-5

what nobody held
nobody spot 10 0 10 > nobody spot 6 0 12 > price=6 unallocated=-4

cost without GPUs is of hosts
train on_demand 0 0 3 > train on_demand 0 0 5 > host=2"""


def cells(text: str) -> dict[Cell, Use]:
    found = {}
    for name, capacity_type, *amounts in re.findall(r"(\w+) (\w+) (\d+) (\d+) (\d+)", text):
        kind, (hours, idle, cost) = ("prod", "A100", capacity_type), map(D, amounts)
        cell = (
            Cell(kind, kind, "unallocated")
            if name == "nobody"
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
def test_the_parts_of_a_change(change: str, parts: str) -> None:
    whole = sum(parts_of(*map(cells, change.split(" > "))).values(), Parts())
    found = {part: getattr(whole, part) for part in PARTS if getattr(whole, part)}
    assert found == {name: D(cost) for name, cost in re.findall(r"(\w+)=(\S+)", parts)}


store = stored(hours=144)


@pytest.mark.parametrize("by", ["team", "gpu_model,capacity_type"])
def test_rows_and_parts_add_up_to_the_change(store: Path, by: str) -> None:
    told = answer(f"diff 2026-10-01..2026-10-03 2026-10-03..2026-10-06 --by {by} --store {store}")
    change = told["cost_change"]
    assert (told["before"]["days"], told["after"]["days"]) == (2.0, 3.0)
    assert (told["before"]["cost"], change) == pytest.approx((36.045 * 48, 36.045 * 24))
    assert told["cost_change_per_day"] == pytest.approx(0)
    assert sum(told["parts"].values()) == pytest.approx(change)
    assert sum(row["cost_change"] for row in told["rows"]) == pytest.approx(change)
    assert told["parts"]["gone"] < 0  # vision left after two days
    for row in told["rows"]:
        assert sum(row[name] for name in PARTS) == pytest.approx(row["cost_change"])


def test_a_team_is_in_one_of_the_periods(store: Path) -> None:
    words = f"diff 2026-10-01 2026-10-05 --store {store}"
    rows = list(csv.DictReader(io.StringIO(run(f"{words} --format csv").stdout)))
    assert {row["kind"] for row in rows} == {"allocated", "unallocated"}
    assert sum(D(row["cost_change"]) for row in rows) == 0
    told = answer(f"{words} --team vision")
    assert (told["by"], told["after"]["cost"]) == (["workload"], 0)
    assert told["parts"]["gone"] == told["cost_change"] < 0


REFUSED = """
2026-10 soon                   | 2 | 'soon' is no period
2026-10-05..2026-10-01 2026-10 | 2 | empty
2026-10-01 2026-10-02 --by pod | 2 | not compared by 'pod'
2026-08 2026-10                | 1 | no data for August 2026
"""


@pytest.mark.parametrize(("words", "code", "message"), text_rows(REFUSED))
def test_what_cannot_be_compared_is_said(store: Path, words: str, code: str, message: str) -> None:
    check_end(f"diff {words} --store {store}", code, message)


def two_clusters(path: Path, lab_days: int = 10) -> Path:
    """Ten days of a node at $1 an hour, whose last two were not collected and are billed for one, and of one at $2 in `lab`."""
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
def test_only_collected_days_count(tmp_path: Path, lab_days: int) -> None:
    path = two_clusters(tmp_path / "store.duckdb", lab_days)
    told = answer(f"diff 2026-10-01..2026-10-06 2026-10-06..2026-10-11 --by cluster --store {path}")
    days = min(3, lab_days - 5)
    # what is billed of the time that was not collected is in the cost, and in no cost a day
    assert figures(told["before"], "days cost cost_per_day") == "5 360 72"
    expected = shown(days, 72 + 24 + (lab_days - 5) * 48, 72)
    assert figures(told["after"], "days cost cost_per_day") == expected and told["cost_change_per_day"] == 0
    rows = sorted(figures(row, "kind cluster cost_per_day_before cost_per_day_after") for row in told["rows"])
    assert rows == ["allocated lab 48 48", "allocated prod 24 24", "not_collected prod 0 0"]
