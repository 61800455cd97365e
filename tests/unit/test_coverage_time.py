"""Time without samples after a corrected bill; its figures are fleets: tests/fleets/coverage_bills.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from tests.fleets.coverage import day
from tests.fleets.coverage_bills import cur, own
from tests.replay.cases.words import BOOK, HEADER, at
from tests.replay.load import load, write_config
from tests.replay.result import unpaid
from tests.replay.scrape import scrape


@pytest.mark.ci
def test_days_no_longer_covered_by_a_corrected_bill_cost_0(tmp_path: Path) -> None:
    described = own(day((10, 48), scrape=300))
    described["end"] = described["nodes"][0]["to"] = at(48)
    (tmp_path / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, tmp_path, tmp_path / "prices.csv")
    store = load(described, scrape(described, lean=True), config)
    for hours, bill in ((48, cur(described)), (20, cur(described, lambda one: one.start < at(20)))):
        (tmp_path / "cur.csv").write_text(bill)
        assert not collect_bills(store, [LocalTree(tmp_path / "cur.csv")], "aws", force=True).errors
        pipeline.attribute(config, store)
        assert not unpaid(store)
        sums = "SELECT sum(cost + unallocated_cost + not_collected_cost)::DOUBLE FROM cost_hourly"
        assert store.query(sums)[1] == [(pytest.approx(21.96 * hours),)]
    for table in ("attributed_days", "node_runs", "cost_daily", "node_daily"):
        ((last,),) = store.query(f"SELECT max(from_ms) FROM {table}")[1]  # noqa: S608
        assert last < at(24) * 1000, table
