"""Breaks one rule at a time and runs the fast tests that touch the file; ends with 1 if any mutant survives.

    python -m tests.mutants                  those of by_hand.txt, and by rule those that were caught before (caught_by.txt)
    python -m tests.mutants --new            by rule: one for each deciding file that has none, and a draw that the commit seeds
    python -m tests.mutants --only TEXT      those whose names contain a text (by rule: all of such a file)

Each notes with --keep which test caught what. Which tests touch a file is what `make test` recorded; without that record, it is
made first.
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
# which test caught a mutant last: it is asked first
CAUGHT_BY = HERE / "caught_by.txt"
# seconds of tests that a mutant is worth
WORTH = 30.0


@dataclass(frozen=True)
class Broken:
    """A mutant that is ready to be tried; `spares` take its place one by one if it cannot run."""

    name: str
    path: Path
    text: str
    spares: tuple[Broken, ...] = ()


@dataclass
class Touching:
    """The fast tests by what they touch."""

    files: dict[str, list[str]]
    seconds: dict[str, float]
    shared: dict[str, float]

    @classmethod
    def read(cls) -> Touching:
        """Tests of one module share what they touch: it may be kept from one to the next."""
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
        """Tests that touch a file, the one that is likely to notice first, then module by module: most tests per second first."""
        modules = {}
        # what runs at import alone is touched by no test
        touching = self.files.get(file) or [
            test for one in importers(file) for test in self.files.get(one, ())
        ]
        for test in dict.fromkeys(touching):
            modules.setdefault(test.partition("::")[0], []).append(test)

        def cost(module: str) -> float:
            own, shared = ([by[test] for test in modules[module]] for by in (self.seconds, self.shared))
            # what fixtures take is in the seconds of the test that asks for them first
            return sum(own) + (max(shared) if max(own) < max(shared) else 0)

        chosen = [first] if first in self.seconds else []
        spent = 0.0
        for module in sorted(modules, key=lambda module: cost(module) / len(modules[module])):
            if spent + cost(module) < WORTH or not spent:
                chosen += [test for test in modules[module] if test != first]
                spent += cost(module)
        return chosen


def importers(file: str) -> list[str]:
    """The files of the package that import another."""
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
    """The lines of a file here that say something."""
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def deciding() -> list[str]:
    """The files that decide money, time or parsing."""
    return sorted(
        {path.relative_to(ROOT).as_posix() for one in _listed("deciding.txt") for path in ROOT.glob(one)}
    )


def left_out() -> set[str]:
    """Names of mutants that mean the same as the code, each with its reason in the file."""
    return {*_listed("equivalent.txt")}


def by_rule(known: list[Change]) -> Broken:
    """The first of them, the others as spares."""
    made = [Broken(one.name, ROOT / one.file, one.apply((ROOT / one.file).read_text())) for one in known]
    return Broken(made[0].name, made[0].path, made[0].text, tuple(made[1:]))


def by_hand() -> list[Broken]:
    """Those of by_hand.txt. Ends with an error if the text that one replaces does not stand in its file exactly once."""
    made = []
    lines = [line for line in (HERE / "by_hand.txt").read_text().splitlines() if not line.startswith("#")]
    for block in "\n".join(lines).strip("\n").split("\n\n"):
        name, file, *change = block.splitlines()
        old, new = ("\n".join(line[2:] for line in change if line[0] == sign) for sign in "-+")
        text = (ROOT / file).read_text()
        if text.count(old) != 1:
            raise SystemExit(f"{name}: {old!r} stands {text.count(old)} times in {file}")
        made.append(Broken(name, ROOT / file, text.replace(old, new)))
    return made


def chosen(arguments: argparse.Namespace) -> list[Broken]:
    """The mutants that are asked for."""
    equivalent, caught = left_out(), caught_before()
    known = {file: [one for one in changes(file) if one.name not in equivalent] for file in deciding()}
    everything = [one for all_of in known.values() for one in all_of]
    hand = by_hand()
    if arguments.only:
        named = [one for one in everything if arguments.only in one.name]
        return [one for one in hand if arguments.only in one.name] + [by_rule([one]) for one in named]
    if not arguments.new:
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
    """By the name of a mutant the test that caught it last."""
    return dict(line.split("\t") for line in CAUGHT_BY.read_text().splitlines())


class Trial:
    """A plugin: pytest collects the tests, then processes try the mutants, in place of running the tests."""

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
        # a fork that drops a cached DuckDB connection waits for threads that it does not have
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
        """A process that tries mutants until none is left; returns its number."""
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
        """The mutant that was tried, or its first spare that runs, and the test that caught it."""
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
    parser.add_argument("--draw", type=int, default=20, help="how many are drawn from all deciding files")
    parser.add_argument("--only", help="those whose names contain this text")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", action="store_true", help="write down which test caught what")
    arguments = parser.parse_args()
    if not list(RECORD.glob("*.jsonl")) and subprocess.run(["make", "test"], cwd=ROOT).returncode:
        print("the tests fail without any mutant")
        return 1
    trial = Trial(chosen(arguments), Touching.read(), arguments.workers)
    # what fails is not made smaller: that takes twenty seconds
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
