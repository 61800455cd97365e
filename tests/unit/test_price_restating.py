"""What a change of prices restates: the days it changes, exactly, and no other."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost import pipeline
from gpucost.config.model import Config, Discount, Prices
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store
from tests.replay import cases
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape

CASES = Path(cases.__file__).parent


@pytest.fixture
def fleet(tmp_path: Path) -> tuple[dict[str, Any], Config, Store]:
    """Nodes over two days, whole GPUs, whole hours."""
    case = json.loads((CASES / "whole-gpus" / "fleet.json").read_text())
    config = write_config(case, tmp_path, CASES / "whole-gpus" / "prices.csv")
    return case, config, load(case, scrape(case), config)


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    with store.read() as con:
        return con.execute(sql).fetchall()


COSTS = "SELECT node_id, allocation_id, from_ms, cost, idle_cost, unallocated_cost FROM cost_hourly ORDER BY ALL"


def test_a_discount_is_off_every_cost_of_gpus(fleet: tuple[dict[str, Any], Config, Store]) -> None:
    case, config, store = fleet
    pipeline.attribute(config, store)
    before = rows(store, COSTS)
    assert sum(row[3] for row in before) > 0
    begins = datetime.fromtimestamp(case["start"], UTC).date()
    for percent, begun, rounding in (("30", None, Decimal(0)), ("99.99", begins, Decimal("0.00000001"))):
        discounts = [Discount(percent=Decimal(percent), effective_start=begun)]
        less = Prices(book=config.prices.book, discounts=discounts)
        pipeline.attribute(config.model_copy(update={"prices": less}), store)
        kept, after = 1 - Decimal(percent) / 100, rows(store, COSTS)
        assert [row[:3] for row in after] == [row[:3] for row in before]
        for full, reduced in zip(before, after, strict=True):
            assert all(abs(part - value * kept) <= rounding for value, part in zip(full[3:], reduced[3:], strict=True))


DAY = 24 * MS_PER_HOUR


def test_only_days_whose_prices_changed_are_attributed_again(tmp_path: Path) -> None:
    case = json.loads((CASES / "whole-gpus" / "fleet.json").read_text())
    case |= {"end": case["start"] + 4 * 86400, "scrape": 1800}
    for node in case["nodes"]:
        node["to"] = case["end"]
    written = write_config(case, tmp_path, CASES / "whole-gpus" / "prices.csv")
    config = written.model_copy(update={"prices": Prices()})
    store = load(case, scrape(case), config)
    first = case["start"] * 1000

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
