"""Shared costs are split exactly by team, pod and time, for any costs and participants."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis.strategies import fixed_dictionaries, integers, just, lists, one_of, sampled_from, tuples

from gpucost.engine import run_stage
from tests.property.fleets import RARELY_SLOW

NANO = Decimal("0.000000001")
# sums of a report, from a nanodollar to beyond the exact range of a double
AMOUNTS = integers(-(10**18), 10**19).filter(bool).map(lambda nanos: nanos * NANO)
COSTS = one_of(just(Decimal(0)), integers(1, 10**17).map(lambda nanos: nanos * NANO))
CLAIMS = lists(
    fixed_dictionaries(
        {
            "team": sampled_from(["a", "b", "c", None]),
            "allocation_id": integers(1, 4),
            "time_bucket": integers(0, 3),
            "cost": COSTS,
            "gpu_ms": integers(0, 10**9),
        }
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda claim: (claim["team"], claim["allocation_id"], claim["time_bucket"]),
)
POOLS = lists(
    tuples(AMOUNTS, sampled_from(["proportional", "even", "owner"]), CLAIMS), min_size=1, max_size=3
)


@pytest.fixture(scope="module")
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@settings(RARELY_SLOW, max_examples=20)
@given(pools=POOLS)
def test_every_split_adds_up(
    con: duckdb.DuckDBPyConnection, pools: list[tuple[Decimal, str, list[dict[str, Any]]]]
) -> None:
    con.execute(
        "CREATE OR REPLACE TEMP TABLE report_claims (pool BIGINT, split VARCHAR, amount DECIMAL(38, 9), team VARCHAR, "
        "node_id UBIGINT, allocation_id UBIGINT, time_bucket BIGINT, cost DECIMAL(38, 9), gpu_ms DECIMAL(38, 9))"
    )
    claims = [
        {"pool": pool, "split": split, "amount": amount, "node_id": 1, **claim}
        for pool, (amount, split, claimed) in enumerate(pools)
        for claim in claimed
    ]
    for claim in claims:
        columns, marks = ", ".join(claim), ", ".join(f"${name}" for name in claim)
        con.execute(f"INSERT INTO report_claims ({columns}) VALUES ({marks})", claim)  # noqa: S608
    run_stage(con, "gpucost.questions.report.sharing", "60_pool_shares")
    rows = con.execute("SELECT pool, team, allocation_id, time_bucket, amount FROM pool_shares").fetchall()
    assert len(rows) == len(claims)
    for pool, (amount, split, claimed) in enumerate(pools):
        mine = [row for row in rows if row[0] == pool]
        assert sum(row[-1] for row in mine) == amount
        assert all(row[-1] * amount >= 0 for row in mine)
        by_team = {team: sum(row[-1] for row in mine if row[1] == team) for team in {row[1] for row in mine}}
        _check_shares(by_team, amount, split, claimed)


def _check_shares(
    by_team: dict[str | None, Decimal], amount: Decimal, split: str, claimed: list[dict[str, Any]]
) -> None:
    """Check each team's share, within the precision of doubles and the last decimal."""
    costs = {team: sum((c["cost"] for c in claimed if c["team"] == team), Decimal(0)) for team in by_team}
    if split != "even" and not sum(costs.values()):
        costs = {team: Decimal(sum(c["gpu_ms"] for c in claimed if c["team"] == team)) for team in by_team}
    if split == "even" or not sum(costs.values()):
        if split != "even":
            return
        costs = dict.fromkeys(by_team, Decimal(1))
    slack = len(by_team) * (NANO + abs(amount) * Decimal("1e-14"))
    for team, part in by_team.items():
        assert abs(part - amount * costs[team] / sum(costs.values())) <= slack
