"""The sample fleet's bill: a cost and usage report of its machines and of what an account pays besides, as AWS delivers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.engine import run_stage
from gpucost.store import bill_files

if TYPE_CHECKING:
    from pathlib import Path

    from gpucost.demo.fleet import Fleet
    from gpucost.periods import Period

#: $ per node-hour before the discount: (instance type, on demand, spot).
PRICES = (
    ("p4d.24xlarge", "21.96", "10.40"),
    ("p5.48xlarge", "55.04", "23.60"),
    ("g4dn.12xlarge", "3.91", "1.45"),
    ("g5.12xlarge", "5.67", "2.30"),
)
#: Machines of the accounts that no cluster knows.
_OTHER_PRICES = (("g5.4xlarge", "1.624", "0.65"), ("m6i.2xlarge", "0.384", "0.15"))
#: The enterprise agreement takes this share off everything that is paid but support and tax.
DISCOUNT = "0.10"
#: A savings plan pays for on-demand machines of one type: as many as its $ per hour buy at its price, for 1 year, no upfront.
PLAN_TYPE, PLAN_COMMITMENT, PLAN_PRICE = "p4d.24xlarge", "24.00", "15.84"
#: Two reserved instances, partly paid upfront, for 1 year: $ upfront for each, and per hour; and both together per hour.
RESERVED_TYPE, RESERVED_COUNT, RESERVED_UPFRONT, RESERVED_PRICE = "g5.12xlarge", 2, "15768", "1.77"
RESERVED_AMORTIZED = "3.57"

#: The names of bills in a demo's folder.
FILES = "cur-*.parquet"

_PAYER, _ACCOUNT, _LAB = "111122223333", "444455556666", "777788889999"
#: Seconds that a machine is billed before and after its node is seen.
_BOOT, _DRAIN = 150, 630
_HOUR, _DAY = 3600, 86_400


def write(fleet: Fleet, month: Period, folder: Path) -> Path:
    """Writes the bill of a month of the fleet into `folder`, in Parquet; returns its path."""
    path = folder / FILES.replace("*", f"{month.start:%Y-%m}")
    machines = _machines(fleet, month)
    columns = ("id", "instance_type", "option", "zone", "account", "from_s", "to_s")
    params: dict[str, Any] = {name: list(values) for name, values in zip(columns, zip(*machines, strict=True), strict=True)}
    priced = zip(*PRICES, *_OTHER_PRICES, strict=True)
    params |= dict(zip(("priced_type", "on_demand", "spot"), map(list, priced), strict=True))
    params |= {
        "from": f"{month.start:%Y-%m-%d}", "to": f"{month.end:%Y-%m-%d}", "invoice": f"{month.start:%Y%m}7731",
        "payer": _PAYER, "main_account": _ACCOUNT, "discount": DISCOUNT,
        "plan": f"arn:aws:savingsplans::{_PAYER}:savingsplan/5f0c7a52-demo", "plan_type": PLAN_TYPE,
        "plan_commitment": PLAN_COMMITMENT, "plan_price": PLAN_PRICE,
        "reservation": f"arn:aws:ec2:us-east-1:{_PAYER}:reserved-instances/8a41c2-demo", "reserved_type": RESERVED_TYPE,
        "reserved_count": RESERVED_COUNT, "reserved_upfront": RESERVED_UPFRONT, "reserved_price": RESERVED_PRICE,
        "capacity_reservation": "cr-0b7e64d1",
    }  # fmt: skip
    with bill_files.workspace(folder) as con:
        run_stage(con, __package__, "bill", params)
        con.table("cur").write_parquet(str(path))
    return path


def _machines(fleet: Fleet, month: Period) -> list[tuple[str, str, str, str, str, int, int]]:
    """(id, instance type, how it is bought, zone, account, from, to): the fleet's, and some that no cluster has seen."""
    start, end = month.start_ms // 1000, month.end_ms // 1000
    found = [
        (
            node.machine.rpartition("/")[2], node.pool.instance_type, node.pool.capacity_type, node.pool.zone, _ACCOUNT,
            max(start, node.start - _BOOT), min(end, node.end + _DRAIN),
        )
        for node in fleet.nodes
        if node.start < end and start < node.end
    ]  # fmt: skip
    failed, desk = start + 11 * _DAY + 40_000, start + 6 * _DAY + 9 * _HOUR
    held = start + 24 * _DAY
    return [
        *found,
        ("i-0aa17e3f9c2d4b601", "m6i.2xlarge", "on_demand", "us-east-1a", _ACCOUNT, start, end),
        ("i-0aa17e3f9c2d4b602", "m6i.2xlarge", "on_demand", "us-east-1b", _ACCOUNT, start, end),
        # it never joined its cluster; somebody's own machine, over a weekend too
        ("i-0dead51b3c0f2a771", "p5.48xlarge", "spot", "us-east-1c", _ACCOUNT, failed, failed + 840),
        ("i-0c0ffee19d2b6a443", "g5.4xlarge", "on_demand", "us-east-1d", _LAB, desk, desk + 4 * _DAY + 31 * 60),
        ("cr-0d4f81e2", "p5.48xlarge", "unused", "us-east-1a", _ACCOUNT, held, held + _DAY),
    ]
