"""A load that is killed with kill -9, whenever that is, leaves the store as it was; loading again ends as if nothing had been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpucost.store.connection import Store
from tests.unit.bills import Bills, csv_text, usage


@pytest.mark.parametrize("after", [1.2, *(pytest.param(late, marks=pytest.mark.slow) for late in (0.3, 0.8, 1.6, 2.0, 2.5))])
def test_killed_in_mid_load(tmp_path: Path, after: float) -> None:
    bills = Bills(tmp_path)
    first = [usage(hour, ResourceId=f"i-{machine:017x}") for machine in range(200) for hour in range(20)]
    bills.load(bills.write("old.csv", csv_text(first)))
    final = [row | {"bill/InvoiceId": "INV1", "lineItem/UnblendedCost": "30"} for row in first] + [
        usage(hour, ResourceId=f"i-{machine:017x}", InvoiceId="INV1") for machine in range(200, 600) for hour in range(20)
    ]
    path = bills.write("new.csv", csv_text(final))
    before, whole = bills.sums(), len(final)
    command = [sys.executable, "-m", "gpucost", "collect", "aws", str(path), "--store", str(bills.store.path)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"TMPDIR": str(tmp_path)}
    )
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    sums = Store(bills.store.path).query("SELECT count(*) FROM charges")[1][0][0]
    assert sums in (len(first), whole)
    if sums == len(first):
        assert bills.sums() == before
    assert not bills.load(path).errors
    assert [row[2] for row in bills.sums()] == [whole]
