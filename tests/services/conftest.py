"""Fixtures that several of these tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpucost.store.connection import Store
from tests.unit.bills import Bills


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A place for a store."""
    return Store(tmp_path / "store.duckdb")


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    """A place for a store, into which exports are loaded."""
    return Bills(tmp_path)
