"""What a change of prices restates: the days it changes, exactly, and no other."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Discount, Prices
from gpucost.periods import MS_PER_HOUR
from tests.replay.cases.words import HEADER, fleet, node
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

DAY = 24 * MS_PER_HOUR


@pytest.mark.ci
def test_only_days_whose_prices_changed_are_attributed_again(tmp_path: Path) -> None:
    described = fleet(96, [node("n", "p4de.24xlarge", 0, 96, "spot")], [], {}, scrape=1800)
    (tmp_path / "prices.csv").write_text(f"{HEADER}\n")
    config = write_config(described, tmp_path, tmp_path / "prices.csv").model_copy(
        update={"prices": Prices()}
    )
    store = load(described, scrape(described, lean=True), config)
    first = described["start"] * 1000

    def put(hour: int, price: int) -> None:
        with store.write() as con:
            con.execute(
                "INSERT INTO spot_prices VALUES ('aws', 'us-west-2', 'us-west-2b', 'p4de.24xlarge', 'Linux/UNIX', '', $1, "
                "NULL, $2, 'USD', 'aws us-west-2')",
                [first + hour * MS_PER_HOUR, price],
            )
        loaded("spot")

    def loaded(kind: str) -> None:
        with store.write() as con:
            con.execute(
                "INSERT INTO loads SELECT max(load_id) + 1, 9, $1, 'aws us-west-2', $2, $3, 1, 0, now()::TIMESTAMP FROM loads",
                [kind, first, first + 4 * DAY],
            )

    before: dict[int, int] = {}

    def restated() -> list[int]:
        nonlocal before
        pipeline.attribute(config, store)
        after = {
            (start - first) // DAY: digest
            for start, digest in store.query(
                "SELECT from_ms, fingerprint FROM attributed_days ORDER BY from_ms"
            )[1]
        }
        changed = [day for day in after if after[day] != before.get(day)]
        before = after
        return changed

    def cost() -> Any:
        sql = "SELECT sum(node_cost) FROM node_hourly JOIN nodes USING (node_id) WHERE capacity_type = 'spot'"
        return store.query(sql)[1][0][0]

    put(-5, 10)
    assert restated() == [0, 1, 2, 3]
    put(55, 20)
    assert (restated(), cost()) == ([2, 3], 10 * 55 + 20 * 41)
    loaded("prices")
    assert restated() == []
    discount = Discount(percent=30, effective_start=date(2026, 3, 13))
    config = config.model_copy(update={"prices": Prices(discounts=[discount])})
    assert (restated(), cost()) == ([3], 10 * 55 + 20 * 17 + 14 * 24)
