"""Fixtures that several kinds of tests share."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
import typer.testing
from hypothesis import HealthCheck, settings

from gpucost.store import schema
from gpucost.store.connection import Store
from tests.kept_open import OWN_OPEN, kept_open, let_go
from tests.of_all_workers import made
from tests.shared import SHARED

# How long an example takes says how busy the machine is, not whether the code is right.
# The same examples each time: CI and mutants are not of chance. `make nightly` draws others.
settings.register_profile(
    "any_machine",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("RANDOM_EXAMPLES"),
    database=None,
)
settings.load_profile("any_machine")

CONNECT = Store._connect
pytest.register_assert_rewrite("tests.unit.stage_tables", "tests.unit.bills")
# jsonschema would build a grammar of IRIs, which takes a second; no schema here has any.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=40, help="how many random runs tests/faults draws")
    parser.addoption("--page", help="where benches write what they measured")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a real server run in CI unless they are nightly; what CI runs is not part of `make test`."""
    for item in items:
        if item.get_closest_marker("services") and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.ci)
        if item.get_closest_marker("ci"):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What was imported and collected stays: no collection of garbage needs to look at it. Tests leave few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI=true a skipped test of what lies in ../shared is a failure, if that lies there; an expected failure is none."""
    report = yield
    is_skipped = report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("shared")
    if is_skipped and SHARED.is_dir() and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped where {SHARED} lies there: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def quick_stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """DuckDB works with one thread, since pytest has a worker per core, a new store begins as a copy of one that was migrated,
    and stores that were read stay open for the next reader. Who measures speed has stores as the product has them; tests of
    the migrations use `own_migrations`, those of how stores are opened `opened_anew`.
    """
    if request.config.option.markexpr == "bench":
        yield
        return
    connect = duckdb.connect

    def make_empty(folder: Path) -> None:
        with Store(folder / "store.duckdb").write():
            pass

    def connect_alone(
        *args: Any, config: dict[str, Any] | None = None, **more: Any
    ) -> duckdb.DuckDBPyConnection:
        return connect(*args, config={"threads": 1, **(config or {})}, **more)

    def open_copy(
        store: Store, folders: tuple[Path, ...] | None, *, read_only: bool
    ) -> duckdb.DuckDBPyConnection:
        if not (read_only or store.exists):
            new = shutil.copyfile(empty, empty.with_name(f"{os.getpid()}-{threading.get_ident()}"))
            # somebody else made it meanwhile, or DuckDB says what is wrong with the place
            with suppress(OSError):
                os.link(new, store.path)
                new.unlink()
                schema._CHECKED.add(schema._state(store.path))
            new.unlink(missing_ok=True)
        return CONNECT(store, folders, read_only=read_only)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duckdb, "connect", connect_alone)
        empty = made(tmp_path_factory, "empty", make_empty) / "store.duckdb"
        patch.setattr(Store, "_connect", open_copy)
        with kept_open():
            yield


@pytest.fixture
def opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are opened as the product opens them."""
    let_go()
    monkeypatch.setattr(Store, "_open", OWN_OPEN)


@pytest.fixture(scope="session", autouse=True)
def own_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Which stores were checked is noted in a folder of this run, and CliRunner puts all commands together once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


@pytest.fixture
def own_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """New stores are made as the product makes them."""
    monkeypatch.setattr(Store, "_connect", CONNECT)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output is as wide as it is in a pipe, whatever terminal the tests are started from; tests of widths set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands find nothing but what the test gives them, and attribute nothing."""
    from tests.golden.report_fleet import alone  # slow to import

    alone(tmp_path, monkeypatch)
    return tmp_path
