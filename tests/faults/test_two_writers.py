"""Two commands that write at once: each succeeds or reports why not; the result equals one after the other."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from tests.faults.conftest import ALL
from tests.faults.disk import ended, run, start
from tests.faults.scenes import COMMANDS, Scene, State, names, state
from tests.text_tables import text_rows

pytestmark = [pytest.mark.services, pytest.mark.slow]

#: Pairs of commands: every run tries the first ones, the full campaign tries all.
PAIRS = text_rows("""
    collect     | bill
    chargeback  | chargeback
    lake export | collect
    bill        | bill
    attribute   | bill
    chargeback  | bill
    lake export | lake export
""")


def left(place: Path) -> State:
    """Return a folder's content and file names; check that the lake, whose checksums depend on load times, is complete."""
    parts = {part: value for part, value in state(place).items() if part != "lake"}
    return parts | {"names": {name for name in names(place) if not name.startswith("lake/raw/")}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    pairs = PAIRS if metafunc.config.getoption("runs") >= ALL else PAIRS[:3]
    metafunc.parametrize("pair", pairs, ids=" and ".join)


def test_two_commands_at_once_match_one_after_the_other(
    pair: tuple[str, str], all_scenes: dict[str, Scene], runs: int
) -> None:
    scene = all_scenes["bill"]  # everything that any of the commands needs exists
    commands = [COMMANDS[name] for name in pair]
    rest = (*commands, COMMANDS["attribute"], COMMANDS["chargeback"], COMMANDS["lake export"])
    place = scene.begin()
    for words in (*commands, *rest):
        assert run(place, words).code in (0, 4)
    calm = left(place)
    tries = 20 if runs >= ALL else max(runs // 40, 1)
    waited = 0
    for seed in range(tries):
        dice = random.Random(seed)
        place = scene.begin()
        one = start(place, commands[0])
        time.sleep(dice.uniform(0, 0.5) * scene.seconds)
        two = start(place, commands[1])
        ends = [ended(one), ended(two)]
        assert all((end.code in (0, 4) and end.is_plain) or end.is_said for end in ends), ends
        assert any(end.code in (0, 4) for end in ends), ends
        waited += sum(end.code == 1 for end in ends)
        state(place)  # complete in either case
        for words in rest:
            assert run(place, words).code in (0, 4)
        assert left(place) == calm, (seed, ends)
    print(f"{' and '.join(pair)}: {tries} times at once, {waited} refused with a message")
