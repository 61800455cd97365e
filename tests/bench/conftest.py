"""The page of measurements, written to the file of --page after the last bench."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.measured import Page


@pytest.fixture(scope="session")
def page(pytestconfig: pytest.Config) -> Iterator[Page]:
    measured = Page()
    yield measured
    target = pytestconfig.getoption("--page", None)
    for row in measured.rows:
        print(
            f"\n{row.step}: {row.ours}; {row.beside}; {row.ratio}; target {row.target}: {'met' if row.met else 'MISSED'}"
        )
    if target:
        measured.write(Path(target))
