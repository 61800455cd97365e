"""Every format of a report holds the same figures; data formats are what they promise to programs and spreadsheets."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Literal
from zoneinfo import ZoneInfo

import duckdb
import pytest

from gpucost.config.model import Config
from gpucost.periods import month_period
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.view import ReportView
from gpucost.store.table_files import save_table
from tests.golden import report_fleet
from tests.golden.report_fleet import NOW
from tests.same_figures import check_same_figures
from tests.unit.command import check_end, run

OCTOBER = month_period(date(2026, 10, 1), ZoneInfo("UTC"))


path = report_fleet.stored(hours=240)


@pytest.fixture(scope="module")
def con(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(path), read_only=True) as connection:
        yield connection


def view(con: duckdb.DuckDBPyConnection, *by: str) -> ReportView:
    return build(
        con, Config(), Query(period=OCTOBER, period_name="October 2026", by=by, now=NOW, with_series=True)
    )


def test_each_format_holds_the_same_figures(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    check_same_figures(con, view(con, "team"), "2026-10", tmp_path)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_long_tables_keep_their_order(tmp_path: Path, kind: Literal["csv", "parquet"]) -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TEMP TABLE long AS SELECT range AS number, 'name-' || range AS name FROM range(150000)"
        )
        save_table(con, "long", {"number": "number", "name": "name"}, kind, tmp_path / kind)
        read = con.sql(f"SELECT number FROM read_{kind}('{tmp_path / kind}')").fetchall()  # noqa: S608 - names of our own
    assert read == [(number,) for number in range(150000)]


@pytest.fixture
def stored(path: Path, in_an_empty_folder: Path) -> Path:
    # a file of its own: the fixture above keeps the other one open
    return Path(shutil.copyfile(path, path.with_name("copy.duckdb")))


@pytest.mark.parametrize(
    ("options", "said"), [("", "add --month"), ("--month 2026-10 --team research", "takes no --team")]
)
def test_a_focus_file_is_of_a_whole_month(stored: Path, options: str, said: str) -> None:
    check_end(f"report --format focus {options} --store {stored}", "2", said)


def test_focus_file_in_parquet(stored: Path) -> None:
    run(f"report --format focus --month 2026-10 --focus-version 1.3 -o f.parquet --store {stored}")
    assert "AllocatedTags" in duckdb.read_parquet("f.parquet").columns


@pytest.mark.parametrize("name", ["costs", "daily_costs"])
def test_views_of_the_store_add_up_to_the_report(con: duckdb.DuckDBPyConnection, name: str) -> None:
    totals = view(con, "team").totals
    sql = f"SELECT sum(cost), sum(idle_cost), sum(allocated_gpu_hours) FROM {name}"  # noqa: S608 - names of our own
    expected = (totals.cost, totals.idle_cost, pytest.approx(totals.allocated_gpu_hours))
    assert con.execute(sql).fetchall() == [expected]
