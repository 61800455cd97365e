"""Builds the rows of a FOCUS file from the stored bill and what was attributed, and writes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.engine.local import run_stage
from gpucost.focus.columns import columns_of
from gpucost.model import to_ms
from gpucost.store.table_files import FileKind, save_table

if TYPE_CHECKING:
    from pathlib import Path

    from duckdb import DuckDBPyConnection

_PACKAGE = "gpucost.focus"


@dataclass(frozen=True, slots=True)
class FocusTotals:
    """What a file adds up to. `billed_rows` are parts of charges; costs of them are by the bill's currency, as are estimates."""

    month: str
    charges: int
    billed_rows: int
    estimated_rows: int
    billed_cost: dict[str, Decimal]
    effective_cost: dict[str, Decimal]
    estimated_cost: Decimal


def prepare(con: DuckDBPyConnection, month: str, currency: str) -> FocusTotals:
    """Make the temporary table focus_rows of the billing period `month` (`2026-10`, UTC), from an attribution that is up to date.

    Works on a read-only connection. There are no rows where neither a bill nor metrics tell of any cost of that month.
    """
    first = date.fromisoformat(f"{month}-01")
    after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    run_stage(con, _PACKAGE, "10_charges", {"month": month})
    for name in ("20_machine_periods", "30_holders", "40_splits"):
        run_stage(con, _PACKAGE, name)
    period = {"from_ms": _start_ms(first), "to_ms": _start_ms(after)}
    run_stage(con, _PACKAGE, "50_estimates", period)
    run_stage(con, _PACKAGE, "60_rows", {"month": month, "currency": currency})
    (charges,) = con.execute("SELECT count(*) FROM focus_charges").fetchall()[0]
    sums = con.execute(
        "SELECT is_estimate, BillingCurrency, count(*), sum(BilledCost), sum(EffectiveCost) FROM focus_rows "
        "GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    billed = [row for row in sums if not row[0]]
    estimated = [row for row in sums if row[0]]
    return FocusTotals(
        month=month,
        charges=charges,
        billed_rows=sum(row[2] for row in billed),
        estimated_rows=sum(row[2] for row in estimated),
        billed_cost={row[1]: row[3] for row in billed},
        effective_cost={row[1]: row[4] for row in billed},
        estimated_cost=sum((row[4] for row in estimated), Decimal(0)),
    )


def save(con: DuckDBPyConnection, version: str, kind: FileKind, path: Path) -> None:
    """Write the rows that `prepare` made, with the columns of this version of FOCUS."""
    save_table(con, "focus_rows", columns_of(version), kind, path)


def _start_ms(day: date) -> int:
    return to_ms(datetime(day.year, day.month, day.day, tzinfo=UTC))
