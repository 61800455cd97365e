"""Writes that fail: the command reports it, existing data is intact, and a second run succeeds as if undisturbed.

`pytest tests/faults --runs 1000` makes each write of each command fail in each way.
"""

from __future__ import annotations

import random
import shutil

import pytest

from tests.faults.conftest import ALL
from tests.faults.disk import FAULTS, Disk, Fault, away_from, run
from tests.faults.scenes import Scene

pytestmark = [pytest.mark.services, pytest.mark.slow]


def test_failed_write_leaves_data_intact(scene: Scene, disk: Disk, runs: int) -> None:
    place = scene.begin()
    ended = run(place, scene.words, disk.watch(place))
    assert ended.code == scene.ended.code and scene.check_between("undisturbed, but written down"), ended
    count = len(disk.calls())
    tries = [
        (at, FAULTS[(at + turn) % len(FAULTS)]) for turn in range(len(FAULTS)) for at in range(1, count + 1)
    ]
    if runs < ALL:
        tries = random.Random(scene.name).sample(tries, max(runs // 10, 1))
    wrong = []
    for at, fault in tries:
        try:
            check(scene, disk, at, fault)
        except AssertionError as error:
            wrong.append(str(error))
    print(
        f"{scene.name}: {count} writes, {len(tries)} failures of them tried, {len(wrong)} times something was wrong"
    )
    assert not wrong, f"{len(wrong)} of {len(tries)}:\n\n" + "\n\n".join(wrong)


def check(scene: Scene, disk: Disk, at: int, fault: Fault) -> None:
    """Run the command with a failure of its write `at`, then run it again without."""
    place = scene.begin()
    ended = run(place, scene.words, disk.watch(place, at, fault))
    failed = [call for call in disk.calls() if call.number == at]
    what = (
        f"{scene.name}: {fault.name} at {at}, {failed[0][1:] if failed else 'which there was not'}\n{ended}"
    )
    if (away := away_from(place)).exists():
        # the original replaces anything created in its place meanwhile
        shutil.rmtree(place, ignore_errors=True)
        away.rename(place)
    is_done = scene.check_between(what)
    assert ended.is_said or (ended.code == scene.ended.code and ended.is_plain and is_done), (
        f"ended otherwise\n{what}"
    )
    scene.check_again(what)
