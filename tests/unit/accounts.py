"""Bills written straight into the tables that a load fills, priced together, reconciled one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from duckdb import DuckDBPyConnection as Connection

from gpucost.periods import MS_PER_HOUR
from gpucost.questions.reconcile.statement import BASES, CENT, Reconciliation, reconcile
from tests.cell_tables import cell_tables
from tests.unit import billed
from tests.unit.billed import KEY
from tests.unit.price_nodes import NODE, START, run

MONTH = "2026-10"
P5 = "p5.48xlarge"
D = Decimal
EUR = D("1.1")
GONE = "i-0fff"  # a machine with GPUs that has no metrics


@dataclass(frozen=True)
class Bill:
    """Rows, each with some of: kind, key, hour, hours, type, billed, cost (effective), currency, category,
    ..."""

    rows: Sequence[dict[str, Any]]
    form: str = "aws-cur"
    payer: str = "1111"


def put(con: Connection, bill: Bill, suffix: str = "", month: str = MONTH) -> None:
    """Put a bill of the month into the store.

    The suffix is added to its payer and machines.
    """
    rows = []
    for row in bill.rows:
        own = {
            "payer": bill.payer + suffix,
            "key": row["key"] + suffix if row.get("key") else None,
            "cause": row.get("cause", "fee_amortized" if "billed" in row else "same"),
            # pricing does not subtract storage discounts from machines
            "service_category": "Storage" if row.get("kind") == "discount" else None,
        }
        rows.append({"hours": None, "type": None, "account": None} | row | own)
    billed.bill(con, *rows, period=month, told_as=bill.form, is_final=True)


def machine(hour: int = 0, key: str | None = KEY, **other: Any) -> dict[str, Any]:
    """A row for one hour of a machine with GPUs."""
    return {"kind": "instance", "key": key, "hour": hour, "hours": 1.0, "type": "p4d.24xlarge", **other}


@dataclass(frozen=True)
class Case:
    """Bills of one node, i-0abc, up and collected for 24 hours.

    Each hour, teams are allocated the parts `held`. `billed` and `effective` (if different) are rows and
    costs by class or team. `change` edits the results of pricing and attribution, given a machine and its
    node.
    """

    bills: Sequence[Bill]
    held: dict[str, float] = field(default_factory=dict)
    billed: dict[str, tuple[int, Any]] = field(default_factory=dict)
    effective: dict[str, tuple[int, Any]] = field(default_factory=dict)
    change: Callable[[Connection, dict[str, Any]], object] = lambda _con, _of: None

    @property
    def rows(self) -> int:
        return sum(len(bill.rows) for bill in self.bills)


def accounts(
    con: Connection, cases: Sequence[Case], sharing: str = "as_billed"
) -> list[Callable[[], Reconciliation]]:
    """The reconciliation of each case; all are priced together.

    Each case has its own node and billing period, and all days are the same.
    """
    nodes, months, end = [], [f"{2026 + number}-10" for number in range(len(cases))], START + 24 * MS_PER_HOUR
    for number, (case, month) in enumerate(zip(cases, months, strict=True), 1):
        nodes.append(
            NODE
            | {"node_id": number, "node": f"n{number}", "machine_id": f"{NODE['machine_id']}{number:03x}"}
        )
        for bill in case.bills:
            put(con, bill, f"{number:03x}", month)
    run(con, nodes, [], {"commitment_sharing": sharing, "fx": {"EUR": EUR}})
    con.execute("DELETE FROM collected")
    con.execute("INSERT INTO collected VALUES ('prod', $1, $2)", [START, end])
    with cell_tables(con):
        con.execute("DELETE FROM cost_hourly")
        for number, case in enumerate(cases, 1):
            left = 1 - sum(case.held.values())
            for kind, team, part in [
                *(("allocated", *one) for one in case.held.items()),
                ("unallocated", None, left),
            ]:
                con.execute(
                    CELLS,
                    {"kind": kind, "team": team, "part": part, "start": START, "end": end, "node": number},
                )
            case.change(con, {"key": f"{KEY}{number:03x}", "node": number, "start": START})
    return [partial(reconcile, con, month, "USD") for month in months]


CELLS = """
INSERT INTO cost_hourly BY NAME SELECT $kind AS kind, from_ms, to_ms, $node AS node_id, $team AS team,
    0 AS allocated_gpu_ms, 0 AS active_gpu_ms, 0 AS idle_gpu_ms, 0 AS unmeasured_gpu_ms, 0 AS utilization_gpu_ms,
    0 AS unallocated_gpu_ms, 0 AS unavailable_gpu_ms, 0 AS idle_cost,
    CASE WHEN $kind = 'allocated' THEN cost ELSE 0 END AS cost,
    CASE WHEN $kind = 'unallocated' THEN cost ELSE 0 END AS unallocated_cost,
    0 AS not_collected_cost, 0 AS not_collected_gpu_ms, 0 AS estimated_cost FROM (
SELECT greatest(p.from_ms, h.from_ms) AS from_ms, least(p.to_ms, h.from_ms + 3600000) AS to_ms,
    (p.price_per_hour * $part::DOUBLE)::DECIMAL(38, 9) AS cost
FROM node_prices AS p, (SELECT unnest(range($start, $end, 3600000)) AS from_ms) AS h
WHERE p.node_id = $node AND p.price_source = 'bill' AND p.from_ms <= h.from_ms AND h.from_ms < p.to_ms)"""


def first_hour(cost: int, other: int, discount: int = 0) -> Callable[[Connection, dict[str, Any]], None]:
    """A change of costs: `cost` for the machine's first hour and `other` for the rest.

    It has the same effect as a discount or a fee placed on these hours.
    """

    def change(con: Connection, of: dict[str, Any]) -> None:
        hour = f"CASE WHEN from_ms = $start THEN {cost} ELSE {other} END"
        less = f"CASE WHEN from_ms = $start THEN {discount} ELSE 0 END"
        con.execute(
            f"UPDATE billed_hours SET price_per_hour = {hour}, effective_cost = {hour}, discount_cost = {less} "  # noqa: S608
            "WHERE instance_key = $key",
            {name: of[name] for name in ("key", "start")},
        )
        con.execute(
            f"UPDATE cost_hourly SET cost = {hour} WHERE kind = 'allocated' AND node_id = $node",  # noqa: S608 - names of our own
            {name: of[name] for name in ("node", "start")},
        )

    return change


def of(found: Reconciliation, basis: str, currency: str = "USD") -> dict[str, tuple[int, Decimal]]:
    """Rows and cost by class or team."""
    (one,) = [one for one in found.statements if (one.basis, one.currency) == (basis, currency)]
    return {row.team or row.name: (row.rows, row.cost) for row in one.classes}


def check(found: Reconciliation, rows: int) -> None:
    """Check that both statements contain every row and add up to the cent as displayed."""
    for basis in BASES:
        own = [one for one in found.statements if one.basis == basis]
        assert sum(row.rows for one in own for row in one.classes) == sum(one.rows for one in own) == rows
    for one in found.statements:
        assert one.difference == 0
        assert sum((row.cost for row in one.classes), Decimal(0)) == one.cost
        assert all(abs(row.cost) < CENT for row in one.classes if row.name == "rounding")
        assert sum(cost for *_, cost in one.lines()) == one.cost.quantize(Decimal("0.01"))
