"""Series are the figures of the report by time; all formats contain the same figures."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

import duckdb
import pytest
from duckdb import DuckDBPyConnection as Connection

from gpucost.cli.app import app
from gpucost.config.model import Config
from gpucost.periods import Period, month_period
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.questions.report.series import moments_of, step_of
from gpucost.render.schema import to_dict
from gpucost.render.terminal import render
from gpucost.render.view import Column, Line, ReportView, Series, Table
from gpucost.store.table_files import save_table
from tests.golden.report_fleet import NOW, OCTOBER, Fleet, stored
from tests.same_figures import check_same_figures
from tests.text_tables import text_rows
from tests.unit.command import check_end, run

MONTH = month_period(date(2026, 10, 1), ZoneInfo("UTC"))
DAY = Period(datetime(2026, 10, 2, tzinfo=UTC), datetime(2026, 10, 3, tzinfo=UTC))
PARTS = {
    "a month": {},
    "a team": {"teams": ("research",)},
    "a namespace": {"namespaces": ("ml-research",)},
    "a cluster": {"clusters": ("prod",)},
    "a day": {"period": DAY},
    "part of a day": {"period": Period(DAY.start, DAY.start + timedelta(hours=7))},
}


store = stored(hours=240)


@pytest.fixture(scope="module")
def con(store: Path) -> Iterator[Connection]:
    with duckdb.connect(str(store), read_only=True) as connection:
        yield connection


def view(con: Connection, **options: Any) -> ReportView:
    query: dict[str, Any] = {"period": MONTH, "period_name": "then", "now": NOW, "with_series": True}
    return build(con, Config(), Query(**query | options))


def series_of(report: ReportView) -> Series:
    assert report.series is not None
    return report.series


@pytest.mark.parametrize("options", PARTS.values(), ids=list(PARTS))
def test_series_add_up_to_the_report(con: Connection, options: dict[str, Any]) -> None:
    report = view(con, **options)
    series, totals = series_of(report), to_dict(report)["totals"]
    whole = totals["cost"] if totals["node_cost"] is None else totals["node_cost"]
    for stack in series.stacks:
        assert stack.total == sum(stack.totals) == sum(layer.total for layer in stack.layers) == whole
        assert all(len(layer.values) == len(series.moments) for layer in stack.layers)
        assert all(sum(layer.values) == layer.total for layer in stack.layers)
    hours = {layer.kind: float(layer.total) for layer in series.hours.layers}
    for kind in ("active", "idle", "unmeasured", "unallocated"):
        assert hours.get(kind, 0) == pytest.approx(totals[f"{kind}_gpu_hours"] or 0)


def test_layers_are_teams_by_cost_then_unallocated(con: Connection) -> None:
    report = view(con)
    layers = series_of(report).stacks[0].layers
    costs = {row.keys["team"]: row.measures.cost for row in report.rows if row.kind == "allocated"}
    assert {layer.name: layer.total for layer in layers if layer.kind == "named"} == costs
    assert [layer.kind for layer in layers] == ["named", "named", "named", "unallocated"]
    assert [layer.total for layer in layers[:3]] == sorted(costs.values(), reverse=True)


LAYERS = """
    teams      | research    | namespace
    namespaces | ml-research | workload
    by         | day cluster | cluster
    by         | gpu_model   | team
"""


@pytest.mark.parametrize(("name", "value", "title"), text_rows(LAYERS))
def test_layers_are_of_the_dimension_of_the_report(
    con: Connection, name: str, value: str, title: str
) -> None:
    stack = series_of(view(con, **{name: tuple(value.split())})).stacks[0]
    assert stack.title == f"Cost by {title}"


def test_trends_add_up_to_the_cost_of_their_line(con: Connection) -> None:
    tables = [part for part in view(con).sections if isinstance(part, Table)]
    (top,) = (table for table in tables if table.title == "Top consumers")
    cost = [column.title for column in top.columns].index("Cost")
    assert top.lines
    for line in top.lines:
        assert (len(line.trend), sum(line.trend, Decimal(0))) == (31, line.cells[cost])


@pytest.mark.parametrize(("count", "folded"), [(8, []), (9, ["2 others"])])
def test_many_names_are_folded_but_never_a_single_one(tmp_path: Path, count: int, folded: list[str]) -> None:
    fleet = Fleet()
    fleet.node(1, "n", "A100", count, "spot", "9")
    for number in range(1, count + 1):
        fleet.pod(number, 1, f"ns-{number}", "p", "Pod/p")
    fleet.cell(OCTOBER, 1, [(number, f"team-{number}", 1, 1.0, 1.0) for number in range(1, count + 1)])
    fleet.write(tmp_path / "s")
    with duckdb.connect(str(tmp_path / "s"), read_only=True) as con:
        layers = series_of(view(con)).stacks[0].layers
    assert [layer.name for layer in layers if layer.kind == "others"] == folded
    assert sum(layer.total for layer in layers) == Decimal(9)


STEPS = """
    1   | hour 24
    3   | hour 72
    4   | day 4
    31  | day 31
    101 | week 15
    800 | month 27
