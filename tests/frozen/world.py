"""A fixed environment: the clock, the program's version and the price catalog never change."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from types import ModuleType

import pytest

import gpucost
from gpucost import resources

NOW = datetime(2026, 4, 2, 9, 30, tzinfo=UTC)
VERSION = "9.9.9"
#: Facts of GPUs as of November 2026, and prices of a few machines. They are never updated.
PRICING = Path(__file__).parent / "pricing"


@contextmanager
def standing_still() -> Iterator[pytest.MonkeyPatch]:
    """Fix the time at NOW, the program's version at VERSION and its catalog at PRICING for the block."""
    find, version = resources._find, gpucost.__version__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resources, "_find", lambda name: PRICING if name == "pricing" else find(name))
        # Many modules have imported the class, so `now` is replaced in the class itself; Python offers no other way.
        patch.setitem(gc.get_referents(datetime.__dict__)[0], "now", staticmethod(_now))
        _changed(VERSION)
        yield patch
    _changed(version)


def _now(tz: tzinfo | None = None) -> datetime:
    return NOW.astimezone(tz) if tz else NOW.replace(tzinfo=None)


def _changed(version: str) -> None:
    """Set the version in every module, and clear data cached from another catalog or clock."""
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime))
    for module in _modules():
        if hasattr(module, "__version__"):
            module.__version__ = version
    clear_caches()


def clear_caches() -> None:
    """Clear the caches of every module of the program."""
    for module in _modules():
        for value in list(vars(module).values()):
            if hasattr(value, "cache_clear"):
                value.cache_clear()


def _modules() -> list[ModuleType]:
    """Return the program's loaded modules."""
    return [
        module for name, module in list(sys.modules.items()) if name.partition(".")[0] == gpucost.__name__
    ]
