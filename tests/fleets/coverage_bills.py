"""Bills for time not collected: its cost, and whether machines were off. One day."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import count
from typing import Any

from tests.fleets.case import Case, Edit, case
from tests.fleets.coverage import NIGHT, SIGNED, UNPLACED, boots, day, held
from tests.replay import bill_files
from tests.replay.billing import Charge, charges
from tests.replay.cases.words import at, fleet, node
from tests.replay.fleet import Fleet
from tests.text_tables import words
from tests.unit.bills import csv_text

INSTANCES = count(1)


def own(described: Fleet) -> Fleet:
    """Return the fleet with unique machines, since bills name them."""
    for one in described["nodes"]:
        if one["provider"] == "karpenter":
            one["provider_id"] = f"aws:///{one['zone']}/i-{next(INSTANCES):017x}"
    return described


def cur(
    described: Fleet,
    keep: Callable[[Charge], bool] = lambda _charge: True,
    cells: Callable[[dict[str, str]], dict[str, str]] = lambda _row: {},
) -> str:
    """Return a bill of the given hours of the fleet at $21.96, with `cells` of each row replaced."""
    billed = [
        one for one in charges(described, lambda _node, _hour: ("on_demand", Decimal("21.96"))) if keep(one)
    ]
    rows = list(csv.DictReader(io.StringIO(bill_files.aws_cur(billed))))
    return csv_text([row | cells(row) for row in rows])


def outside(charge: Charge) -> bool:
    """Return whether the charge is outside of 5:00 to 15:00."""
    return not at(5) <= charge.start < at(15)


def pair(kind: str = "p4de.24xlarge", hours: tuple[float, float] = (0, 24)) -> Fleet:
    """Return two machines, n of AWS and m of a given kind, silent from 5:00 to 15:00."""
    nodes = ["n | p4de.24xlarge | 0 | 24", node("m", kind, *hours)]
    return own(fleet(24, nodes, ["train | n | 0 | 0 | 24"], {}, ksm_silent=[[at(5), at(15)]]))


def unbilled(begins: float, ends: float, kind: str) -> Case:
    """Return a case with m on no bill, so its state is unknown; a partly signed gap is one gap."""
    described = pair("metal-mi300x", (begins, ends))
    return case(
        f"a node on no bill from {begins:g} to {ends:g} next to a gap", described, "", settings=SIGNED.format("07:00"),
        bill=cur(described, lambda one: one.node["name"] == "n" and outside(one)),
        gaps=f"{kind} 5 6, {kind} 6 7, {kind} 7 15",
    )  # fmt: skip


def minutes(billed: int, gaps: str) -> Case:
    """Return a case with both machines billed for so many minutes of the hour at 8:00."""
    described, part = pair(), {"line_item_usage_amount": str(billed / 60)}
    bill = cur(
        described, lambda one: outside(one) or one.start == at(8),
        lambda row: part if "T08:" in row["line_item_usage_start_date"] and row["pricing_unit"] == "Hrs" else {},
    )  # fmt: skip
    return case(f"{billed} minutes of two machines in a gap", described, "", bill=bill, gaps=gaps)


def two_accounts(name: str, until: int, gap: str) -> Case:
    """Return a case with n and m in two accounts: m's bill ends within its gap, and n's next bill exists already."""
    described = pair()
    first = {"line_item_usage_account_id": "SECOND-ACCOUNT"}
    april = first | {"bill_billing_period_start_date": "2026-04-01T00:00:00Z"}
    bills = [
        cur(described, lambda one: one.node["name"] == "n" and outside(one), lambda _row: first),
        cur(described, lambda one: one.node["name"] == "m" and outside(one) and one.start < at(until)),
        cur(described, lambda one: one.node["name"] == "n" and one.start in (at(0), at(20)), lambda _row: april),
    ]  # fmt: skip
    return case(
        name, described, "", bill=bills[0] + "".join(bill.partition("\n")[2] for bill in bills[1:]), gaps=gap
    )


def billed(
    name: str,
    silence: tuple[float, float],
    table: str,
    *changes: Edit,
    bill: Callable[[Fleet], str],
    **more: Any,
) -> Case:
    """Return the day with this gap, on a unique machine."""
    described = own(day(silence))
    return case(name, described, table, *changes, bill=bill(described), **more)


UNSEEN = own(fleet(
    24, ["n | p4de.24xlarge | 0 | 24", "x | p4de.24xlarge | 6 | 14"], ["train | n | 0 | 0 | 24"], {}, ksm_silent=[[at(5), at(15)]]
))  # fmt: skip
WITHIN = own(day((10.2, 10.7)))
MONTH = words("line_item_usage_start_date=2026-03-01T00:00:00Z line_item_usage_end_date=2026-04-01T00:00:00Z")


def first_hours(kind: str, of_month: str) -> Callable[[Fleet], str]:
    """Return a bill of the hours until 5:00; rows with this text in a column cover the whole month."""
    return partial(
        cur,
        keep=lambda one: one.start < at(5),
        cells=lambda row: MONTH if re.match(of_month, row[kind]) else {},
    )


def without_ten(described: Fleet) -> str:
    return cur(described, lambda one: one.start != at(10))


def partly(described: Fleet) -> str:
    """Return a bill of 5 minutes of the hour at 10:00 and 6 of the hour at 11:00, at $60."""
    part = {at(10): 300, at(11): 360}
    whole = charges(described, lambda _node, _hour: ("on_demand", Decimal(60)))
    seconds = [(one, part.get(one.start, 3600)) for one in whole]
    return bill_files.aws_cur([replace(one, seconds=ran, cost=Decimal(ran) / 60) for one, ran in seconds])


def with_another(described: Fleet) -> str:
    """Return a bill with another machine that ran from 2:00 to 14:00."""
    other = own(fleet(24, ["x | p4de.24xlarge | 2 | 14"], [], {}))
    return cur(described | {"nodes": described["nodes"] + other["nodes"]})


# train 56, early 10 and late 8 of 112 collected GPU-hours, at $2.745
SEEN = """
    kind          |   cost unallocated_cost not_collected_cost not_collected
    allocated     | 203.13                0                  0             0
    unallocated   |      0           104.31                  0             0"""
MISSED = (
    SEEN
    + """
    not_collected |      0                0              219.6            80"""
)
CASES = [
    billed(
        "billed hours not collected have the cost of the bill", (5, 15), MISSED + "\n\n| capacity\n| 112", bill=cur,
        gaps="not_collected 5 15",
    ),
    billed("billed hours after the last sample have the cost of the bill", (5, 24), """
        kind          |  cost unallocated_cost not_collected_cost not_collected
        allocated     | 82.35                0                  0             0
        unallocated   |     0            27.45                  0             0
        not_collected |     0                0             417.24           152""",
        bill=cur, gaps="not_collected 5 ever", warnings=UNPLACED,
    ),
    billed("hours without charges are off", (5, 15), SEEN, bill=partial(cur, keep=outside), gaps="off 5 15"),
    billed(
        "a fee or tax of the month covers none of its hours", (5, 15), "", gaps="not_collected 5 15",
        bill=first_hours("line_item_line_item_type", "(?!Usage$)"),
    ),
    billed(
        "usage that is billed by the month covers none of its hours", (5, 15), "", gaps="not_collected 5 15",
        bill=first_hours("line_item_usage_type", "(?!.*Box)"),
    ),
    unbilled(0, 24, "not_collected"), unbilled(0, 5, "not_collected"), unbilled(15, 24, "not_collected"), unbilled(18, 24, "off"),
    minutes(4, "off 5 15"), minutes(6, "off 5 8, not_collected 8 9, off 9 15"),
    two_accounts("a later bill of one account does not cover another", 5, "not_collected 5 15"),
    two_accounts("bills of all accounts show that machines were off", 24, "off 5 15"),
    billed(
        "a bridged hour that the bill leaves out costs nothing", (9.5, 11), """
        kind        |    cost unallocated_cost not_collected_cost not_collected
        allocated   | 326.655                0                  0             0
        unallocated |       0          178.425                  0             0""",
        boots(-100, 10.25, instance="n"), bill=without_ten, gaps="bridged 9.5 11",
        warnings="stopped_node 1.0 h of node n are not charged",
    ),
    # the price book prices this one hour
    held(
        "a bill without a collected hour does not explain its gap", WITHIN, "96 20 8", "545.08",
        bill=without_ten(WITHIN), gaps="bridged 10.2 10.7",
    ),
    # stopped at 10:05 and started at 11:54, within a gap from 10:04 to 11:56
    billed(
        "the billed part of a bridged hour ran", (10 + 4 / 60, 11 + 56 / 60), """
        kind        |   cost unallocated_cost not_collected_cost not_collected
        allocated   | 1751/2                0                  0             0
        unallocated |      0            911/2                  0             0

        pod   | held
        train | 1331/15
        early | 20
        late  | 8""", boots(-100, 11.9, instance="n"), bill=partly, gaps="bridged 10.07 11.93",
        warnings="stopped_node 1.8 h of node n are not charged: metrics are missing, and its bill does not include these hours",
    ),
    billed(
        "hours declared off but billed have the cost of the bill", (5, 15), MISSED, bill=cur,
        settings=NIGHT, gaps="off 5 15",
        warnings="off_but_billed cluster CLUSTER was declared off, but billed: 10.0 hours of its machines and 219.60 USD",
    ),
    case(
        "machines billed only during a gap", UNSEEN, "", bill=cur(UNSEEN), gaps="not_collected 5 15",
        warnings="""
            unplaced_device
            billed_unseen one machine with GPUs was billed only while cluster CLUSTER was not collected: 8.0 hours and 175.68 USD
        """,
    ),
    billed(
        "another machine on the bill is not a GPU node", (5, 15), "", bill=with_another, gaps="not_collected 5 15",
    ),
]  # fmt: skip
