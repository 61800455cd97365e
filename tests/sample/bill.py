"""The sample fleet's bill: AWS's Cost and Usage Report of its machines and the account's other charges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.engine import run_stage
from gpucost.store import bill_files

if TYPE_CHECKING:
    from pathlib import Path

    from gpucost.periods import Period
    from tests.sample.fleet import DemoFleet

#: Parameters of bill.sql, which contains the hourly prices.
TERMS: dict[str, Any] = {
    "payer": "111122223333",
    "main_account": "444455556666",
    # the enterprise agreement discounts all payments by this share, except support and tax
    "discount": "0.10",
    # a savings plan covers on-demand machines of one type up to its hourly commitment, for 1 year, no upfront
    "plan": "arn:aws:savingsplans::111122223333:savingsplan/5f0c7a52-demo",
    "plan_type": "p4d.24xlarge",
    "plan_commitment": "24.00",
    "plan_price": "15.84",
    # two reserved instances, partial upfront, for 1 year: $ upfront for each, and per hour
    "reservation": "arn:aws:ec2:us-east-1:111122223333:reserved-instances/8a41c2-demo",
    "reserved_type": "g5.12xlarge",
    "reserved_count": 2,
    "reserved_upfront": "15768",
    "reserved_price": "1.77",
    "capacity_reservation": "cr-0b7e64d1",
}
#: Names of bills in a demo's folder.
FILES = "cur-*.parquet"
#: Seconds that a machine is billed before and after its node's samples.
_BOOT, _DRAIN = 150, 630


def write(fleet: DemoFleet, month: Period, folder: Path) -> Path:
    """Write the bill of a month of the fleet into `folder` as Parquet; return its path."""
    path = folder / FILES.replace("*", f"{month.start:%Y-%m}")
    start, end = month.start_ms // 1000, month.end_ms // 1000
    nodes = [node for node in fleet.nodes if node.start < end and start < node.end]
    machines = {
        "id": [node.machine.rpartition("/")[2] for node in nodes],
        "instance_type": [node.pool.instance_type for node in nodes],
        "option": [node.pool.capacity_type for node in nodes],
        "zone": [node.pool.zone for node in nodes],
        "from_s": [max(start, node.start - _BOOT) for node in nodes],
        "to_s": [min(end, node.end + _DRAIN) for node in nodes],
    }
    of_month = {
        "from": f"{month.start:%Y-%m-%d}",
        "to": f"{month.end:%Y-%m-%d}",
        "invoice": f"{month.start:%Y%m}7731",
    }
    with bill_files.workspace(folder) as con:
        run_stage(con, __package__, "bill", TERMS | machines | of_month)
        con.table("cur").write_parquet(str(path))
    return path
