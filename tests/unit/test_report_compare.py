"""`gpucost report --compare previous`: the period before, rows that came and went, and what each format says of the change."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from gpucost.periods import Period, to_ms
from gpucost.questions.report.changes import change, previous_period
from tests.golden.report_fleet import stored
from tests.unit.command import answer, check_end
from tests.unit.whatif_costs import figures

BERLIN = ZoneInfo("Europe/Berlin")
PRICES = Decimal("24.48") + Decimal("9.36") + Decimal("1.4") + Decimal("0.805")


store = stored(hours=240)
COMPARE = "report --compare previous"
LATER = f"{COMPARE} --from 2026-10-03 --to 2026-10-05"
pytestmark = pytest.mark.usefixtures("in_an_empty_folder")


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


def test_a_period_before_any_data_is_nothing_to_compare_with(store: Path) -> None:
    message = "nothing to compare with: there is no data for 2026-09-29 to 2026-09-30"
    check_end(f"{COMPARE} --from 2026-10-01 --to 2026-10-03 --store {store}", "1", message)


def test_json_tells_of_every_row_and_the_changes_add_up(store: Path) -> None:
    later = answer(f"{LATER} --by workload --store {store}")
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
    store: Path, options: str, messages: list[str]
) -> None:
    warnings = answer(f"{LATER} {options} --store {store}")["coverage"]["warnings"]
    found = [one["message"] for one in warnings if one["code"] == "not_collected_before"]
    assert [re.findall("of which (.+?) were not collected", text) for text in found] == [messages] * len(
        messages
    )


def test_one_team_is_compared_without_nodes(store: Path) -> None:
    assert answer(f"{LATER} --team research --store {store}")["totals"]["previous_node_cost"] is None
