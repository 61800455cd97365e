"""Bars and sparklines on a terminal: their lengths and heights, where they have room, and where nothing is drawn."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import month_period
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.terminal import Charts, meter, render, sparkline, with_trends
from gpucost.render.view import Column, Line, ReportView, Table
from tests.golden.report_fleet import NOW, stored
from tests.text_tables import text_rows

OCTOBER = month_period(date(2026, 10, 1), ZoneInfo("UTC"))
PARTS = ("Price", "Volume", "Mix")


path = stored(hours=240)


@pytest.fixture(scope="module")
def view(path: Path) -> ReportView:
    with duckdb.connect(str(path), read_only=True) as con:
        return build(
            con, Config(), Query(period=OCTOBER, period_name="October 2026", now=NOW, with_series=True)
        )


# moments share characters evenly where there are more of them
SPARKLINES = """
0 1 4 8     | 10 | [ ▁▄▇]
0 0         | 2  | [  ]
            | 8  | []
8 8 0 0 4 4 | 3  | [▇ ▄]
"""


@pytest.mark.parametrize(
    ("values", "width", "drawn"), [*text_rows(SPARKLINES), ("1 " * 31, "7", f"[{'▇' * 7}]")]
)
def test_heights_of_a_sparkline_are_shares_of_its_highest_value(values: str, width: str, drawn: str) -> None:
    assert f"[{sparkline([*map(Decimal, values.split())], int(width))}]" == drawn


def test_a_meter_of_a_share() -> None:
    drawn = [meter(share) for share in (0.0, 0.26, 1.0, 1.3, -0.2)]
    assert drawn == ["··········", "▇▇▇·······", "▇▇▇▇▇▇▇▇▇▇", "▇▇▇▇▇▇▇▇▇▇", "··········"]


def test_bars_are_as_long_as_costs_and_hatched_where_idle() -> None:
    columns = (
        Column("Team", "text"),
        Column("Cost", "money", 2, bar="whole"),
        Column("Idle cost", "money", 2, bar="part"),
    )
    amounts = text_rows("a | 40 | 10\nb | 20 | 20\nc | 0.1 | 0\nd | 0 | 0")
    lines = [Line((name, Decimal(cost), Decimal(idle))) for name, cost, idle in amounts]
    table = Table("Cost", columns, (*lines, Line(("Total", Decimal("60.1"), Decimal(30)), is_sum=True)))
    drawn = [cells[0].plain for cells in Charts(bar=8).cells(table)]
    assert drawn == ["▇▇▇▇▇▇░░", "░░░░", "▏", "", ""]


def test_each_team_has_its_own_days(view: ReportView) -> None:
    table = view.sections[0]
    assert view.series is not None
    assert isinstance(table, Table)
    trends = {line.cells[0]: line.trend for line in with_trends(table, view.series).lines}
    assert len(trends["research"]) == 31
    for row in view.rows:
        cost = row.unallocated.unallocated_cost if row.unallocated else row.measures.cost
        assert sum(trends[row.keys["team"] or "Unallocated"]) == cost
    assert trends["Total"] == trends["Allocated"] == ()
    other = replace(table, title="Cost by GPU model")
    assert not any(line.trend for line in with_trends(other, view.series).lines)


@pytest.mark.parametrize(("width", "shown"), [(60, False), (100, True)])
def test_parts_of_a_sum_are_all_shown_or_named_as_left_out(view: ReportView, width: int, shown: bool) -> None:
    parts = [Column(name, "money", 2, weight=1, group="parts") for name in PARTS]
    columns = (Column("Team", "text"), Column("Change", "money", 2), *parts)
    table = Table("Why", columns, (Line(("x" * 20, *[Decimal(10**6)] * 4)),))
    text = render(replace(view, sections=(table,)), width, color=False)
    head = next(line for line in text.splitlines() if "Change" in line)
    assert [name in head for name in PARTS] == [shown] * 3
    left_out = "Left out for lack of room: Price, Volume, Mix; --format markdown has all."
    assert (left_out in " ".join(text.split())) is not shown


class Terminal(io.BytesIO):
    """What calls itself a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("in_an_empty_folder")
@pytest.mark.parametrize(
    ("variables", "encoding", "has_colors", "has_charts"),
    [
        ("", "utf-8", True, True),
        ("NO_COLOR", "utf-8", False, True),
        pytest.param("", "ascii", True, False, marks=pytest.mark.slow),
    ],
)
def test_a_terminal_gets_what_it_can_show(
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    variables: str,
    encoding: str,
    *,
    has_colors: bool,
    has_charts: bool,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", variables and "1")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding=encoding))
    app(["report", "--store", str(path), "--month", "2026-10"], standalone_mode=False)
    sys.stdout.flush()
    text = terminal.getvalue().decode(encoding)
    assert "Cost by team" in text
    assert ("\x1b" in text) == has_colors
    assert ("Cost ░ idle" in text) == ("By day" in text) == has_charts
