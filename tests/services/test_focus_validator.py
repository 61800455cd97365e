"""The FinOps Foundation's own validator on FOCUS 1.2 files; GPUCOST_FOCUS_VALIDATOR names its program (docs/focus.md)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpucost import pipeline
from tests.replay.billing import by_day, charges
from tests.unit.test_price_bill_fleets import FORMATS, Billed, machines, rate

PROGRAM = os.environ.get("GPUCOST_FOCUS_VALIDATOR")

pytestmark = [
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="GPUCOST_FOCUS_VALIDATOR names no focus-validator"),
]

# Its model asks that InvoiceId be null and that it be not; gpucost does not keep invoice numbers, so it is null.
EXPECTED = {"InvoiceId-C-005-C"}


@pytest.mark.parametrize("name", FORMATS)
def test_the_validator_fails_nothing_else(name: str, tmp_path: Path) -> None:
    kind, file, provider, write = FORMATS[name]
    fleet = Billed(tmp_path, machines(kind))
    told = list(charges(fleet.fleet, rate, 600))
    fleet.bill(write(by_day(told) if name == "azure" else told), file, provider)
    path = tmp_path / "focus.parquet"
    pipeline.focus_file(fleet.config, fleet.store, "2026-03", "1.2", "parquet", path)
    # it looks for its rules beside itself, and ends with 0 whatever it finds
    folder = next(Path(str(PROGRAM)).resolve().parents[1].glob("lib/python3*/site-packages"))
    command = [str(PROGRAM), "--block-download", "--validate-version", "1.2", "--data-file", str(path)]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300).stdout
    totals = re.search(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+)", said)
    assert totals, said[-2000:]
    assert set(re.findall(r"❌ (\S+): FAIL", said)) == EXPECTED
    assert int(totals[2]) > 100
