"""The FinOps Foundation's own validator on FOCUS files; GPUCOST_FOCUS_VALIDATOR names its program (docs/focus.md)."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpucost.publish import focus
from tests.bill_table import change_bill_rows
from tests.replay import bill_files
from tests.replay.billing import by_day, charges
from tests.unit.billed_fleets import MONTH
from tests.unit.test_focus import TOLD
from tests.unit.test_price_bill_fleets import FORMATS, Billed, machines, rate

PROGRAM = os.environ.get("GPUCOST_FOCUS_VALIDATOR")
# A folder with the model of 1.3, which the program lacks; without it, files of 1.3 are checked by the rules of 1.2.
MODELS = os.environ.get("GPUCOST_FOCUS_MODELS")
DOCS = Path(__file__).parents[2] / "docs" / "focus.md"

pytestmark = [
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="GPUCOST_FOCUS_VALIDATOR names no focus-validator"),
]


# A commitment that covers everything, in a reservation.
COVERED = """
    commitment_discount_id = 'plan', commitment_discount_status = 'Used', commitment_discount_category = 'Usage',
    commitment_discount_type = 'Plan', pricing_category = 'Committed', capacity_reservation_id = 'cr-1'
"""


@pytest.mark.ci
def test_every_rule_passes_except_documented_ones(tmp_path: Path) -> None:
    """Each documented rule fails in a minimal or a complete bill."""
    bare = ", ".join(f"{column} = NULL" for column in re.findall(r"(\w+) =", TOLD))
    failed = set()
    for name, update, skipped in (("bare", bare, "n2"), ("full", f"{TOLD}, {COVERED}", None)):
        (tmp_path / name).mkdir()
        fleet = Billed(tmp_path / name, machines("p4de.24xlarge"))
        charged = [charge for charge in charges(fleet.fleet, rate, 600) if charge.node["name"] != skipped]
        fleet.bill(bill_files.aws_cur(charged), "cur.csv", "aws")
        with fleet.store.write() as con:
            change_bill_rows(con, f"UPDATE bill_rows SET {update}")  # noqa: S608
        failed |= failures(fleet, "1.2")
    assert failed == documented()


@pytest.mark.parametrize("name", FORMATS)
def test_no_export_fails_other_rules(name: str, tmp_path: Path) -> None:
    kind, file, provider, write = FORMATS[name]
    fleet = Billed(tmp_path, machines(kind))
    charged = list(charges(fleet.fleet, rate, 600))
    fleet.bill(write(by_day(charged) if name == "azure" else charged), file, provider)
    for version in ("1.2", "1.3"):
        assert failures(fleet, version) <= documented(), version


def documented() -> set[str]:
    """Return the rules that fail according to docs/focus.md, by the names of FOCUS 1.2."""
    section = DOCS.read_text().split("## Checked by the FOCUS validator")[1]
    return set(re.findall(r"`(\w+-[A-Z]-\d{3}-[A-Z])`", section))


def failures(fleet: Billed, version: str) -> set[str]:
    """Return the failed rules of a file of this version by the names of 1.2, except failures due to child rules."""
    path = fleet.folder / "focus.parquet"
    focus.focus_file(fleet.config, fleet.store, MONTH, version, "parquet", path)
    command = [str(PROGRAM), "--block-download", "--applicability-criteria", "ALL", "--data-file", str(path)]
    if version == "1.3" and MODELS is not None:
        command += ["--validate-version", version, "--rule-set-path", MODELS]
    # it looks for rules in its own folder, and always exits with 0
    folder = next(Path(str(PROGRAM)).resolve().parents[1].glob("lib/python3*/site-packages"))
    output = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300).stdout
    totals = re.search(r"Total: (\d+) \| Pass: (\d+) \| Fail: (\d+)", output)
    assert totals, output[-2000:]
    assert int(totals[2]) > 290
    own = r"(?m)^❌ (?:CAU-)?(\S+): FAIL(?!.*(?:failed child rules|model_rule_reference))"
    # 1.3 adds this column, which gpucost does not write
    return {
        name
        for name in re.findall(own, output)
        if not re.match("ContractApplied|CostAndUsage-D-074-C$", name)
    }
