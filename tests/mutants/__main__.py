"""Break one rule at a time and run the fast tests that touch the file; exit with 1 if a mutant survives.

    python -m tests.mutants                  all of by_hand.txt, and mutants by rule that were caught before (caught_by.txt)
    python -m tests.mutants --new            by rule: one for each deciding file without any, and a draw seeded by the commit
    python -m tests.mutants --only TEXT      mutants with this text in their names (by rule: all of such a file)

With --keep, each records which test caught which mutant. `make test` records which tests touch a file; without that record,
it runs first.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, settings

from tests import of_all_workers
from tests.frozen.world import clear_caches
from tests.mutants import RECORD, ROOT
from tests.mutants.attempt import Verdict, copy, find_functions, fork
from tests.mutants.rules import Change, changes

HERE = Path(__file__).parent
FAST = ("-m", "not slow and not bench")
# the test that last caught a mutant: it runs first
CAUGHT_BY = HERE / "caught_by.txt"
# seconds of tests per mutant
WORTH = 30.0


@dataclass(frozen=True)
class Broken:
    """A mutant ready to be tried; `spares` replace it one by one if it cannot run."""

    name: str
    path: Path
    text: str
    spares: tuple[Broken, ...] = ()


@dataclass
class Touching:
    """The fast tests by the files they touch."""

    files: dict[str, list[str]]
    seconds: dict[str, float]
    shared: dict[str, float]

    @classmethod
    def read(cls) -> Touching:
        """Read the record; tests of one module share their files, since fixtures may be kept between them."""
        rows = [json.loads(line) for path in RECORD.glob("*.jsonl") for line in path.read_text().splitlines()]
        tests = {}
        touched = {}
        for row in rows:
            module = row["test"].partition("::")[0]
            tests.setdefault(module, []).append(row["test"])
            touched.setdefault(module, set()).update(row["files"])
        files = {}
        for module, known in touched.items():
            for file in known:
                files.setdefault(file, []).extend(tests[module])
        return cls(
            files, {row["test"]: row["seconds"] for row in rows}, {row["test"]: row["shared"] for row in rows}
        )

    def order(self, file: str, first: str | None) -> list[str]:
        """Return tests that touch a file: the likeliest to notice first, then by module, most tests per second first."""
        modules = {}
        # no test touches a file that only runs at import
        touching = self.files.get(file) or [
            test for one in importers(file) for test in self.files.get(one, ())
        ]
        for test in dict.fromkeys(touching):
            modules.setdefault(test.partition("::")[0], []).append(test)

        def cost(module: str) -> float:
            own, shared = ([by[test] for test in modules[module]] for by in (self.seconds, self.shared))
            # the time of fixtures counts for the first test that uses them
            return sum(own) + (max(shared) if max(own) < max(shared) else 0)

        chosen = [first] if first in self.seconds else []
        spent = 0.0
        for module in sorted(modules, key=lambda module: cost(module) / len(modules[module])):
            if spent + cost(module) < WORTH or not spent:
                chosen += [test for test in modules[module] if test != first]
                spent += cost(module)
        return chosen


def importers(file: str) -> list[str]:
    """Return the files of the package that import another."""
    package, _, name = file.removesuffix(".py").replace("/", ".").rpartition(".")
    found = []
    for path in sorted((ROOT / "gpucost").rglob("*.py")):
        imports = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        if any(
            node.module == f"{package}.{name}"
            or (node.module == package and name in [alias.name for alias in node.names])
            for node in imports
        ):
            found.append(path.relative_to(ROOT).as_posix())
    return found


def _listed(name: str) -> list[str]:
    """Return the lines of a file in this folder, without blanks and comments."""
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def deciding() -> list[str]:
    """Return the files that decide money, time or parsing."""
    return sorted(
        {path.relative_to(ROOT).as_posix() for one in _listed("deciding.txt") for path in ROOT.glob(one)}
    )


def left_out() -> set[str]:
    """Return the names of mutants equivalent to the code; the file states the reason of each."""
    return {*_listed("equivalent.txt")}


def by_rule(known: list[Change]) -> Broken:
    """Return the first as a mutant, with the others as spares."""
    made = [Broken(one.name, ROOT / one.file, one.apply((ROOT / one.file).read_text())) for one in known]
    return Broken(made[0].name, made[0].path, made[0].text, tuple(made[1:]))


def by_hand() -> list[Broken]:
    """Return the mutants of by_hand.txt. Fail if the replaced text of one does not occur exactly once in its file."""
    made = []
    lines = [line for line in (HERE / "by_hand.txt").read_text().splitlines() if not line.startswith("#")]
    for block in "\n".join(lines).strip("\n").split("\n\n"):
        name, file, *change = block.splitlines()
        old, new = ("\n".join(line[2:] for line in change if line[0] == sign) for sign in "-+")
        text = (ROOT / file).read_text()
        if text.count(old) != 1:
            raise SystemExit(f"{name}: {old!r} occurs {text.count(old)} times in {file}")
        made.append(Broken(name, ROOT / file, text.replace(old, new)))
    return made


def chosen(arguments: argparse.Namespace) -> list[Broken]:
    """Return the requested mutants."""
    equivalent, caught = left_out(), caught_before()
    known = {file: [one for one in changes(file) if one.name not in equivalent] for file in deciding()}
    everything = [one for all_of in known.values() for one in all_of]
    hand = by_hand()
    if arguments.only:
        named = [one for one in everything if arguments.only in one.name]
        return [one for one in hand if arguments.only in one.name] + [by_rule([one]) for one in named]
    if not arguments.new:
        # the line of a mutant by rule has changed since
        for name in caught.keys() - {one.name for one in hand} - {one.name for one in everything}:
            print(f"caught_by.txt names no mutant: {name}")
        return hand + [by_rule([one]) for one in everything if one.name in caught]
    guarded = {one.path.relative_to(ROOT).as_posix() for one in hand} | {
        one.file for one in everything if one.name in caught
    }
    tree = subprocess.run(
        ["git", "rev-parse", "HEAD:gpucost"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    chance = random.Random(tree)
    drawn = [
        by_rule([one, *chance.sample(everything, 3)]) for one in chance.sample(everything, arguments.draw)
    ]
    unguarded = [
        chance.sample(all_of, min(6, len(all_of)))
        for file, all_of in known.items()
        if all_of and file not in guarded
    ]
    return [by_rule(sample) for sample in unguarded] + drawn


def caught_before() -> dict[str, str]:
    """Return the test that last caught each mutant, by name."""
    return dict(line.split("\t") for line in CAUGHT_BY.read_text().splitlines())


class Trial:
    """A plugin: pytest collects the tests, then processes try the mutants instead of running the tests."""

    def __init__(self, mutants: list[Broken], touching: Touching, workers: int) -> None:
        self.mutants, self.touching, self.workers = mutants, touching, workers
        self.caught_by = caught_before()
        self.caught, self.survived = dict[str, str](), list[str]()

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for name, test in self.caught_by.items():
            if test not in items:
                print(f"caught_by.txt names no fast test for {name}: {test}")
        every = [one for mutant in self.mutants for one in (mutant, *mutant.spares)]
        find_functions({one.path for one in every if one.path.suffix == ".py"})
        # a fork that drops a cached DuckDB connection waits for threads that do not exist in it
        clear_caches()
        queue, rest = os.pipe()
        os.write(rest, b"".join(number.to_bytes(4) for number in range(len(self.mutants))))
        os.close(rest)
        with TemporaryDirectory(prefix="mutants-") as name:
            of_all_workers.kept = Path(name)
            logs = [Path(name) / str(worker) for worker in range(self.workers)]
            workers = [self.start(queue, log, items) for log in logs]
            for worker in workers:
                os.waitpid(worker, 0)
            for log in logs:
                for line in log.read_text().splitlines():
                    mutant, test = json.loads(line)
                    if test:
                        self.caught[mutant] = test
                    else:
                        self.survived.append(mutant)
        return True

    def start(self, queue: int, log: Path, items: dict[str, pytest.Item]) -> int:
        """Start a process that tries mutants until the queue is empty; return its id."""
        if worker := os.fork():
            return worker
        try:
            with log.open("w") as out:
                while number := os.read(queue, 4):
                    mutant, test = self.attempt(self.mutants[int.from_bytes(number)], items)
                    print(json.dumps([mutant.name, test]), file=out, flush=True)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def attempt(self, mutant: Broken, items: dict[str, pytest.Item]) -> tuple[Broken, str | None]:
        """Try a mutant, or its first spare that runs; return it with the test that caught it."""
        begun = time.monotonic()
        for one in (mutant, *mutant.spares):
            mutant, verdict = one, self.verdict(one, items)
            if not verdict.crashes:
                break
        what = (
            "CANNOT RUN" if verdict.crashes else f"caught by {verdict.test}" if verdict.test else "SURVIVED"
        )
        print(f"{mutant.name}: {what} ({time.monotonic() - begun:.1f} s)", flush=True)
        return mutant, None if verdict.crashes else verdict.test

    def verdict(self, mutant: Broken, items: dict[str, pytest.Item]) -> Verdict:
        file = mutant.path.relative_to(ROOT).as_posix()
        first = self.caught_by.get(mutant.name)
        tests = [one for one in self.touching.order(file, first) if one in items]
        verdict = Verdict()
        module = [one for one in items if first and one.partition("::")[0] == first.partition("::")[0]]
        for some in ([first] if first in items else [], module, tests):
            if some and verdict.test is None and not verdict.crashes:
                found = fork(mutant.path, mutant.text, [items[one] for one in some])
                verdict = copy(mutant.path, mutant.text, some) if found is None else found
        return verdict


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--new", action="store_true", help="by rule: for each deciding file without a mutant, and a draw"
    )
    parser.add_argument(
        "--draw", type=int, default=20, help="number of mutants drawn from all deciding files"
    )
    parser.add_argument("--only", help="only mutants with this text in their names")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="record which test caught which mutant")
    arguments = parser.parse_args()
    if not list(RECORD.glob("*.jsonl")) and subprocess.run(["make", "test"], cwd=ROOT).returncode:
        print("the tests fail without any mutant")
        return 1
    trial = Trial(chosen(arguments), Touching.read(), arguments.workers)
    # failing examples are not shrunk: that takes twenty seconds
    settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
    settings.load_profile("mutants")
    pytest.main(["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "--no-summary", *FAST], plugins=[trial])
    if arguments.keep:
        CAUGHT_BY.write_text(
            "".join(f"{name}\t{test}\n" for name, test in sorted((trial.caught_by | trial.caught).items()))
        )
    print(f"{len(trial.caught)} of {len(trial.mutants)} mutants caught")
    for name in trial.survived:
        print(f"survived: {name}")
    return 0 if len(trial.caught) == len(trial.mutants) else 1


if __name__ == "__main__":
    sys.exit(main())
