"""CPU seconds of `--help` and of a month's report, beside the smallest programs that the same libraries can make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

RUN = "import sys; sys.argv = ['gpucost', *sys.argv[1:]]; from gpucost.cli.main import main; main()"
BARE = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
ENGINE = "import typer, typer._adapters, duckdb; duckdb.connect().execute('SELECT 1').fetchall()"


def cpu_seconds(code: str, *words: str) -> float:
    """The least of several runs, which others on the machine disturb least."""

    def once() -> float:
        began = os.times()
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
        ended = os.times()
        return ended.children_user - began.children_user + ended.children_system - began.children_system

    return min(once() for _ in range(9))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "fleet"
    subprocess.run([sys.executable, "-c", RUN, "demo", "--keep", str(folder)], check=True, capture_output=True)
    return folder


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    ours, bare = cpu_seconds(RUN, "--help"), cpu_seconds(BARE)
    with capsys.disabled():
        print(f"\n--help: {ours:.2f} s of CPU, a bare typer program {bare:.2f} s, ratio {ours / bare:.1f}")
    assert ours < 1.5 * bare
    assert ours <= 0.2


def test_a_month_s_report(demo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(demo)
    ours, bare = cpu_seconds(RUN, "report"), cpu_seconds(ENGINE)
    with capsys.disabled():
        print(f"\nreport: {ours:.2f} s of CPU, its libraries alone {bare:.2f} s, ratio {ours / bare:.1f}")
    assert ours <= 0.4
