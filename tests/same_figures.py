"""One check of all renderers: a month's report by team has the same figures in every format."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from gpucost.config.model import Config
from gpucost.publish import focus
from gpucost.render.data import to_csv, to_parquet
from gpucost.render.formatting import figure_text
from gpucost.render.html import render as to_html
from gpucost.render.markdown import render as to_markdown
from gpucost.render.terminal import render as to_terminal
from gpucost.render.view import ReportView


def check_same_figures(con: duckdb.DuckDBPyConnection, report: ReportView, month: str, folder: Path) -> None:
    """`report` covers a whole month (`2026-10`) by team, with series and without shared costs; `con` reads its store."""
    answer = json.loads(report.json())
    rows = {row["team"]: row for row in answer["rows"]}
    # for programs: every figure of every row
    lines = {line["team"] or None: line for line in csv.DictReader(io.StringIO(to_csv(report)))}
    to_parquet(report, folder / "report.parquet")
    stored = duckdb.read_parquet(str(folder / "report.parquet"))
    cells = (dict(zip(stored.columns, values, strict=True)) for values in stored.fetchall())
    typed = {row["team"]: row for row in cells}
    assert set(rows) == set(lines) == set(typed)
    of_nobody = ("unallocated_cost", "not_collected_cost")
    for team, row in rows.items():
        # in one column that adds up to the cost of the nodes
        flat = row | {"cost": row["cost"] + sum(row.get(name, 0) for name in of_nobody)}
        for name, value in flat.items():
            if name in of_nobody:
                continue
            if value is None or isinstance(value, str):
                assert (lines[team][name] or None) == typed[team][name] == value
            else:
                assert float(lines[team][name]) == float(typed[team][name]) == value
    assert sum(Decimal(line["cost"]) for line in lines.values()) == Decimal(
        repr(answer["totals"]["node_cost"])
    )
    # for people: the same figures, rounded
    money = [row["cost"] for row in rows.values() if row["kind"] == "allocated"]
    money += [answer["totals"][name] for name in ("cost", "idle_cost", "node_cost", "unallocated_cost")]
    figures = [figure_text(amount, "money", "USD", 2) for amount in money]
    held = [row["allocated_gpu_hours"] for row in rows.values() if row["kind"] == "allocated"]
    figures += [figure_text(hours, "hours", "USD", 1) for hours in held]
    for text in (to_terminal(report, 200, color=False), to_markdown(report), to_html(report)):
        assert [figure for figure in figures if figure not in text] == [], text[:200]
    # the FOCUS file: the cost of teams and of nodes
    focus.prepare(con, Config(), month)
    sums = dict(con.execute("SELECT team, sum(EffectiveCost) FROM focus_rows GROUP BY team").fetchall())
    expected = {team: row["cost"] or row["unallocated_cost"] for team, row in rows.items()}
    assert {team: float(cost) for team, cost in sums.items()} == pytest.approx(expected, abs=1e-9)
