"""The HTML page of one week, character by character. UPDATE_GOLDEN=1 writes it anew; look at it in a browser then."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.render.html import Bar, Block, render
from gpucost.report import Query, build
from tests.golden.report_fleet import NOW, sample

GOLDEN = Path(__file__).parent / "report" / "week.html"
WEEK = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 10, 8, tzinfo=UTC))


def test_page(tmp_path: Path) -> None:
    sample(hours=168).write(tmp_path / "store.duckdb")
    with duckdb.connect(str(tmp_path / "store.duckdb"), read_only=True) as con:
        query = Query(period=WEEK, period_name="2026-10-01 to 2026-10-07", now=NOW, with_series=True)
        view = build(con, Config(), query)
    block = Block("What could be done", "Handed in by the caller.", bars=(Bar("spot", 120.5, "money", "a month"),))
    view = replace(view, coverage=replace(view.coverage, reconciliation="$1.00 on the bill of 2026-10"))
    text = render(view, blocks=[block])
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")
