"""Fixtures shared by tests of prices, bills and what-ifs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from gpucost.config.model import Config
from gpucost.whatif.gpu_specs import GpuSpecs, load_facts
from tests.of_all_workers import copied, shared
from tests.unit.bills import Bills
from tests.unit.fake_server import fake, fakes
from tests.unit.stage_tables import Tables

if TYPE_CHECKING:
    from gpucost.store.connection import Store
    from tests.lakes import GrownLake
    from tests.unit.bundles import Made
    from tests.unit.test_price_bill_fleets import Billed


__all__ = ["fake", "fakes"]  # fixtures


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """The attributed store of `gpucost demo` in November 2026; read only."""
    from gpucost import pipeline  # slow to import
    from gpucost.config.load import load_config
    from gpucost.demo.build import build, last_months
    from gpucost.store.connection import Store

    def make(folder: Path) -> None:
        config = build(folder, *last_months(datetime(2026, 11, 21, tzinfo=UTC)), lambda _: None)
        pipeline.attribute(config, Store(config.store))

    folder = copied(tmp_path_factory, "demo", make)
    return load_config(folder / "gpucost.toml", environ={}, cwd=folder)


@pytest.fixture(scope="module")
def module_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for one test module."""
    return tmp_path_factory.mktemp("module")


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, also the home directory, without a configuration or a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


@pytest.fixture(scope="session")
def facts() -> GpuSpecs:
    """The catalog's facts about GPU models."""
    return load_facts()


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    return Bills(tmp_path, is_checked=False)


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    """An empty store."""
    from tests.unit.price_nodes import empty_store  # slow to import

    with empty_store() as connection:
        yield connection


@pytest.fixture
def tables(con: duckdb.DuckDBPyConnection) -> Tables:
    """The tables of an empty store, to run one stage."""
    con.execute("SET TimeZone = 'UTC'")
    return Tables(con)


@pytest.fixture
def inventory(tables: Tables) -> Tables:
    """The empty outputs of inventory; GPUs, cores and memory are charged by request."""
    tables.know(accelerators="gpu", other_resources="cpu|memory", cost_basis="sku")
    tables.con.execute("CREATE TEMP MACRO model_spelling(name) AS lower(name)")
    tables.run("inventory/03_samples")
    tables.run("inventory/05_macros")
    tables.run("inventory/interface")
    return tables


@pytest.fixture(scope="session")
def billed_fleet(tmp_path_factory: pytest.TempPathFactory) -> Billed:
    """Three machines on one bill; read only."""
    from tests.unit.billed_fleets import whole  # slow to import

    return shared(tmp_path_factory, "billed", whole)


@pytest.fixture(scope="session")
def fleet_as_billed(billed_fleet: Billed, tmp_path_factory: pytest.TempPathFactory) -> Billed:
    """The same three machines, with commitments shared as billed."""
    from tests.unit.billed_fleets import copied  # slow to import

    return shared(tmp_path_factory, "as-billed", lambda folder: copied(billed_fleet, folder, "as_billed"))


@pytest.fixture(scope="session")
def partly_billed(tmp_path_factory: pytest.TempPathFactory) -> Billed:
    """Three machines, one of them missing from the bill."""
    from tests.unit.billed_fleets import partly  # slow to import

    return shared(tmp_path_factory, "partly", partly)


@pytest.fixture(scope="session")
def october(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of October with nodes on two days; read only."""
    from tests.golden.report_fleet import OCTOBER, OCTOBER_END, sample  # slow to import

    def make(folder: Path) -> None:
        fleet = sample(hours=48)
        fleet.rows["collected"] = [("prod", OCTOBER, OCTOBER_END)]
        fleet.write(folder / "store.duckdb")

    return copied(tmp_path_factory, "october", make) / "store.duckdb"


@pytest.fixture(scope="session")
def sealed(october: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The bundle of October."""
    from tests.unit.bundles import make  # slow to import

    return shared(tmp_path_factory, "sealed", lambda folder: make(october, folder))


@pytest.fixture(scope="session", name="shared")
def shared_costs(sealed: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Another bundle of October, with unallocated costs shared."""
    from tests.unit.bundles import make  # slow to import

    options = "--share-unallocated proportional"
    return shared(tmp_path_factory, "shared", lambda folder: make(sealed.store, folder, options))


@pytest.fixture(scope="session")
def restated(sealed: Made, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The bundle after a final bill halved the cost and the configuration changed."""
    from tests.unit.bundles import restate  # slow to import

    return shared(tmp_path_factory, "restated", lambda folder: restate(sealed, folder))


@pytest.fixture
def bundle(sealed: Made, tmp_path: Path) -> Made:
    """A copy of the bundle of October."""
    return sealed.copy(tmp_path)


@pytest.fixture(scope="module")
def remembered() -> Iterator[dict[Any, Any]]:
    """Make bundles once; clear this dict to make them again."""
    from tests.unit.bundles import remembering  # slow to import

    with remembering() as known:
        yield known


@pytest.fixture(scope="session")
def loads(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The samples of the four-day fleet, one load per day."""
    from tests.unit.four_days import daily_loads  # slow to import

    return shared(tmp_path_factory, "loads", lambda _: daily_loads())


@pytest.fixture(scope="session")
def four_days(tmp_path_factory: pytest.TempPathFactory, loads: list[Any]) -> Path:
    """The attributed store file of the four-day fleet; read only."""
    from tests.unit.four_days import FIRST, made  # slow to import

    return copied(tmp_path_factory, "four-days", lambda folder: made(folder, FIRST, loads)) / "gpucost.duckdb"


@pytest.fixture
def whole(tmp_path: Path, four_days: Path) -> tuple[Config, Store]:
    """A copy of the four-day store, and its configuration."""
    from tests.unit.four_days import copied  # slow to import

    return copied(four_days, tmp_path / "a")


@pytest.fixture(scope="session")
def grown_lake(tmp_path_factory: pytest.TempPathFactory) -> GrownLake:
    """A lake after two exports and attributions of the four-day store: three days, then all four; read
    only."""
    from tests.lakes import grow  # slow to import

    return grow(tmp_path_factory.mktemp("grown"))
