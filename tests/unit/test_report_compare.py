"""`gpucost report --compare previous`: the period before, rows that came and went, and what each format says of the change."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from gpucost.cli.app import app
from gpucost.periods import Period, to_ms
from gpucost.questions.report.changes import change, previous_period
from tests.golden.report_fleet import stored

BERLIN = ZoneInfo("Europe/Berlin")
PRICES = Decimal("24.48") + Decimal("9.36") + Decimal("1.4") + Decimal("0.805")


store = stored(hours=240)
LATER = ("--from", "2026-10-03", "--to", "2026-10-05")
pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


@cache
def run(store: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["report", "--store", str(store), "--compare", "previous", *options])


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


def told(store: Path, *options: str) -> Any:
    return json.loads(run(store, *options, "--format", "json").stdout)


def test_a_period_before_any_data_is_nothing_to_compare_with(store: Path) -> None:
    none = run(store, "--from", "2026-10-01", "--to", "2026-10-03")
    assert none.exit_code == 1
    assert "nothing to compare with: there is no data for 2026-09-29 to 2026-09-30" in none.stderr


def test_json_tells_of_every_row_and_the_changes_add_up(store: Path) -> None:
    later = told(store, *LATER, "--by", "workload")
    assert later["previous"] == {
        "name": "2026-10-01 to 2026-10-02",
        "from": "2026-10-01T00:00:00Z",
        "to": "2026-10-03T00:00:00Z",
    }
    # vision held its GPU on October 1 and 2 only
    (gone,) = [row for row in later["rows"] if row["workload"] == "Pod/ocr-1"]
    assert (gone["cost"], gone["cost_change_percent"], gone["previous_cost"]) == (0, -100, 38.64)
    held = [row for row in later["rows"] if row["kind"] == "allocated"]
    for name in ("cost_change", "previous_cost"):
        assert sum(row[name] for row in held) == pytest.approx(later["totals"][name])
    assert later["totals"]["previous_node_cost"] == pytest.approx(float(PRICES * 48))
    assert all(row["cost_change"] == pytest.approx(row["cost"] - row["previous_cost"]) for row in held)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "2026-10-02T12:00", "--to", "2026-10-05"), "of which 24.0 h of prod were not collected"),
        ((*LATER, "--by", "workload"), None),
    ],
)
def test_a_period_before_that_was_collected_in_part_is_said_to_be(
    store: Path, options: tuple[str, ...], message: str | None
) -> None:
    warnings = told(store, *options)["coverage"]["warnings"]
    found = [one["message"] for one in warnings if one["code"] == "not_collected_before"]
    assert len(found) == (message is not None) and all(str(message) in text for text in found)


def test_arrows_on_a_terminal_and_columns_in_csv(store: Path) -> None:
    shown = run(store, *LATER).stdout
    (vision,) = [line for line in shown.splitlines() if "vision" in line]
    assert "▼ -100.0 %" in vision
    assert "Previous is 2026-10-01 to 2026-10-02." in " ".join(shown.split())
    assert "\x1b" not in shown
    (first, *_) = csv.DictReader(io.StringIO(run(store, *LATER, "--format", "csv").stdout))
    assert Decimal(first["cost_change"]) == Decimal(first["cost"]) - Decimal(first["previous_cost"])


def test_one_team_is_compared_without_nodes(store: Path) -> None:
    assert told(store, *LATER, "--team", "research")["totals"]["previous_node_cost"] is None
