"""CPU seconds of `--help` and of a month's report, beside the smallest programs that the same libraries can make."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpucost.demo.build import last_months
from tests.bench.measured import Page

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
    subprocess.run(
        [sys.executable, "-c", RUN, "demo", "--keep", str(folder)], check=True, capture_output=True
    )
    return folder


def test_help(page: Page) -> None:
    ours, bare = cpu_seconds(RUN, "--help"), cpu_seconds(BARE)
    met = ours < 1.5 * bare and ours <= 0.2
    cells = f"{ours:.2f} s", f"a bare typer program {bare:.2f} s", f"{ours / bare:.1f} ×"
    assert page.row("`gpucost --help`", "≤ 0.2 s, ≤ 1.5 ×", met, *cells)


@pytest.mark.parametrize(
    "words",
    [["report"], ["report", "--month", f"{last_months(datetime.now(UTC))[0].start:%Y-%m}"]],
    ids=["report", "month"],
)
def test_a_month_s_report(demo: Path, monkeypatch: pytest.MonkeyPatch, page: Page, words: list[str]) -> None:
    monkeypatch.chdir(demo)
    ours, bare = cpu_seconds(RUN, *words), cpu_seconds(ENGINE)
    why = f"{bare:.2f} s of it are the imports of typer and DuckDB and an empty database, {ours - bare:.2f} s are gpucost's."
    cells = f"{ours:.2f} s", f"its libraries alone {bare:.2f} s", f"{ours / bare:.1f} ×"
    name = f"`gpucost {' '.join(words)}` of the sample fleet"
    assert page.row(name, "≤ 0.4 s", ours <= 0.4, *cells, why=why)
