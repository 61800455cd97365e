"""A month of ten million jobs of Slurm, beside what DuckDB's own reader takes to load its text."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import pytest

from tests.bench.measured import Page, run

pytestmark = pytest.mark.bench

JOBS, RATIO, MEGABYTES = 10_000_000, 12, 2000
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


def test_ten_million_jobs(tmp_path: Path, page: Page) -> None:
    jobs = tmp_path / "jobs.psv"
    duckdb.connect().execute(_JOBS.format(jobs), [JOBS])
    (tmp_path / "gpucost.toml").write_text("")
    words = ("--config", str(tmp_path / "gpucost.toml"))
    ours = run(sys.executable, "-m", "gpucost", "collect", "slurm", str(jobs), *words)
    beside = run(sys.executable, "-c", _READER, str(jobs), str(tmp_path / "beside.duckdb"))
    report = run(sys.executable, "-m", "gpucost", "report", "--month", "2026-11", "--format", "json", *words)
    held = json.loads(report.said)["totals"]["allocated_gpu_hours"]
    assert held == pytest.approx(sum(60 + i * 7919 % 900 for i in range(0, JOBS, 3)) / 3600, rel=1e-9)
    assert page.row(
        f"collect slurm, {JOBS:,} jobs",
        f"≤ {RATIO} ×, ≤ {MEGABYTES:,} MB",
        ours.cpu <= RATIO * beside.cpu and ours.peak_mb <= MEGABYTES,
        f"{ours.cpu:.0f} s, {ours.peak_mb:,.0f} MB",
        f"DuckDB's reader {beside.cpu:.0f} s",
        f"{ours.cpu / beside.cpu:.1f} ×; attributed in {report.cpu:.0f} s, {report.peak_mb:,.0f} MB",
        why="each record is cut and its times are read in Python.",
    )
