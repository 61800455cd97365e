"""Folders that the workers of pytest-xdist make once: the first to ask makes it, the others find it."""

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
#: Where `tests.mutants` keeps stores from one mutant to the next.
kept: Path | None = None
#: Whether it may keep the store of a name: not one that the code makes which a mutant changes.
may_keep: Callable[[str], bool] = bool


def made(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills; for who only reads or copies it."""
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
    # which files of the package made it, for the record of the worker that did not
    touched |= set(json.loads((place / "touched.json").read_text()))
    return place / "made"


def copied(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A copy of that folder, below this worker's own."""
    return Path(copytree(made(factory, name, make), factory.mktemp(name) / "copy"))


def shared(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], T]) -> T:
    """What `make` answers, made once in that folder; for who only reads it."""

    def keep(folder: Path) -> None:
        (folder / "answer.pickle").write_bytes(pickle.dumps(make(folder)))

    return pickle.loads((made(factory, name, keep) / "answer.pickle").read_bytes())  # noqa: S301 - of our own making
