"""The generator of sample fleets is deterministic and produces the fixture of `gpucost demo`."""

from __future__ import annotations

import duckdb
import pytest

from gpucost.demo.fixture import FOLDER, TABLES
from tests.sample.fixture import tables


@pytest.mark.slow
@pytest.mark.ci
def test_fixture_equals_generated_sample() -> None:
    """`python -m tests.sample` regenerates the fixture."""
    assert sum((FOLDER / f"{name}.parquet").stat().st_size for name in TABLES) < 1_500_000
    with duckdb.connect() as con:
        for name, made in tables().items():
            con.register("made", made)
            checked_in = con.read_parquet(str(FOLDER / f"{name}.parquet"))
            assert checked_in.columns == made.column_names
            assert digests(checked_in) == digests(con.table("made")), name


def digests(rows: duckdb.DuckDBPyRelation) -> list[tuple[int]]:
    return rows.query("rows", "SELECT hash(rows) FROM rows ORDER BY ALL").fetchall()
