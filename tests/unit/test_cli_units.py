"""Tables of `gpucost unit`: prices fit into 80 columns, and an empty period is reported."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gpucost.config.model import Config
from gpucost.periods import Period
from gpucost.questions.units import document
from gpucost.questions.units.query import UnitQuery, UnitView
from gpucost.render.rows import RowFormat, render_rows
from gpucost.render.terminal import render

MONTH = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
TOKENS = {
    "namespace": "inference", "workload": "Deployment/a-chat-api-with-a-long-name", "model": "llama-3-8b-instruct",
    "prompt_tokens": 3012918480, "generation_tokens": 826621224, "cost": Decimal("2624.98"),
    "cost_per_million_tokens": Decimal("0.683663"),
}  # fmt: skip


def view_of(title: str, rows: list[Any], zone: str = "UTC", totals: Any = None) -> UnitView:
    ask = UnitQuery(Config(timezone=zone), MONTH, "October 2026")
    return UnitView("s", title, ask, rows, totals or {}, {}, {"rows": tuple(rows[0])})


def table(view: UnitView, width: int | None = None, most: int | None = None) -> str:
    return render(document(view, most=most), width, color=False)


def test_unit_tables_keep_prices_most_expensive_rows_and_local_times() -> None:
    view = view_of("Cost per million tokens", [TOKENS], totals={"cost": Decimal("2624.98")})
    narrow = table(view, 80)
    assert "Per million" in narrow and "$0.6837" in narrow and "3,012,918,480" not in narrow
    assert max(map(len, narrow.splitlines())) <= 80
    assert "3,012,918,480       826,621,224  $2,624.98      $0.6837" in table(view, 160)
    assert "Cost  $2,624.98" in table(view, 160)
    rows = [{"name": f"job-{number}", "status": None, "cost": Decimal(number)} for number in range(9, 0, -1)]
    view = view_of("Cost", rows)
    text = table(view, most=2)
    assert "job-8" in text and "job-7" not in text and "and 7 more" in text
    # all rows lack a status
    assert "Status" not in text
    assert "job-1" in render_rows(*document(view).flat, RowFormat.csv)
    view = view_of("Cost", [{"epoch": 1, "from": "2026-10-12T22:30:00Z"}], "Europe/Berlin")
    assert "2026-10-13 00:30" in table(view)
    assert "2026-10-12T22:30:00Z" in render_rows(*document(view).flat, RowFormat.csv)
