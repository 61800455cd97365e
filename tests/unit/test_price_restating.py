"""What a change of prices restates: the days it changes, exactly, and no other."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.config.model import Discount, Prices
from gpucost.periods import MS_PER_HOUR
from tests.replay.cases.words import HEADER, fleet, node
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

SPOT = """INSERT INTO spot_prices
VALUES ('aws', 'us-west-2', 'us-west-2b', 'p4de.24xlarge', 'Linux/UNIX', '', $1, NULL, $2, 'USD', 'aws us-west-2')"""
LOAD = """INSERT INTO loads
SELECT max(load_id) + 1, 9, $1, 'aws us-west-2', $2, $2 + 345600000, 1, 0, now()::TIMESTAMP FROM loads"""
DAYS = "SELECT (from_ms - $1) // 86400000, fingerprint FROM attributed_days"
COST = "SELECT sum(node_cost) FROM node_hourly JOIN nodes USING (node_id) WHERE capacity_type = 'spot'"


@pytest.mark.ci
def test_only_days_whose_prices_changed_are_attributed_again(tmp_path: Path) -> None:
    described = fleet(96, [node("n", "p4de.24xlarge", 0, 96, "spot")], [], {}, scrape=1800)
    (tmp_path / "prices.csv").write_text(f"{HEADER}\n")
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    store = load(described, scrape(described, lean=True), config)
    first = described["start"] * 1000
    less = Prices(discounts=[Discount(percent=Decimal(30), effective_start=date(2026, 3, 13))])
    before: set[tuple[int, int]] = set()
    # spot prices of two hours, a load that changes none, and a discount of the last day
    for kind, prices, spot, changed, cost in (
        ("spot", Prices(), (-5, 10), {0, 1, 2, 3}, 10 * 96),
        ("spot", Prices(), (55, 20), {2, 3}, 10 * 55 + 20 * 41),
        ("prices", Prices(), None, set(), 10 * 55 + 20 * 41),
        ("prices", less, None, {3}, 10 * 55 + 20 * 17 + 14 * 24),
    ):
        with store.write() as con:
            con.execute(LOAD, [kind, first])
            if spot:
                con.execute(SPOT, [first + spot[0] * MS_PER_HOUR, spot[1]])
        pipeline.attribute(config.model_copy(update={"prices": prices}), store)
        with store.read() as con:
            after = {*con.execute(DAYS, [first]).fetchall()}
        assert ({day for day, _ in after - before}, store.query(COST)[1]) == (changed, [(cost,)])
        before = after