"""


@pytest.mark.parametrize(("days", "steps"), text_rows(STEPS))
def test_steps_fit_the_length_of_the_period(days: str, steps: str) -> None:
    start = datetime(2026, 10, 1, tzinfo=UTC)  # a Thursday
    period = Period(start, start + timedelta(days=int(days)))
    moments = moments_of(period, ZoneInfo("UTC"), step_of(period))
    assert f"{step_of(period)} {len(moments)}" == steps
    ends = [one.to_ms for one in moments]
    assert [one.from_ms for one in moments] == [period.start_ms, *ends[:-1]] and ends[-1] == period.end_ms


def test_repeated_hour_is_named_with_its_offset() -> None:
    tz = ZoneInfo("Europe/Berlin")
    start = datetime(2026, 10, 25, tzinfo=tz)
    names = [one.name for one in moments_of(Period(start, start + timedelta(days=1)), tz, "hour")]
    hours = [name.removeprefix("2026-10-25 ") for name in names[1:5]]
    assert ", ".join(hours) == "01:00, 02:00 +0200, 02:00 +0100, 03:00"
    assert len(set(names)) == 25


GROUP = ("Price", "Volume", "Mix")


@pytest.mark.parametrize(("width", "shown"), [(60, False), (100, True)])
def test_columns_of_a_group_are_all_shown_or_all_listed_as_left_out(
    con: Connection, width: int, shown: bool
) -> None:
    parts = [Column(name, "money", 2, weight=1, group="parts") for name in GROUP]
    columns = (Column("Team", "text"), Column("Change", "money", 2), *parts)
    table = Table("Why", columns, (Line(("x" * 20, *[Decimal(10**6)] * 4)),))
    text = render(replace(view(con), sections=(table,)), width, color=False)
    head = next(line for line in text.splitlines() if "Change" in line)
    assert [name in head for name in GROUP] == [shown] * 3
    left_out = "Columns left out to fit the width: Price, Volume, Mix; --format markdown has all."
    assert (left_out in " ".join(text.split())) is not shown


class Terminal(io.BytesIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.usefixtures("in_an_empty_folder")
@pytest.mark.parametrize(
    ("no_color", "encoding"),
    [("", "utf-8"), ("1", "utf-8"), pytest.param("", "ascii", marks=pytest.mark.slow)],
)
def test_terminal_gets_colors_unless_no_color_is_set(
    copied: Path, monkeypatch: pytest.MonkeyPatch, no_color: str, encoding: str
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(terminal, encoding=encoding))
    app(["report", "--store", str(copied), "--month", "2026-10"], standalone_mode=False)
    sys.stdout.flush()
    text = terminal.getvalue().decode(encoding)
    assert "Cost by team" in text
    assert ("\x1b" in text) == (not no_color)


def test_all_formats_have_the_same_figures(con: Connection, tmp_path: Path) -> None:
    check_same_figures(con, view(con, by=("team",)), "2026-10", tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_long_tables_keep_their_order(tmp_path: Path, kind: Literal["csv", "parquet"]) -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TEMP TABLE long AS SELECT range AS number, 'name-' || range AS name FROM range(150000)"
        )
        save_table(con, "long", {"number": "number", "name": "name"}, kind, tmp_path / kind)
        read = con.sql(f"SELECT number FROM read_{kind}('{tmp_path / kind}')").fetchall()  # noqa: S608 - fixed names
    assert read == [(number,) for number in range(150000)]


@pytest.fixture
def copied(store: Path, in_an_empty_folder: Path) -> Path:
    # a separate file, because the fixture above keeps the other file open
    return Path(shutil.copyfile(store, store.with_name("copy.duckdb")))


NO_FOCUS = "| add --month\n--month 2026-10 --team research | takes no --team"


@pytest.mark.parametrize(("options", "message"), text_rows(NO_FOCUS))
def test_focus_file_needs_a_whole_month(copied: Path, options: str, message: str) -> None:
    check_end(f"report --format focus {options} --store {copied}", "2", message)


def test_focus_file_in_parquet(copied: Path) -> None:
    run(f"report --format focus --month 2026-10 --focus-version 1.3 -o f.parquet --store {copied}")
    assert "AllocatedTags" in duckdb.read_parquet("f.parquet").columns


@pytest.mark.parametrize("name", ["costs", "daily_costs"])
def test_views_of_the_store_add_up_to_the_report(con: Connection, name: str) -> None:
    totals = view(con, by=("team",)).totals
    sql = f"SELECT sum(cost), sum(idle_cost), sum(allocated_gpu_hours) FROM {name}"  # noqa: S608 - fixed names
    expected = (totals.cost, totals.idle_cost, pytest.approx(totals.allocated_gpu_hours))
    assert con.execute(sql).fetchall() == [expected]
