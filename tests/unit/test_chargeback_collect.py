"""What `gpucost chargeback --collect` asks clouds for: prices that neither a bill nor the price book tells, and no others."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from shutil import copyfile
from typing import Any

import duckdb
import pytest

from gpucost import price
from gpucost.clouds import NoCredentials
from gpucost.collect.prices import PriceResult
from gpucost.collect.spot import SpotResult
from gpucost.errors import SourceError
from gpucost.periods import Period, to_ms
from gpucost.store import runs
from gpucost.store.connection import Store
from tests.text_tables import text_rows
from tests.unit.command import run

MONTH = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
NOW = datetime(2026, 11, 3, 12, tzinfo=UTC)


@pytest.fixture
def store(october: Path, tmp_path: Path, in_an_empty_folder: Path) -> Path:
    (tmp_path / "gpucost.toml").write_text("prometheus = []\n")
    return Path(copyfile(october, tmp_path / "store.duckdb"))


def priced(store: Path, spot: tuple[str, str | None], on_demand: tuple[str, str | None]) -> None:
    """Price all nodes by these sources, as of these days."""
    with duckdb.connect(str(store)) as con:
        con.execute("DELETE FROM node_prices")
        con.execute(
            "INSERT INTO node_prices BY NAME SELECT node_id, up_from_ms AS from_ms, up_to_ms AS to_ms, 1 AS price_per_hour,"
            " CASE capacity_type WHEN 'spot' THEN $1 ELSE $3 END AS price_source,"
            " CASE capacity_type WHEN 'spot' THEN $2 ELSE $4 END::DATE AS price_as_of FROM nodes"
            " WHERE CASE capacity_type WHEN 'spot' THEN $1 ELSE $3 END <> 'none'",
            [*spot, *on_demand],
        )


def wanting(store: Path) -> list[tuple[str, str]]:
    with Store(store).read() as con:
        return price.missing_price_sources(con, MONTH, NOW, 90)


# what prices spot nodes and others, as of which day, and what is asked for
WANTING = """
price_book   |            | bill       |            |
spot_history |            | price_book |            | spot
bill         |            | catalog    | 2026-10-01 |
bill         |            | catalog    | 2026-07-01 | prices
none         |            | price_book |            | prices spot"""


@pytest.mark.parametrize(("spot", "since", "on_demand", "day", "asked"), text_rows(WANTING))
def test_prices_are_wanting_where_nothing_better_is_there(
    store: Path, spot: str, since: str, on_demand: str, day: str, asked: str
) -> None:
    priced(store, (spot, since or None), (on_demand, day or None))
    assert wanting(store) == [(kind, "aws") for kind in asked.split()]


def test_list_prices_are_asked_for_once_a_day(store: Path) -> None:
    priced(store, ("none", None), ("none", None))
    assert ("prices", "aws") in wanting(store)
    with Store(store).write() as con:
        runs.log_run(con, "prices", "aws", (to_ms(NOW) - 3_600_000, to_ms(NOW)), rows=1)
    assert wanting(store) == [("spot", "aws")]


def test_a_cloud_that_gives_no_prices_has_its_line_and_the_bundle_is_written(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    priced(store, ("none", None), ("none", None))
    asked: list[tuple[str, list[str]]] = []

    def spot(*arguments: Any) -> list[SpotResult]:
        asked.append(("spot", list(arguments[4])))
        skipped = NoCredentials("aws: no credentials found", "aws configure")
        return [SpotResult("aws us-east-1", skipped=skipped)]

    def prices(*arguments: Any) -> list[PriceResult]:
        asked.append(("prices", list(arguments[2])))
        error = SourceError("aws: cannot be reached", "check the network")
        return [PriceResult("aws", date(2026, 11, 3), error=error)]

    monkeypatch.setattr("gpucost.collect.spot.collect_spot", spot)
    monkeypatch.setattr("gpucost.collect.prices.collect_prices", prices)
    out = store.parent / "out"
    result = run(f"chargeback --month 2026-10 --collect --out {out} --store {store}", 1)
    assert asked == [("spot", ["aws"]), ("prices", ["aws"])]
    assert result.stderr.count("aws: no credentials found; skipped (aws configure)\n") == 1
    assert result.stderr.count("error: aws: cannot be reached\nfix: check the network\n") == 1
    assert (out / "2026-10" / "index.json").exists()
