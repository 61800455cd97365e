"""Every format of a report holds the same figures; data formats are what they promise to programs and spreadsheets."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import jsonschema
import pytest
from typer.testing import CliRunner

from gpucost import price
from gpucost.cli.app import app
from gpucost.config.model import Config, SharedCost
from gpucost.periods import month_period
from gpucost.questions import schema as schema_of
from gpucost.questions.report.build import build
from gpucost.questions.report.query import Query
from gpucost.render.data import to_csv, to_json, to_parquet
from gpucost.render.rows import RowFormat, render_rows
from gpucost.render.view import ReportView
from gpucost.store.table_files import save_table
from tests.golden import report_fleet
from tests.golden.report_fleet import NOW, Fleet
from tests.same_figures import check_same_figures

OCTOBER = month_period(date(2026, 10, 1), ZoneInfo("UTC"))
SHARED = Config(shared_costs=[SharedCost(name="=Support", of="support")])


path = report_fleet.stored(hours=240)


@pytest.fixture(scope="module")
def con(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(path), read_only=True) as connection:
        price.load_fx_rates(connection, SHARED)
        yield connection


def view(
    con: duckdb.DuckDBPyConnection, *by: str, config: Config | None = None, **options: Any
) -> ReportView:
    query = Query(period=OCTOBER, period_name="October 2026", by=by, now=NOW, with_series=True, **options)
    return build(con, config, query) if config else built(con, query)


BUILT: dict[tuple[int, Query], ReportView] = {}


def built(con: duckdb.DuckDBPyConnection, query: Query) -> ReportView:
    if (id(con), query) not in BUILT:
        BUILT[id(con), query] = build(con, Config(), query)
    return BUILT[id(con), query]


def test_each_format_holds_the_same_figures(con: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    check_same_figures(con, view(con, "team"), "2026-10", tmp_path)


@pytest.mark.parametrize(
    "options", [{"teams": ("research",)}, {"share_unallocated": "even"}, {"config": SHARED}]
)
def test_reports_are_as_their_schema_says(con: duckdb.DuckDBPyConnection, options: dict[str, Any]) -> None:
    told = json.loads(to_json(view(con, "pod", "capacity_type", **options)))
    jsonschema.Draft202012Validator(
        json.loads(schema_of("report")), format_checker=jsonschema.FormatChecker()
    ).validate(told)


def test_text_of_csv_starts_no_formula(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node(1, "n1", "A100", 4, "spot", "16")
    names = ["=1+1", "+1", "-1", "@sum"]
    for number, name in enumerate(names, 1):
        fleet.pod(number, 1, name, "\tpod", "Pod/p")
    fleet.cell(OCTOBER.start_ms, 1, [(number, name, 1, 1.0, 0.5) for number, name in enumerate(names, 1)])
    fleet.rows["collected"].append(("prod", OCTOBER.start_ms, OCTOBER.end_ms))
    fleet.write(tmp_path / "store.duckdb")
    with duckdb.connect(str(tmp_path / "store.duckdb"), read_only=True) as con:
        report = view(con, "team", "pod")
    rows = list(csv.DictReader(io.StringIO(to_csv(report))))
    assert {row["team"] for row in rows} == {f"'{name}" for name in names}
    assert {row["pod"] for row in rows} == {"'\tpod"}
    assert {row["team"] for row in json.loads(to_json(report))["rows"]} == set(names)
    to_parquet(report, tmp_path / "r.parquet")
    assert {
        team for (team,) in duckdb.read_parquet(str(tmp_path / "r.parquet")).select("team").fetchall()
    } == set(names)
    assert (
        render_rows(("=a", "b"), [("=x", Decimal("-1.5")), ("y", -2)], RowFormat.csv)
        == "'=a,b\n'=x,-1.5\ny,-2\n"
    )


def test_long_tables_keep_their_order(tmp_path: Path) -> None:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TEMP TABLE long AS SELECT range AS number, 'name-' || range AS name FROM range(150000)"
        )
        for kind in ("csv", "parquet"):
            save_table(con, "long", {"number": "number", "name": "name"}, kind, tmp_path / kind)
            read = (
                con.read_csv(str(tmp_path / kind))
                if kind == "csv"
                else con.read_parquet(str(tmp_path / kind))
            )
            assert [number for (number,) in read.select("number").fetchall()] == list(range(150000))


@pytest.fixture
def stored(path: Path, in_an_empty_folder: Path) -> Path:
    # a file of its own: the fixture above keeps the other one open
    return Path(shutil.copyfile(path, path.with_name("copy.duckdb")))


def run(store: Path, *options: str) -> Any:
    return CliRunner().invoke(app, ["report", "--store", str(store), *options])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--month", "2026-10", "--format", "parquet"), "it needs a file"),
        (("--format", "focus"), "add --month"),
        (("--month", "2026-10", "--format", "focus", "--team", "research"), "takes no --team"),
        (("--month", "2026-10", "--format", "focus", "--focus-version", "1.1"), "1.1"),
    ],
)
def test_files_that_cannot_be_written_so(stored: Path, options: tuple[str, ...], said: str) -> None:
    result = run(stored, *options)
    assert result.exit_code == 2
    assert said in result.stderr
    assert not list(Path().iterdir())


def test_focus_file_in_parquet(stored: Path) -> None:
    assert (
        run(
            stored, "--month", "2026-10", "--format", "focus", "--focus-version", "1.3", "-o", "f.parquet"
        ).exit_code
        == 0
    )
    assert "AllocatedTags" in duckdb.read_parquet("f.parquet").columns


@pytest.mark.slow
def test_the_examples_of_the_docs_run(
    demo: Config, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert examples
    monkeypatch.setenv("GPUCOST_CONFIG", str(demo.path))
    for example in examples:
        exec(compile(example, "docs/api.md", "exec"), {})  # noqa: S102 - our own page
    assert capsys.readouterr().out


@pytest.mark.parametrize("name", ["costs", "daily_costs"])
def test_views_of_the_store_add_up_to_the_report(con: duckdb.DuckDBPyConnection, name: str) -> None:
    totals = view(con, "team").totals
    answer = (
        con.table(name)
        .aggregate("sum(cost) AS cost, sum(idle_cost) AS idle_cost, sum(allocated_gpu_hours) AS hours")
        .fetchall()
    )
    assert answer[0][:2] == (totals.cost, totals.idle_cost)
    assert answer[0][2] == pytest.approx(totals.allocated_gpu_hours)


# docs/billing.md describes these
BILLING = (
    "charges",
    "bill_rows",
    "machine_riders",
    "discounted_rows",
    "discounted_details",
    "effective_rows",
)


def test_columns_of_views_are_documented(con: duckdb.DuckDBPyConnection) -> None:
    page = (Path(__file__).parents[2] / "docs" / "store.md").read_text(encoding="utf-8")
    views = con.execute(
        "SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary"
    ).fetchall()
    assert {name for (name,) in views} >= {"charges", "costs", "daily_costs", "daily_node_costs"}
    for (name,) in views:
        assert f"`{name}`" in page, name
        if name not in BILLING:
            assert not [column for column in con.table(name).columns if f"`{column}`" not in page]
