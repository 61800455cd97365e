"""Fixtures that several of these tests share."""

from __future__ import annotations

import os
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
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is logged in to a cloud: by variables, by files, or by what the machine is."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "nobody"))
    for name in ("AWS_EC2_METADATA_DISABLED", "NO_GCE_CHECK"):
        monkeypatch.setenv(name, "true")


@pytest.fixture
def aws_login(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody is logged in to AWS alone."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A place for a store."""
    return Store(tmp_path / "store.duckdb")


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    """A place for a store, into which exports are loaded."""
    return Bills(tmp_path)
