"""The hourly rows of every described fleet in five time zones are, row by row, what they were.

UPDATE_GOLDEN=1 writes the goldens anew: no change that moves a figure may do so unseen. Each line is a case, a zone and a local
day: how many rows, the GPU-hours held, sums of what holders, idle time, nobody and time not collected cost and of what nodes
cost, and a digest of the rows, which `python -m tests.frozen.hours CASE ZONE` prints.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frozen import hours
from tests.frozen.world import standing_still
from tests.shared import shared

GOLDEN = Path(__file__).parent


@pytest.fixture(scope="module", autouse=True)
def _world() -> Iterator[None]:
    with standing_still():
        yield


def _groups(cases: list[Path]) -> list[object]:
    """The groups of cases, the largest first, and by its first case which one it is."""
    return [
        pytest.param(group, id=group[0].name) for group in sorted(hours.groups(cases), key=len, reverse=True)
    ]


def _check(group: list[Path], zones: tuple[str, ...], folder: Path, golden: Path) -> None:
    """Holds the lines of a group's cases in some zones against the golden's, or writes those anew."""
    stored = hours.stored(group, folder)
    lines = [
        line
        for zone in zones
        for case, rows in hours.rows(*stored, zone).items()
        for line in hours.lines(case, zone, rows)
    ]
    names = {(case.name, zone) for case in group for zone in zones}
    told = golden.read_text(encoding="utf-8").splitlines() if golden.exists() else []
    if os.environ.get("UPDATE_GOLDEN"):
        others = [line for line in told if tuple(line.split()[:2]) not in names]
        golden.write_text("\n".join(sorted([*others, *lines])) + "\n", encoding="utf-8")
    else:
        assert sorted(lines) == [line for line in told if tuple(line.split()[:2]) in names]


@pytest.mark.ci
@pytest.mark.parametrize("group", _groups(hours.own_cases()))
def test_hours_of_our_own_fleets(group: list[Path], tmp_path: Path) -> None:
    _check(group, hours.ZONES, tmp_path, GOLDEN / "hours.txt")


@pytest.mark.slow
@pytest.mark.shared
@pytest.mark.parametrize("group", _groups(hours.shared_cases()))
def test_hours_of_the_shared_fleets(group: list[Path], tmp_path: Path) -> None:
    shared("replay/cases")
    _check(group, hours.ZONES, tmp_path, GOLDEN / "hours-shared.txt")


def test_every_fleet_is_held() -> None:
    held = {
        tuple(line.split()[:2]) for line in (GOLDEN / "hours.txt").read_text(encoding="utf-8").splitlines()
    }
    assert held == {(case.name, zone) for case in hours.own_cases() for zone in hours.ZONES}
