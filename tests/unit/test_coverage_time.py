"""What bills and later settings change about time that was not collected; the figures are fleets: tests/fleets/coverage.py."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config
from gpucost.engine import run_stage
from gpucost.store.connection import Store
from tests.fleets.coverage import cur, day, own
from tests.replay.cases.words import BOOK, HEADER, at
from tests.replay.fleet import Fleet
from tests.replay.load import load, write_config
from tests.replay.result import unpaid
from tests.replay.scrape import scrape
from tests.unit.command import call
from tests.unit.fake_server import Fake, Question, Reply, fake, fakes

__all__ = ["fake", "fakes"]  # fixtures


def stored(folder: Path, described: Fleet) -> tuple[Config, Store]:
    (folder / "prices.csv").write_text("\n".join([HEADER, *BOOK]) + "\n")
    config = write_config(described, folder, folder / "prices.csv")
    return config, load(described, scrape(described, lean=True), config)


@pytest.mark.ci
def test_days_that_a_corrected_bill_no_longer_covers_cost_nothing(tmp_path: Path) -> None:
    described = own(day((10, 48), scrape=300))
    described["end"] = described["nodes"][0]["to"] = at(48)
    config, store = stored(tmp_path, described)
    for hours, bill in ((48, cur(described)), (20, cur(described, lambda one: one.start < at(20)))):
        (tmp_path / "cur.csv").write_text(bill)
        assert not collect_bills(store, [LocalTree(tmp_path / "cur.csv")], "aws", force=True).errors
        pipeline.attribute(config, store)
        assert not unpaid(store)
        ((cost,),) = store.query(
            "SELECT sum(cost + unallocated_cost + not_collected_cost)::DOUBLE FROM cost_hourly"
        )[1]
        assert cost == pytest.approx(21.96 * hours)
    for table in ("attributed_days", "node_runs", "cost_daily", "node_daily"):
        ((last,),) = store.query(f"SELECT max(from_ms) FROM {table}")[1]  # noqa: S608
        assert last < at(24) * 1000, table


@pytest.mark.parametrize(
    ("is_scale_set", "lives", "billed_hours"),
    [
        # one of two machines of a scale set ends when it is seen last
        (True, ((0, 4.95, 15), (0, 24, 24)), 28.95),
        # a machine is registered again while nothing is collected
        (False, ((0, 4.95, 10), (10, 24, 24)), 20.0),
        (False, ((0, 4.95, 15), (0, 24, 24)), 200.0),
    ],
)
@pytest.mark.parametrize("hours_at_one_price", [1, 7, 24])
def test_nodes_that_share_a_bill_cost_no_more_than_it(
    is_scale_set: bool,
    lives: tuple[tuple[int, float, int], ...],
    billed_hours: float,
    hours_at_one_price: int,
) -> None:
    hour = 3_600_000
    con = duckdb.connect()
    con.execute(
        """CREATE TABLE nodes (node_id UBIGINT, cluster VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT, gpu_count DOUBLE,
            machine_gpus DOUBLE);
        CREATE TABLE billed_nodes (instance_key VARCHAR, node_id UBIGINT, is_scale_set BOOLEAN);
        CREATE TABLE billed_hours (instance_key VARCHAR, from_ms BIGINT, to_ms BIGINT, instance_hours DOUBLE);
        CREATE TABLE node_prices (node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, price_per_hour DOUBLE, price_source VARCHAR,
            price_as_of DATE);
        CREATE TABLE collected (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT);
        CREATE TABLE coverage_gaps (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT, kind VARCHAR)"""
    )
    con.execute("INSERT INTO billed_hours VALUES ('m', 0, $1, $2)", [24 * hour, billed_hours])
    con.execute("INSERT INTO collected VALUES ('c', 0, $1), ('c', $2, $3)", [5 * hour, 15 * hour, 24 * hour])
    con.execute("INSERT INTO coverage_gaps VALUES ('c', $1, $2, 'not_collected')", [5 * hour, 15 * hour])
    for node_id, (begins, ends, priced_until) in enumerate(lives):
        con.execute(
            "INSERT INTO nodes VALUES ($1, 'c', $2, $3, 1, NULL)",
            [node_id, int(begins * hour), int(ends * hour)],
        )
        con.execute("INSERT INTO billed_nodes VALUES ('m', $1, $2)", [node_id, is_scale_set])
        for start in range(begins, priced_until, hours_at_one_price):
            end = min(start + hours_at_one_price, priced_until)
            con.execute(
                "INSERT INTO node_prices VALUES ($1, $2, $3, $4, 'bill', NULL)",
                [node_id, start * hour, end * hour, start],
            )
    run_stage(con, "gpucost.attribute.days", "15_unseen_time")
    parts = con.execute(
        "SELECT node_id, from_ms, to_ms, price_per_hour, up_ratio FROM unseen_time ORDER BY ALL"
    ).fetchall()
    unseen = sum((end - start) * ratio for _, start, end, _, ratio in parts) / hour
    seen = sum(min(ends, 5) - min(begins, 5) + max(ends, 15) - max(begins, 15) for begins, ends, _ in lives)
    in_gap = sum(min(until, 15) - max(begins, 5) for begins, _, until in lives)
    assert unseen == pytest.approx(min(billed_hours - seen, in_gap))
    assert {ratio for *_, ratio in parts} == {parts[0][-1]}
    for node_id, (begins, _, until) in enumerate(lives):
        # each of its hours once, at the price that began last
        pieces = [
            (start / hour, end / hour, price) for node, start, end, price, _ in parts if node == node_id
        ]
        at_hour = {int(start) + i: price for start, end, price in pieces for i in range(int(end - start))}
        expected = range(max(begins, 5), min(until, 15))
        assert at_hour == {
            h: begins + (h - begins) // hours_at_one_price * hours_at_one_price for h in expected
        }
        assert sum(end - start for start, end, _ in pieces) == len(expected)


@pytest.mark.slow
def test_a_collect_that_brings_nothing_erases_no_warning(fake: Fake, tmp_path: Path) -> None:
    def nothing(question: Question) -> Reply:
        rows: dict[str, object] = {"resultType": "matrix" if question.is_range else "vector", "result": []}
        return Reply(200, {"status": "success", "data": [] if question.query.startswith("label/") else rows})

    fake.trick = nothing
    path = stored(tmp_path, day((5, 15)))[0].path
    assert path is not None
    path.write_text(path.read_text().replace("http://127.0.0.1:9", fake.url))
    words = ["chargeback", "--month", "2026-03", "--out", str(tmp_path / "out"), "--config", str(path)]
    told = []
    for more in ([], ["--collect"]):
        call(*words, *more, code=4)
        index = json.loads((tmp_path / "out" / "2026-03" / "index.json").read_text())
        told.append([index["state"], index["missing"], index["coverage"]["not_collected"], index["totals"]])
    assert told[0] == told[1] and "10.0 h of main were not collected" in told[0][1][0]
