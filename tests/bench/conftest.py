"""The page of measurements, written to the file of --page after the last bench; stores that several benches share."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.bench.measured import Page, step

MEASURED = pytest.StashKey[Page]()
ORDER = ("test_collect", "test_attribution", "test_large", "test_bill", "test_steps")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the rows of the page: the whole job first."""
    items.sort(key=lambda item: ORDER.index(item.path.stem) if item.path.stem in ORDER else -1)


@pytest.fixture(scope="session")
def page(pytestconfig: pytest.Config) -> Iterator[Page]:
    target = pytestconfig.getoption("--page", None)
    measured = pytestconfig.stash.setdefault(MEASURED, Page(Path(target).resolve() if target else None))
    yield measured
    for row in measured.rows:
        print(
            f"\n{row.step}: {row.ours}; {row.beside}; {row.ratio}; target {row.target}: {'met' if row.met else 'MISSED'}"
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a row for a bench that ended without one: the others still run, and the page is still written."""
    report = yield
    measured = item.config.stash.get(MEASURED, None)
    error = call.excinfo.value if call.excinfo else None
    if measured is not None and report.failed and not isinstance(error, AssertionError):
        first = (str(error).splitlines() or [type(error).__name__])[0]
        measured.row(item.name, "to run", False, "did not end", why=f"{type(error).__name__}: {first[:200]}")
    return report


@dataclass(frozen=True)
class Attributed:
    """An attributed store: CPU seconds by part and statement, and peak memory."""

    path: Path
    measured: dict[str, Any]
    peak_mb: float

    @property
    def parts(self) -> str:
        """The CPU seconds by part and the slowest statements as text."""
        slowest = ", ".join(f"`{name}` {seconds:.2f}" for name, seconds in self.measured["slowest"].items())
        whole = ", ".join(f"{name} {self.measured[name]:.2f}" for name in ("inventory", "price", "attribute"))
        return f"{self.measured['all']:.2f} s in total: {whole}; slowest statements: {slowest}."


class Stores:
    """Stores of fleets by GPUs and days, each filled and attributed once per session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._attributed: dict[tuple[int, int], Attributed] = {}

    def folder_of(self, gpus: int, days: int, name: str) -> Path:
        """A new folder."""
        folder = self.folder / f"{name}-{gpus}-{days}"
        folder.mkdir()
        return folder

    def filled(self, gpus: int, days: int) -> Path:
        """A store of a fleet that is not attributed; do not change it."""
        path = self.folder / f"filled-{gpus}-{days}" / "store.duckdb"
        if not path.exists():
            step("large", self.folder_of(gpus, days, "filled") / "store.duckdb", gpus, days)
        return path

    def copied(self, gpus: int, days: int, name: str) -> Path:
        """A copy of a store of a fleet."""
        filled, folder = self.filled(gpus, days), self.folder_of(gpus, days, name)
        for file in ("store.duckdb", "prices.csv", "gpucost.toml"):
            shutil.copyfile(filled.parent / file, folder / file)
        return folder / "store.duckdb"

    def attributed(self, gpus: int, days: int) -> Attributed:
        """A store of a fleet with its figures."""
        if (gpus, days) not in self._attributed:
            path = self.copied(gpus, days, "attributed")
            ran, measured = step("attribute", path)
            self._attributed[gpus, days] = Attributed(path, measured, ran.peak_mb)
        return self._attributed[gpus, days]


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))
