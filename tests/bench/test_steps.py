"""Time of single commands and steps: start-up, opening a store, Slurm jobs, prices from a bill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from gpucost.demo.build import last_months
from tests.bench.measured import Page, run, step

pytestmark = pytest.mark.bench

HELP, REPORT = 0.1, 0.35
RUN = "import sys; sys.argv = ['gpucost', *sys.argv[1:]]; from gpucost.cli.main import main; main()"
BARE = "import typer; app = typer.Typer(); app.command()(lambda: None); app(['--help'])"
ENGINE = "import typer, typer._adapters, duckdb; duckdb.connect().execute('SELECT 1').fetchall()"


def cpu_seconds(code: str, *words: str) -> float:
    """Return the minimum of several runs, which other processes disturb least."""

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


def test_help_starts_quickly(page: Page) -> None:
    ours, bare = cpu_seconds(RUN, "--help"), cpu_seconds(BARE)
    cells = f"{ours:.2f} s", f"a bare typer program {bare:.2f} s", f"{ours / bare:.1f} ×"
    why = "the list of commands is printed without their modules; the rest is the start of Python."
    assert page.row("`gpucost --help`", f"≤ {HELP} s", ours <= HELP, *cells, why=why)


@pytest.mark.parametrize(
    "words",
    [["report"], ["report", "--month", f"{last_months(datetime.now(UTC))[0].start:%Y-%m}"]],
    ids=["report", "month"],
)
def test_month_report_is_quick(
    demo: Path, monkeypatch: pytest.MonkeyPatch, page: Page, words: list[str]
) -> None:
    monkeypatch.chdir(demo)
    ours, bare = cpu_seconds(RUN, *words), cpu_seconds(ENGINE)
    why = f"{bare:.2f} s are the imports of typer and DuckDB and an empty database, {ours - bare:.2f} s are gpucost's."
    cells = f"{ours:.2f} s", f"its libraries alone {bare:.2f} s", f"{ours / bare:.1f} ×"
    name = f"`gpucost {' '.join(words)}` of the sample fleet"
    assert page.row(name, f"≤ {REPORT} s", ours <= REPORT, *cells, why=why)


OPENING_MS = 2


def test_opening_a_store(demo: Path, page: Page) -> None:
    measured = step("opening", demo / "gpucost.duckdb")[1]
    ours, bare = ((measured[name]) * 1000 for name in ("store", "duckdb"))
    own = ours - bare
    cells = f"{own:.1f} ms", f"DuckDB's own opening {bare:.1f} ms"
    why = "settings of the connection, and the check of its schema."
    assert page.row("opening a store", f"≤ {OPENING_MS} ms over DuckDB", own <= OPENING_MS, *cells, why=why)


JOBS, RATIO, MEGABYTES = 2_000_000, 12, 1000
_JOBS = """
COPY (
    SELECT i AS JobID, i AS JobIDRaw, 'train-' || i % 5000 AS JobName, 'hpc' AS Cluster, 'account-' || i % 200 AS Account,
        'user-' || i % 900 AS User, 'gpu' AS Partition, 'normal' AS QOS, 'COMPLETED' AS State, start - 60 AS Submit,
        start AS Start, start + length AS End, length AS ElapsedRaw, 'n' || i % 1000 AS NodeList,
        'billing=8,cpu=8,' || CASE WHEN i % 3 = 0 THEN 'gres/gpu:a100=1,gres/gpu=1,' ELSE '' END || 'mem=32G,node=1' AS AllocTRES
    FROM (SELECT range AS i, 1793491200 + range * 2590000 // $1 AS start, 60 + range * 7919 % 900 AS length FROM range($1))
) TO '{}' (FORMAT csv, DELIMITER '|', QUOTE '', ESCAPE '', HEADER)"""
_READER = """
import duckdb, sys
con = duckdb.connect(sys.argv[2])
con.execute("CREATE TABLE jobs AS FROM read_csv(?, delim = '|', quote = '', escape = '', header = true)", [sys.argv[1]])
"""


def test_slurm_jobs_load_quickly(tmp_path: Path, page: Page) -> None:
    jobs = tmp_path / "jobs.psv"
    duckdb.connect().execute(_JOBS.format(jobs), [JOBS])
    (tmp_path / "gpucost.toml").write_text("")
    words = ("--config", str(tmp_path / "gpucost.toml"))
    ours = run(sys.executable, "-m", "gpucost", "collect", "slurm", str(jobs), *words)
    beside = run(sys.executable, "-c", _READER, str(jobs), str(tmp_path / "beside.duckdb"))
    report = run(sys.executable, "-m", "gpucost", "report", "--month", "2026-11", "--format", "json", *words)
    held = json.loads(report.output)["totals"]["allocated_gpu_hours"]
    assert held == pytest.approx(sum(60 + i * 7919 % 900 for i in range(0, JOBS, 3)) / 3600, rel=1e-9)
    assert page.row(
        f"collect slurm, {JOBS:,} jobs",
        f"≤ {RATIO} ×, ≤ {MEGABYTES:,} MB",
        ours.cpu <= RATIO * beside.cpu and ours.peak_mb <= MEGABYTES,
        f"{ours.cpu:.0f} s, {ours.peak_mb:,.0f} MB",
        f"DuckDB's reader {beside.cpu:.0f} s",
        f"{ours.cpu / beside.cpu:.1f} ×; attributed in {report.cpu:.0f} s, {report.peak_mb:,.0f} MB",
        why="Python splits each record and parses its times.",
    )


NODES, DAYS, SECONDS = 300, 30, 0.5


def test_prices_from_a_bill(tmp_path: Path, page: Page) -> None:
    store = tmp_path / "store.duckdb"
    step("billed", store, NODES, DAYS)
    measured = step("attribute", store)[1]
    beside = step("hourly_bill", store)[1]
    assert beside["rows"] == NODES * DAYS * 24
    slowest = ", ".join(f"`{name}` {seconds:.2f}" for name, seconds in measured["slowest"].items())
    assert page.row(
        f"price from a bill, {NODES} nodes × {DAYS * 24} h",
        f"≤ {SECONDS} s",
        measured["price"] <= SECONDS,
        f"{measured['price']:.2f} s",
        f"a group by of its rows by machine and hour {beside['cpu']:.2f} s",
        f"{measured['price'] / beside['cpu']:.1f} ×",
        why=f"slowest statements: {slowest}.",
    )
