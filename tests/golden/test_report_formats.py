"""Reports as they look, character by character. UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest

from gpucost import price
from gpucost.config.model import Config, SharedCost
from gpucost.periods import month_period
from gpucost.render.data import to_csv, to_json
from gpucost.render.markdown import render as to_markdown
from gpucost.render.terminal import render as to_terminal
from gpucost.render.view import ReportView
from gpucost.report import Query, build
from tests.golden.report_fleet import NOW, OCTOBER, Fleet, write_sample
from tests.unit.billed import bill

GOLDEN = Path(__file__).parent / "report"
OCTOBER_2026 = month_period(date(2026, 10, 1), ZoneInfo("UTC"))


@pytest.fixture(scope="module")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    path = write_sample(tmp_path_factory.mktemp("golden") / "store.duckdb")
    with duckdb.connect(str(path)) as writing:
        storage = {"key": "i-1", "kind": "storage", "hours": None}
        bill(writing, storage | {"cost": "123.45"}, storage | {"kind": "support", "cost": "500", "length": 744.0})
        writing.execute("INSERT INTO billed_nodes VALUES ('i-1', 1, false)")
    with duckdb.connect(str(path), read_only=True) as connection:
        yield connection


def query(*by: str, **options: Any) -> Query:
    return Query(period=OCTOBER_2026, period_name="October 2026", by=by, now=NOW, **options)


SHARING = Config(
    shared_costs=[
        SharedCost(name="Storage", of="storage"),
        SharedCost(name="Support", of="support", split="owner", owner="finops"),
        SharedCost(name="Evaluation", of="namespaces", namespaces=["nlp-*"], split="even"),
    ]
)
REPORTS = {
    "all_teams": query(),
    "one_team": query(teams=("research",)),
    "shared_by_gpu": query("team", "gpu_model", share_unallocated="proportional"),
}
FORMATS: dict[str, Callable[[ReportView], str]] = {
    "80.txt": lambda view: to_terminal(view, 80, color=False),
    "120.txt": lambda view: to_terminal(view, 120, color=False),
    "color.txt": lambda view: to_terminal(view, 100, color=True),
    "charts.txt": lambda view: to_terminal(view, 120, color=False, charts=True),
    "md": to_markdown,
    "json": to_json,
    "csv": to_csv,
}


@pytest.fixture(scope="module")
def views(con: duckdb.DuckDBPyConnection) -> dict[str, ReportView]:
    found = {}
    for report, asked in REPORTS.items():
        config = SHARING if report.startswith("shared") else Config()
        price.load_fx_rates(con, config)
        found[report] = build(con, config, replace(asked, with_series=True))
    return found


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("report", REPORTS)
def test_format(views: dict[str, ReportView], report: str, suffix: str) -> None:
    text = FORMATS[suffix](views[report])
    golden = GOLDEN / f"{report}.{suffix}"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [60, *(pytest.param(width, marks=pytest.mark.slow) for width in (72, 80, 100, 200))])
@pytest.mark.parametrize("report", REPORTS)
def test_no_line_is_wider_than_the_terminal(views: dict[str, ReportView], report: str, width: int) -> None:
    for charts in (False, True):
        text = to_terminal(views[report], width, color=False, charts=charts)
        assert max(map(len, text.splitlines())) <= width
        assert "\x1b" not in text
        assert charts == any(drawn in text for drawn in "▇░▏▁")


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    fleet = Fleet()
    fleet.node(1, "n", "A100", 1, "on_demand", "4")
    fleet.pod(1, 1, "[red]x|y*_`<script>", "p", "Pod/[bold]|p")
    fleet.cell(OCTOBER, 1, [(1, "team\n|<b>", 1, 1.0, 1.0)])
    fleet.write(tmp_path / "s")
    with duckdb.connect(str(tmp_path / "s"), read_only=True) as con:
        view = build(con, Config(currency="CHF"), query("team", "namespace"))
    markdown = to_markdown(view)
    assert "<script>" not in markdown and "\n|<b>" not in markdown
    assert r"\[red\]x\|y\*\_\`&lt;script>" in markdown
    terminal = to_terminal(view, 120, color=False)
    assert "[red]x|y*_`<script>" in terminal
    assert "CHF 4.00" in terminal
