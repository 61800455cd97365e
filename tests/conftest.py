"""Fixtures shared by several kinds of tests."""

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

# The time of an example depends on the machine's load, not on correct code.
# The same examples each time: CI and mutants are deterministic. `make nightly` draws others.
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
# jsonschema would build a grammar of IRIs, which takes a second; the schemas here have none.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--runs", type=int, default=40, help="number of random runs in tests/faults")
    parser.addoption("--page", help="file for the measurements of benches")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with a real server run in CI unless they are nightly; `make test` does not run CI's tests."""
    for item in items:
        if item.get_closest_marker("services") and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.ci)
        if item.get_closest_marker("ci"):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Exclude imported and collected objects from garbage collection: they stay, and tests leave few cycles."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI=true, fail skipped tests of ../shared if that folder exists; an expected failure is not a skip."""
    report = yield
    is_skipped = report.skipped and not hasattr(report, "wasxfail") and item.get_closest_marker("shared")
    if is_skipped and SHARED.is_dir() and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not be skipped, since {SHARED} exists: {report.longrepr}"
    return report


@pytest.fixture(scope="session", autouse=True)
def quick_stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make stores quick: one DuckDB thread, new stores as copies of a migrated one, and read stores kept open.

    pytest has a worker per core. Benches use stores as in the product; tests of migrations use `own_migrations`, tests of
    opening stores `opened_anew`.
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
            # another process created it meanwhile, or DuckDB reports the fault of the path
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
    """Open stores as in the product."""
    let_go()
    monkeypatch.setattr(Store, "_open", OWN_OPEN)


@pytest.fixture(scope="session", autouse=True)
def own_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Record checked stores in a folder of this run, and assemble the commands for CliRunner once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(typer.testing, "_get_command", cache(typer.testing._get_command))
        yield


@pytest.fixture
def own_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Create new stores as in the product."""
    monkeypatch.setattr(Store, "_connect", CONNECT)


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the output width of a pipe, independent of the terminal; tests of widths set COLUMNS."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Isolate commands: they only see the test's files, and do not attribute."""
    from tests.golden.report_fleet import alone  # slow to import

    alone(tmp_path, monkeypatch)
    return tmp_path
