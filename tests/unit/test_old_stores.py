"""Stores of earlier versions, one for each schema since 8, give the same figures as a store made today."""

from __future__ import annotations

import json
import lzma
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.model import Config
from gpucost.store import schema, upkeep
from gpucost.store.connection import Store
from gpucost.store.schema import latest_version
from tests.replay.load import load, write_config
from tests.replay.scrape import scrape
from tests.unit.command import call

#: Each contains the fleet of the case mig-mixed and the bill cur.csv, attributed by the version that wrote it.
STORES = Path(__file__).parents[1] / "stores"
CASE = Path(__file__).parents[1] / "replay" / "cases" / "mig-mixed"
OLD = sorted(STORES.glob("schema-*.duckdb.xz"))
TABLES = ("cost_hourly", "node_hourly", "cost_daily", "node_daily", "charges", "effective_rows", "warnings")
#: Tables with fewer details in earlier versions until the bill is loaded again.
RELOADED = ("charges", "effective_rows", "warnings")

pytestmark = pytest.mark.usefixtures("own_migrations")


Figures = dict[str, list[tuple[Any, ...]]]


def figures(config: Config, store: Store) -> Figures:
    pipeline.attribute(config, store)
    left_out = {"source_file", "bill_id", "batch_id", "detail_id", "source", "load_id"}
    found = {}
    for table in TABLES:
        columns, rows = store.query(f"FROM {table}")
        kept = [place for place, name in enumerate(columns) if name not in left_out]
        # sums of milliseconds depend on their order
        values = [[round(v, 3) if isinstance(v, float) else v for v in row] for row in rows]
        found[table] = sorted((tuple(row[place] for place in kept) for row in values), key=repr)
    return found


@pytest.fixture(scope="module")
def today(module_path: Path) -> tuple[Config, Figures]:
    fleet = json.loads((CASE / "fleet.json").read_text())
    config = write_config(fleet, module_path, CASE / "prices.csv")
    store = load(fleet, scrape(fleet), config)
    collect_bills(store, [LocalTree(STORES / "cur.csv")], "aws")
    return config, figures(config, store)


def test_a_store_of_each_schema_exists() -> None:
    assert [int(path.name[7:9]) for path in OLD] == [*range(8, latest_version())]


def unpacked(old: Path, folder: Path) -> Store:
    store = Store(folder / "old.duckdb")
    with lzma.open(old) as packed, store.path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return store


def without_the_bill(found: Figures) -> list[list[tuple[Any, ...]]]:
    return [found[table] for table in TABLES if table not in RELOADED]


@pytest.mark.parametrize(
    "old",
    # through all migrations, and through some
    [
        pytest.param(OLD[0], marks=pytest.mark.ci),
        *(pytest.param(old, marks=pytest.mark.slow) for old in OLD[1:]),
    ],
    ids=lambda path: path.name.partition(".")[0],
)
def test_old_store_gives_the_figures_of_a_new_store(
    old: Path, today: tuple[Config, Figures], tmp_path: Path
) -> None:
    config, expected = today
    store = unpacked(old, tmp_path)
    before = figures(config, store)
    assert without_the_bill(before) == without_the_bill(expected)
    with store.read() as con:
        assert [one for one in upkeep.check(con) if one.wrong] == []
    upkeep.rewrite(store)
    assert figures(config, store) == before
    collect_bills(store, [LocalTree(STORES / "cur.csv")], "aws")
    assert figures(config, store) == expected


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    """A store of schema 21: a sealed month of own servers and bought tokens, and a later month of gateway calls."""
    with tarfile.open(STORES / "sealed-21.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


def test_upgrade_copies_the_store_and_lists_deleted_rows(sealed: Path) -> None:
    store, before = sealed / "gpucost.duckdb", (sealed / "gpucost.duckdb").read_bytes()
    _, err = call("store", "info", "--store", str(store))
    copy = sealed / "gpucost.duckdb.schema-21"
    assert err == (
        f"upgraded {store} to schema {latest_version()}; rows deleted with their features: 6 of gateway_calls, 1 of token_prices,"
        f" 5 of progress_series of gateways; copy of the old store: {copy}\n"
    )
    with duckdb.connect(str(copy), read_only=True) as old:
        assert old.execute("SELECT count(*) FROM gateway_calls").fetchall() == [(6,)]
    assert copy.stat().st_mode == store.stat().st_mode
    assert len(before) <= copy.stat().st_size
    _, rows = Store(store).query("SELECT count(*), count(tenant) FROM progress_series")
    assert rows == [(4, 2)], "the series of own servers are kept"
    assert call("store", "info", "--store", str(store))[1] == ""


@pytest.mark.slow
def test_seal_of_a_closed_month_verifies_after_the_upgrade(sealed: Path) -> None:
    words = ("--month", "2026-03", "--out", str(sealed / "bundles"), "--config", str(sealed / "gpucost.toml"))
    out, err = call("chargeback", "verify", *words, "--format", "json")
    checks = {row["check"]: row["result"] for row in json.loads(out)}
    assert checks["files"] == checks["log"] == checks["figures"] == "ok"
    assert "2026-03 is verified: the figures agree to the last digit" in err


def test_store_without_room_for_a_copy_is_not_upgraded(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = sealed / "gpucost.duckdb"
    before = store.read_bytes()
    monkeypatch.setattr(
        "gpucost.store.connection.shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10, 5, 5)
    )
    _, err = call("store", "info", "--store", str(store), code=1)
    assert f"error: cannot copy the store {store} before its upgrade: it has {len(before):,} bytes" in err
    assert store.read_bytes() == before
    assert sorted(path.name for path in sealed.glob("gpucost.duckdb*")) == ["gpucost.duckdb"]


@pytest.mark.slow
def test_store_stays_locked_while_it_is_upgraded(sealed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, migrate, codes = sealed / "gpucost.duckdb", schema.migrate, []

    def migrate_watched(con: duckdb.DuckDBPyConnection) -> None:
        words = [sys.executable, "-c", f"import duckdb; duckdb.connect({str(store)!r})"]
        codes.append(subprocess.run(words, capture_output=True).returncode)
        migrate(con)

    monkeypatch.setattr(schema, "migrate", migrate_watched)
    Store(store).info()
    assert codes == [1], "another process opened the store"
