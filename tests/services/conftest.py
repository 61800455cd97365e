"""Fixtures shared by these tests."""

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
    """Cache boto3's service descriptions, which each session would read again."""
    from botocore import loaders

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loaders, "create_loader", cache(loaders.create_loader))
        yield


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all cloud logins: variables, files, and the machine's identity."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    for name in ("HOME", "CLOUDSDK_CONFIG"):
        monkeypatch.setenv(name, str(tmp_path / "nobody"))
    for name in ("AWS_EC2_METADATA_DISABLED", "NO_GCE_CHECK"):
        monkeypatch.setenv(name, "true")


@pytest.fixture
def aws_login(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set a login to AWS only."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return the path of a new store."""
    return Store(tmp_path / "store.duckdb")


@pytest.fixture
def bills(tmp_path: Path) -> Bills:
    """Return the path of a new store for exports."""
    return Bills(tmp_path)
