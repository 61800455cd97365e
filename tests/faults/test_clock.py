"""The wall clock jumps, forward and back, between and during commands: no data is lost and none appears too early."""

from __future__ import annotations

import json
import random
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost.store.connection import Store
from tests.faults.conftest import ALL
from tests.faults.disk import Disk, ended, run, start
from tests.faults.scenes import FIRST, HOURS, LAST, STORE, Scene, stored
from tests.replay.cases.words import at

pytestmark = [pytest.mark.services, pytest.mark.slow]

COLLECT = ("collect", "prometheus")
REPORT = ("report", "--from", FIRST, "--to", LAST, "--by", "hour,namespace,pod,node", "--format", "json")


def moment(hours: float) -> datetime:
    return datetime.fromtimestamp(at(hours), UTC)


def figures(place: Path) -> tuple[object, object]:
    """Return the store's raw data and the whole report."""
    report = run(place, REPORT)
    assert report.code == 0, report
    return stored(place / STORE)["raw"], json.loads(report.out)


def newest(place: Path) -> float:
    """Return the last hour recorded as collected."""
    if not (place / STORE).exists():
        return 0.0
    with Store(place / STORE).read() as con:
        last = con.execute("SELECT max(to_ms) FROM collected").fetchall()[0][0]
    return float((last or at(0) * 1000) / 1000 - at(0)) / 3600


def test_clock_jumps_lose_no_data(all_scenes: dict[str, Scene], disk: Disk, runs: int) -> None:
    scene = all_scenes["collect into nothing"]
    place = scene.begin()
    repair = moment(HOURS + 3)
    assert run(place, COLLECT, disk.clock(repair)).code == 0
    calm = figures(place)
    tries = 100 if runs >= ALL else max(runs // 20, 1)
    for seed in range(tries):
        dice = random.Random(seed)
        place, answers = scene.begin(), []
        for _ in range(dice.choice((1, 2, 3))):
            first, then = (
                dice.choice((-24 * 40, 3, 12.5, 24, 30, HOURS + 1, HOURS + 24 * 30, HOURS + 24 * 400))
                for _ in "ab"
            )
            process = start(place, COLLECT, disk.clock(moment(first)))
            time.sleep(dice.uniform(0.2, 1.0) * scene.seconds)
            disk.set_clock(moment(then))
            answer = ended(process)
            answers.append(f"by a clock at hour {first}, then {then}: {answer}")
            what = f"{seed}: " + "\n".join(answers)
            assert answer.code in (0, 1, 4) and answer.is_plain, what
            assert newest(place) <= HOURS, what
        answer = run(place, COLLECT, disk.clock(repair))
        assert answer.code == 0, (answer, what)
        assert figures(place) == calm, what
    print(f"clocks: {tries} stores whose clock jumped")
