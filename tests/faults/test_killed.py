"""Commands killed with kill -9 at any moment: existing data is intact, and a second run succeeds as if undisturbed.

`pytest tests/faults --runs 1000` kills each command a hundred times.
"""

from __future__ import annotations

import random
import subprocess
import time

import pytest

from tests.faults.disk import start
from tests.faults.scenes import Scene

pytestmark = [pytest.mark.services, pytest.mark.slow]


def test_killed_command_leaves_data_intact(scene: Scene, runs: int) -> None:
    moments, longest = random.Random(scene.name), scene.seconds
    tries, kills, ends = max(runs // 10, 1), 0, 0
    while kills < tries:
        place = scene.begin()
        begun = time.monotonic()
        process = start(place, scene.words)
        seconds = moments.uniform(0.15, 1.0) * longest
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
        else:  # it ended earlier
            ends, longest = ends + 1, time.monotonic() - begun
        what = f"{scene.name}: killed after {seconds:.2f} s, ended with {process.returncode}"
        scene.check_between(what)
        scene.check_again(what)
    print(f"{scene.name}: killed {kills} times within {longest:.1f} s; finished earlier {ends} times")
