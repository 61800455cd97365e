"""Prices from a bill by the hour, beside a plain group by of its rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.measured import Page, step

pytestmark = pytest.mark.bench

NODES, DAYS, SECONDS = 300, 30, 0.4


def test_prices_from_a_bill(tmp_path: Path, page: Page) -> None:
    store = tmp_path / "store.duckdb"
    step("billed", store, NODES, DAYS)
    told = step("attribute", store)[1]
    beside = step("hourly_bill", store)[1]
    assert beside["rows"] == NODES * DAYS * 24
    dearest = ", ".join(f"`{name}` {seconds:.2f}" for name, seconds in told["dearest"].items())
    assert page.row(
        f"price from a bill, {NODES} nodes × {DAYS * 24} h",
        f"≤ {SECONDS} s",
        told["price"] <= SECONDS,
        f"{told['price']:.2f} s",
        f"a group by of its rows by machine and hour {beside['cpu']:.2f} s",
        f"{told['price'] / beside['cpu']:.1f} ×",
        why=f"the dearest statements: {dearest}.",
    )
