"""What bills and later settings change about time that was not collected; the figures are fleets: tests/fleets/coverage.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from tests.fleets.coverage import cur, day, own
from tests.replay.cases.words import BOOK, HEADER, at
from tests.replay.load import load, write_config
from tests.replay.result import unpaid
from tests.replay.scrape import scrape
from tests.unit.stage_tables import Tables


@pytest.mark.ci
def test_days_that_a_corrected_bill_no_longer_covers_cost_nothing(tmp_path: Path) -> None:
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


H = 3_600_000
#: Nodes that share a machine's bill: from when to when each was up and until when it has prices, and the hours billed. Its time
#: between the 5th and the 15th hour, in which nothing was collected: node, hours, price, and the part of it that is billed.
SHARED = {
    "one of two machines of a scale set ends when it is seen last": (
        "0 4.95 15, 0 24 24", 28.95, True, """
        0 5 7 0 0.500
        0 7 14 7 0.500
        0 14 15 14 0.500
        1 5 7 0 0.500
        1 7 14 7 0.500
        1 14 15 14 0.500"""),
    "a machine is registered again while nothing is collected": (
        "0 4.95 10, 10 24 24", 20.0, False, """
        0 5 7 0 0.605
        0 7 10 7 0.605
        1 10 15 10 0.605"""),
    "more is billed than there is": (
        "0 4.95 15, 0 24 24", 200.0, False, """
        0 5 7 0 1.000
        0 7 14 7 1.000
        0 14 15 14 1.000
        1 5 7 0 1.000
        1 7 14 7 1.000
        1 14 15 14 1.000"""),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_nodes_that_share_a_bill_cost_no_more_than_it(name: str, tables: Tables) -> None:
    """Prices, here 7 hours each, are named after the hour in which they begin."""
    lives, billed, is_scale_set, expected = SHARED[name]
    tables.add("collected: cluster, from_ms, to_ms", f"'c', 0, {5 * H}", f"'c', {15 * H}, {24 * H}")
    tables.add("coverage_gaps: cluster, from_ms, to_ms, kind", f"'c', {5 * H}, {15 * H}, 'not_collected'")
    tables.make("billed_hours: instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, instance_hours DOUBLE",
                f"'m', 0, {24 * H}, {billed}")  # fmt: skip
    nodes, machines, prices = [], [], []
    for node, life in enumerate(lives.split(", ")):
        begins, ends, priced = (float(hour) for hour in life.split())
        nodes.append(f"{node}, 'c', {begins * H}, {ends * H}, 1")
        machines.append(f"'m', {node}, {is_scale_set}")
        for start in range(int(begins), int(priced), 7):
            prices.append(f"{node}, {start * H}, {min(start + 7, priced) * H}, {start}, 'bill'")
    tables.add("nodes: node_id, cluster, up_from_ms, up_to_ms, gpu_count", *nodes)
    tables.make("billed_nodes: instance_key VARCHAR, node_id UBIGINT, is_scale_set BOOLEAN", *machines)
    tables.add("node_prices: node_id, from_ms, to_ms, price_per_hour, price_source", *prices)
    tables.run("attribute/days/15_unseen_time")
    parts = tables.rows(
        "SELECT node_id, from_ms, to_ms, price_per_hour, up_ratio FROM unseen_time ORDER BY ALL"
    )
    found = [
        f"{node} {start / H:g} {end / H:g} {float(price):g} {ratio:.3f}"
        for node, start, end, price, ratio in parts
    ]
    assert found == [line.strip() for line in expected.strip().splitlines()]
