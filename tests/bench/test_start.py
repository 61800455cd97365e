"""How long a user waits for `--help`, beside the smallest program that the same library can make."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.bench

HELP = "import sys; sys.argv = ['gpucost', '--help']; from gpucost.cli.main import main; main()"
BARE = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - began


def test_help_beside_a_bare_program(capsys: pytest.CaptureFixture[str]) -> None:
    ours, bare = (min(times) for times in zip(*((seconds(HELP), seconds(BARE)) for _ in range(7)), strict=True))
    with capsys.disabled():
        print(f"\n--help: {ours:.2f} s, a bare typer program {bare:.2f} s, ratio {ours / bare:.1f}")
    assert ours < 3 * bare
