"""What a change of prices restates: the days it changes, exactly, and no other."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Discount, Prices
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from tests.replay.cases.words import HEADER, fleet, node
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

DAY = 24 * MS_PER_HOUR


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with store.read() as con:
        return con.execute(sql).fetchall()


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
            loaded(con)

    def loaded(con: Any, kind: str = "spot") -> None:
        con.execute(
            "INSERT INTO loads SELECT max(load_id) + 1, 9, $1, 'aws us-west-2', $2, $3, 1, 0, now()::TIMESTAMP FROM loads",
            [kind, first, first + 4 * DAY],
        )

    def days() -> dict[int, int]:
        pipeline.attribute(config, store)
        fingerprints = rows(store, "SELECT from_ms, fingerprint FROM attributed_days")
        return {(start - first) // DAY: fingerprint for start, fingerprint in fingerprints}

    put(-5, 10)
    before = days()
    assert sorted(before) == [0, 1, 2, 3]
    put(55, 20)
    after = days()
    assert [day for day in sorted(after) if after[day] != before[day]] == [2, 3]
    cost = "SELECT sum(node_cost) FROM node_hourly JOIN nodes USING (node_id) WHERE capacity_type = 'spot'"
    assert rows(store, cost) == [(10 * 55 + 20 * 41,)]
    with store.write() as con:
        loaded(con, "prices")
    assert days() == after
    config = config.model_copy(
        update={"prices": Prices(discounts=[Discount(percent=30, effective_start=date(2026, 3, 13))])}
    )
    last = days()
    assert [day for day in sorted(last) if last[day] != after[day]] == [3]
    assert rows(store, cost) == [(10 * 55 + 20 * 17 + 14 * 24,)]
