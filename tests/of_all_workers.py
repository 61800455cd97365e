"""Folders made once for all workers of pytest-xdist: the first worker makes it, the others reuse it."""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, rmtree
from typing import TypeVar

import pytest

T = TypeVar("T")
#: The folder in which `tests.mutants` keeps stores between mutants.
kept: Path | None = None
#: Whether it may keep the store of a name: not if it depends on the mutated code.
may_keep: Callable[[str], bool] = bool


def made(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder that `make` fills, to be read or copied only."""
    base = factory.getbasetemp()
    if kept and may_keep(name):
        base = kept
    elif os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent
    place = base / f"made-{name}"
    place.mkdir(exist_ok=True)
    touched = getattr(sys.modules.get("tests.touched"), "_touched", set())
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "touched.json").exists():
            rmtree(place / "made", ignore_errors=True)
            (place / "made").mkdir()
            make(place / "made")
            (place / "touched.json").write_text(json.dumps(sorted(touched)))
    # the package files that made it, for the record of other workers
    touched |= set(json.loads((place / "touched.json").read_text()))
    return place / "made"


def copied(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a copy of that folder in this worker's own folder."""
    return Path(copytree(made(factory, name, make), factory.mktemp(name) / "copy"))


def shared(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    """Return the answer of `make`, made once in that folder, to be read only."""

    def keep(folder: Path) -> None:
        (folder / "answer.pickle").write_bytes(pickle.dumps(make(folder)))

    return pickle.loads((made(factory, name, keep) / "answer.pickle").read_bytes())  # noqa: S301 - of our own making
