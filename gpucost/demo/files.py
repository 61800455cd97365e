"""What a demo leaves beside its store: the configuration and the price book, and how a folder is found fit for them."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from gpucost.demo import bill
from gpucost.demo.model import TEAMS
from gpucost.errors import UsageError
from gpucost.model import Period, iso

STORE, CONFIG, BOOK = "gpucost.duckdb", "gpucost.toml", "prices.csv"
_MARK = "# The sample fleet of `gpucost demo`."

#: What on-demand machines of a type cost where a commitment pays for them: (instance type, purchase option, $ per node-hour).
_COMMITTED = (
    # the mean of two machines, of which the plan pays for one and a half
    (bill.PLAN_TYPE, "savings_plan", "17.32"),
    (bill.RESERVED_TYPE, "reserved", bill.RESERVED_AMORTIZED),
)
#: From the middle of the month H100s in one zone are scarce.
_DEARER = ("p5.48xlarge", "us-east-1c", "23.60", "27.90")


def prepare(folder: Path) -> None:
    """Makes `folder` an empty place for a demo; what an earlier demo left there goes.

    Raises UsageError where the folder holds anything else, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = {entry.name for entry in folder.iterdir()}
        config = folder / CONFIG
        is_demo = config.is_file() and config.read_text(encoding="utf-8").startswith(_MARK)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder} cannot hold a demo: {error}", "gpucost demo --keep ./gpucost-demo") from None
    if found and not is_demo:
        raise UsageError(
            f"{folder} is not empty and holds no earlier demo: {', '.join(sorted(found)[:3])}",
            "name a new directory, or empty this one",
        )
    for path in (*(folder / name for name in (STORE, f"{STORE}.wal", CONFIG, BOOK)), *folder.glob(bill.FILES)):
        path.unlink(missing_ok=True)


def write(folder: Path, month: Period) -> Path:
    """Writes configuration and price book, which is for a month that no bill is there of; returns the configuration's path."""
    (folder / BOOK).write_text(_book(month), encoding="utf-8")
    config = folder / CONFIG
    config.write_text(_config(), encoding="utf-8")
    return config


def _book(month: Period) -> str:
    rows = ["provider,region,zone,instance_type,purchase_option,price_per_hour,currency,effective_start"]
    committed = {instance_type: (option, price) for instance_type, option, price in _COMMITTED}
    for instance_type, on_demand, spot in bill.PRICES:
        option, price = committed.get(instance_type, ("on_demand", on_demand))
        rows.append(f"aws,us-east-1,,{instance_type},{option},{price},USD,")
        rows.append(f"aws,us-east-1,,{instance_type},spot,{spot},USD,")
    instance_type, zone, before, after = _DEARER
    rows.append(f"aws,us-east-1,{zone},{instance_type},spot,{before},USD,")
    rows.append(f"aws,us-east-1,{zone},{instance_type},spot,{after},USD,{iso(month.start + timedelta(days=16, hours=9))}")
    return "\n".join(rows) + "\n"


def _config() -> str:
    teams = "\n".join(
        f"\n[[teams]]\nname = {json.dumps(name)}\nnamespaces = {json.dumps(list(namespaces))}"
        for name, namespaces in TEAMS.items()
    )
    return f"""{_MARK} Nothing here is real; change it and run `gpucost report` again.
store = "{STORE}"
timezone = "UTC"
currency = "USD"
# no server to collect from: the samples in the store are made up
prometheus = []

[prices]
book = "{BOOK}"

# the enterprise agreement; a bill has it already
[[prices.discounts]]
percent = {Decimal(bill.DISCOUNT) * 100:.0f}
provider = "aws"

[idle]
threshold_percent = 5

[targets]
efficiency = 0.80
spot_ratio = 0.70

[[budgets]]
name = "all GPUs"
amount = 85000

[[budgets]]
name = "team research"
team = "research"
amount = 25000
{teams}
"""
