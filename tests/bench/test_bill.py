"""A Cost and Usage Report into the store beside the usual way, pandas read_csv and a groupby, each in a process of its own.

GPUCOST_BENCH_ROWS sets the rows of the report, 5 million by default.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from tests.unit.bills import USAGE

pytestmark = pytest.mark.bench

ROWS = int(os.environ.get("GPUCOST_BENCH_ROWS", "5000000"))
# Columns that every report has and nobody reads: a third filled, the others blank.
FILLERS = 60
PANDAS = """
import sys, pandas as pd
bill = pd.read_csv(sys.argv[1], low_memory=False)
print(bill.groupby(["lineItem/ResourceId", "lineItem/UsageStartDate"], dropna=False)["lineItem/UnblendedCost"].sum().sum())
"""


class Ran(NamedTuple):
    seconds: float
    peak_mb: float
    said: str


def report(path: Path, rows: int) -> None:
    """A report of machines by the hour: on demand, plan-covered with negations, volumes and traffic, with tags."""
    constant = {name: value for name, value in USAGE.items() if name not in VARYING}
    columns = [
        *(f"'{value}' AS \"{name}\"" for name, value in constant.items()),
        *(f'{sql} AS "{name}"' for name, sql in VARYING.items()),
    ]
    columns += [f'{f"hash(i % 97 + {n})" if n % 3 == 0 else "NULL"} AS "product/filler{n}"' for n in range(FILLERS)]
    duckdb.sql(f"COPY (SELECT {', '.join(columns)} FROM range({rows}) t(i)) TO '{path}' (HEADER, DELIMITER ',')")  # noqa: S608


HOUR = "(TIMESTAMP '2026-03-01' + to_hours((i // 8000)::INTEGER % 744))"
VARYING = {
    "identity/LineItemId": "md5(i::VARCHAR)",
    "lineItem/LineItemType": "['Usage', 'SavingsPlanCoveredUsage', 'SavingsPlanNegation', 'Usage'][i % 4 + 1]",
    "lineItem/UsageStartDate": f"strftime({HOUR}, '%Y-%m-%dT%H:%M:%SZ')",
    "lineItem/UsageEndDate": f"strftime({HOUR} + INTERVAL 1 HOUR, '%Y-%m-%dT%H:%M:%SZ')",
    "lineItem/UsageType": (
        "['BoxUsage:p5.48xlarge', 'BoxUsage:p4d.24xlarge', 'BoxUsage:p4d.24xlarge', 'EBS:VolumeUsage.gp3'][i % 4 + 1]"
    ),
    "lineItem/ResourceId": "CASE WHEN i % 4 <> 2 THEN printf('i-%017x', i % 8000) END",
    "lineItem/UnblendedCost": "['55.04', '21.957642', '-21.957642', '0.0321'][i % 4 + 1]",
    "lineItem/UsageAmount": "['1', '1', '1', '0.4'][i % 4 + 1]",
    "savingsPlan/SavingsPlanEffectiveCost": "CASE i % 4 WHEN 1 THEN 13.18 END",
    "resourceTags/user:team": "['research', 'serving', NULL][i % 3 + 1]",
    "resourceTags/user:env": "CASE WHEN i % 2 = 0 THEN 'prod' END",
}


def run(*command: str, **environment: str) -> Ran:
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | environment)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, said
    return Ran(time.perf_counter() - began, used.ru_maxrss / 1024, said)


def test_a_report_beside_pandas(tmp_path: Path) -> None:
    path = tmp_path / "cur.csv"
    report(path, ROWS)
    store = str(tmp_path / "store.duckdb")
    ours = run(sys.executable, "-m", "gpucost", "collect", "aws", str(path), "--store", store, TMPDIR=str(tmp_path))
    usual = run(sys.executable, "-c", PANDAS, str(path))
    size = path.stat().st_size / 1e6
    print(f"\n{ROWS:,} rows, {size:,.0f} MB of CSV; the store is {Path(store).stat().st_size / 1e6:,.0f} MB")
    for name, ran in (("gpucost collect aws", ours), ("pandas read_csv + groupby", usual)):
        print(f"{name}: {ran.seconds:.1f} s, {ROWS / ran.seconds:,.0f} rows/s, peak {ran.peak_mb:,.0f} MB")
    with duckdb.connect(store, read_only=True) as con:
        count, billed = con.execute("SELECT count(*), sum(billed_cost)::DOUBLE FROM charges").fetchall()[0]
    assert count == ROWS
    assert billed == pytest.approx(float(usual.said), rel=1e-9)
    assert ours.peak_mb < max(2500, usual.peak_mb)
