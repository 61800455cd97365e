"""What lies in ../shared beside the checkout: fleets with exact figures, real exports, prices, traces and scrapes.

It is no part of the project. Tests that read it are marked `shared`; where it is missing they are skipped, and where it is there
none of them may be under CI=true (tests/conftest.py).
"""

from __future__ import annotations

from pathlib import Path

import pytest

#: Whether or not it is there; for parameters, which are collected everywhere.
SHARED = Path(__file__).resolve().parents[2] / "shared"


def shared(path: str) -> Path:
    """The file or folder `path` of ../shared. Skips the test where there is no ../shared."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    return SHARED / path
