"""Data in ../shared next to the checkout: fleets with exact figures, real exports, prices, traces and scrapes.

It is not part of the project. Tests that read it are marked `shared`. They are skipped if it is missing; if it exists, they
may not be skipped under CI=true (tests/conftest.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

#: Its path, existing or not, for parameters, which are collected everywhere.
SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared(path: str) -> Path:
    """Return the file or folder `path` of ../shared; skip the test without ../shared."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is missing")
    return SHARED / path
