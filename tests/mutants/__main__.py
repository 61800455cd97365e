"""Runs every mutant, two at a time; ends with 1 where one is not caught, or cannot be applied."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.mutants import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("gpucost", "pricing", "reports", "tests", "pyproject.toml")
# pytest's summary: what failed, and why
FAILED = re.compile(r"^FAILED (\S+).*? - (?:AssertionError|assert )", re.MULTILINE)


def run_tests(tests: tuple[str, ...], folder: Path) -> tuple[int, str]:
    """pytest's exit code and output over the checkout in `folder`."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=short", *tests]
    # wide, so that the summary holds the reason; the copy comes before an installed gpucost
    environment = os.environ | {"COLUMNS": "400", "PYTHONPATH": str(folder)}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def apply(mutant: Mutant, folder: Path) -> str | None:
    """Breaks the formula in `folder`; returns why that cannot be done."""
    path = folder / mutant.file
    text = path.read_text() if path.exists() else ""
    if text.count(mutant.old) != 1:
        return f"{mutant.old!r} stands {text.count(mutant.old)} times in {mutant.file}: adapt the mutant to the formula"
    path.write_text(text.replace(mutant.old, mutant.new))
    return None


def verdict(mutant: Mutant) -> str | None:
    """None where the mutant is caught, else what is wrong."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        folder = Path(name)
        for part in COPIED:
            if (ROOT / part).is_dir():
                shutil.copytree(ROOT / part, folder / part)
            else:
                shutil.copy2(ROOT / part, folder / part)
        wrong = apply(mutant, folder)
        if wrong:
            return wrong
        code, output = run_tests(mutant.tests, folder)
    if code == 1 and FAILED.search(output):
        return None
    return "its tests stay green" if code == 0 else f"no assertion fails, pytest ends with {code}:\n{output[-3000:]}"


def reported(mutant: Mutant) -> bool:
    """Prints what became of the mutant; whether it was caught."""
    begun = time.monotonic()
    wrong = verdict(mutant)
    seconds = time.monotonic() - begun
    print(f"{'not caught' if wrong else 'caught'}: {mutant.name} ({seconds:.0f} s)" + (f": {wrong}" if wrong else ""), flush=True)
    return not wrong


def main() -> int:
    chosen = [mutant for mutant in MUTANTS if not sys.argv[1:] or mutant.name in sys.argv[1:]]
    code, output = run_tests(tuple(sorted({test for mutant in chosen for test in mutant.tests})), ROOT)
    if code:
        print(f"the tests fail without any mutant:\n{output[-3000:]}")
        return 1
    with ThreadPoolExecutor(2) as pool:
        caught = list(pool.map(reported, chosen))
    print(f"{sum(caught)} of {len(caught)} mutants caught")
    return 0 if all(caught) else 1


if __name__ == "__main__":
    sys.exit(main())
