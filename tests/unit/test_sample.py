"""The generator of sample fleets: it always makes the same, and what it makes is the fixture of `gpucost demo`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from gpucost.demo.fixture import FOLDER, TABLES
from tests.sample import bill
from tests.sample.build import last_months
from tests.sample.fixture import tables
from tests.sample.fleet import months, plan

BOTH = last_months(datetime(2026, 11, 21, tzinfo=UTC))
BILLED, ESTIMATED = months(BOTH)


@pytest.mark.ci
def test_a_period_always_gives_the_same_fleet_and_bill_with_what_a_finops_engineer_looks_for(
    tmp_path: Path,
) -> None:
    assert plan(BOTH) == plan(BOTH)
    with duckdb.connect() as con:
        first, second = (
            con.read_parquet(str(bill.write(plan(BOTH), BILLED, _folder(tmp_path, name)))) for name in "ab"
        )
        assert first.fetchall() == second.fetchall()
    fleet = plan(BOTH)
    pools = {node.pool for node in fleet.nodes}
    assert len({pool.gpu_model for pool in pools}) >= 4
    assert {pool.capacity_type for pool in pools} == {"on_demand", "reserved", "spot"}
    assert any(pool.mig for pool in pools)
    assert any(pool.replicas > 1 for pool in pools)
    assert {pod.profile for pod in fleet.pods} >= {
        "notebook",
        "forgotten",
        "serving",
        "sparse",
        "training",
        "narrow",
        "hung",
    }
    assert {pod.phase for pod in fleet.pods} == {"Running", "Succeeded", "Failed"}


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@pytest.mark.slow
@pytest.mark.ci
def test_the_fixture_is_what_the_generator_makes() -> None:
    """`python -m tests.sample` writes it anew."""
    assert sum((FOLDER / f"{name}.parquet").stat().st_size for name in TABLES) < 1_500_000
    with duckdb.connect() as con:
        for name, made in tables().items():
            con.register("made", made)
            checked_in = con.read_parquet(str(FOLDER / f"{name}.parquet"))
            assert checked_in.columns == made.column_names
            assert digests(checked_in) == digests(con.table("made")), name


def digests(rows: duckdb.DuckDBPyRelation) -> list[tuple[int]]:
    return rows.query("rows", "SELECT hash(rows) FROM rows ORDER BY ALL").fetchall()
