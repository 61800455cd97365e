"""Power loss at any moment: files that gpucost writes are old or new, and new once the command reported success.

power.py rebuilds possible disk contents from the calls. DuckDB protects the store's own file.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import ALL
from tests.faults.disk import Disk, run
from tests.faults.power import Power, Tree
from tests.faults.scenes import Scene

pytestmark = [pytest.mark.services, pytest.mark.slow]


def files(tree: Tree) -> Any:
    """Return all files as one unit."""
    return tree


def manifests(tree: Tree) -> Any:
    """Return the content of a lake's manifests by cluster and day; check that their files exist and are complete."""
    found = {}
    for name, content in tree.items():
        if name.startswith("_gpucost/manifests/") and name.endswith(".json"):
            manifest = json.loads(content)
            for day, tables in manifest["days"].items():
                for file in tables.values():
                    assert sha256(tree.get(file["name"], b"")).hexdigest() == file["sha256"], (
                        f"{file['name']} is not whole"
                    )
                found[manifest["cluster"], day] = sorted(
                    (table, file["digest"]) for table, file in tables.items()
                )
    return found


#: A command by the scene before which it runs, its output, and the reader of that output.
WRITES: dict[str, tuple[str, tuple[str, ...] | None, str, Callable[[Tree], Any]]] = {
    "an output": ("attribute", None, "report.json", files),
    "a bundle": ("chargeback", None, "bundles/2026-03", files),
    "a lake": ("lake export", None, "lake", manifests),
    "a new lake": ("lake export", ("lake", "export", "new/lake"), "new/lake", manifests),
    "a new bundle": (
        "chargeback", ("chargeback", "--month", "2026-03", "--out", "new/place"), "new/place/2026-03", files
    ),
    "a configuration": ("collect", ("init", "--yes", "--config", "new/place/own.toml"), "new/place/own.toml", files),
    "a copy of the store": ("collect", ("store", "backup", "copy.duckdb"), "copy.duckdb", files),
}  # fmt: skip


@pytest.mark.parametrize("what", WRITES)
def test_power_loss_leaves_old_or_new_files(
    what: str, all_scenes: dict[str, Scene], disk: Disk, runs: int
) -> None:
    name, words, target, read = WRITES[what]
    scene = all_scenes[name]
    place = scene.begin()
    power = Power(place)
    ended = run(place, words or scene.words, disk.watch(place, contents=True))
    assert ended.code in (0, 4), ended
    before, after = read(power.seen(target)), read(on_disk(place / target))
    assert before != after
    dice, wrong, looks = random.Random(what), [], 0
    draws = 100 if runs >= ALL else max(runs // 10, 1)
    calls = [call for call in disk.calls() if not call.error]
    for call in power.play(calls, (disk.notes / "data").read_bytes()):
        for _ in range(draws):
            looks += 1
            problem = unlike(power.left(target, dice), read, [before, after])
            if problem:
                wrong.append(f"after {call.kind} {call.path} {call.other}: {problem}")
    assert read(power.seen(target)) == after, "the calls do not lead to the actual files"
    # the command has reported success
    for _ in range(10 * draws):
        looks += 1
        if problem := unlike(power.left(target, dice), read, [after]):
            wrong.append(f"after the end: {problem}")
    print(f"{what}: {len(calls)} calls, {looks} power losses, {len(wrong)} with lost data")
    assert not wrong, f"{len(wrong)} of {looks}:\n" + "\n".join(wrong[:10])


def on_disk(path: Path) -> Tree:
    """Return the actual files."""
    if path.is_file():
        return {"": path.read_bytes()}
    return {
        one.relative_to(path).as_posix(): one.read_bytes() for one in sorted(path.rglob("*")) if one.is_file()
    }


def unlike(tree: Tree, read: Callable[[Tree], Any], known: list[Any]) -> str | None:
    """Return the fault of the remaining files: each day of a lake is one unit, everything else is one unit."""
    try:
        left = read(tree)
    except (AssertionError, ValueError) as error:
        return str(error)
    if read is manifests:
        is_known = known[0].keys() <= left.keys() and all(
            tables in [one.get(day) for one in known] for day, tables in left.items()
        )
    else:
        is_known = left in known
    return None if is_known else f"neither old nor new: {len(left)} of {sorted(known[-1])[:3]} …"
