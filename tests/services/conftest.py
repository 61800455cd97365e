"""Fixtures that several of these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from gpucost.store.connection import Store
from tests.unit.bills import Bills


@pytest.fixture(scope="session", autouse=True)
def models_read_once() -> Iterator[None]:
    """What boto3 knows of AWS' services; each session would read it anew."""
    from botocore import loaders

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaders, "create_loader", cache(loaders.create_loader))
        yield


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A place for a store."""
    return Store(tmp_path / "store.duckdb")


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    """A place for a store, into which exports are loaded."""
    return Bills(tmp_path)
