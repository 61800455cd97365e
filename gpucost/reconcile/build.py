"""Builds the account of a billing period from the stored bill and what was attributed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.catalog import load_catalog
from gpucost.engine import answer_rows, run_stage
from gpucost.errors import IncompleteError, PriceError
from gpucost.periods import from_ms, to_ms
from gpucost.reconcile.view import (
    BASES,
    LINES,
    Beside,
    Cause,
    ClassRow,
    Invoice,
    LineRow,
    Machine,
    Reconciliation,
    Statement,
    problems_of,
)
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PACKAGE = "gpucost.reconcile"


def reconcile(con: DuckDBPyConnection, month: str, currency: str, by: tuple[str, ...] = ()) -> Reconciliation:
    """The account of the billing period `month` (`2026-10`), from an attribution that is up to date.

    Works on a read-only connection that has the rates of price.load_fx_rates; makes temporary tables. Raises IncompleteError
    where no bill of that month was collected, PriceError where a machine is billed in a currency that has no rate.
    """
    causes = _ask(con, "60_charges", {"month": month})
    if not causes:
        raise IncompleteError(*_no_bill(con, month))
    for lost in _ask(con, "05_without_rate", {"month": month}):
        raise _no_rate(lost["currency"], currency, f"{from_ms(lost['from_ms']):%Y-%m-%d}", month)
    sqlfiles.run(con, "machine_charges")
    run_stage(con, _PACKAGE, "10_machine_hours", {"month": month})
    load_catalog(con)
    run_stage(con, _PACKAGE, "20_row_classes", {"month": month, "currency": currency})
    for name in ("30_machine_parts", "35_machine_shares"):
        run_stage(con, _PACKAGE, name)
    sums = _ask(con, "40_lines", {"by": []})
    (total,) = _ask(con, "41_total", {})
    start, end = _utc_month(month)
    named = {row["line"]: Decimal(row["cost"]) for row in sums}
    lines = {line: named.get(line, Decimal(0)) for line in LINES}
    statements, explained = tuple(_statements(con, currency)), tuple(_cause(row) for row in causes)
    problems = problems_of(statements, explained, float(total["unexplained_hours"]))
    cost, is_final = Decimal(total["effective_cost"]), all(row["is_final"] for row in causes)
    unbilled = tuple(
        Machine(row["node"], row["instance_type"], float(row["hours"] or 0), Decimal(row["cost"]))
        for row in _ask(con, "51_unbilled_nodes", {"from_ms": start, "to_ms": end})
    )
    return Reconciliation(
        month=month,
        currency=currency,
        providers=tuple(sorted({row["provider"] for row in causes})),
        is_final=is_final,
        is_exact=not problems,
        problems=problems,
        statements=statements,
        invoices=tuple(Invoice(**row) for row in _ask(con, "44_invoices", {"month": month})),
        effective_cost=cost,
        instance_hours=float(total["instance_hours"]),
        machines=int(total["machines"]),
        lines=lines,
        difference=cost - sum(lines.values(), Decimal(0)),
        by=by,
        rows=tuple(
            LineRow(row["line"], {key: _text(row[key]) for key in by}, Decimal(row["cost"]))
            for row in _ask(con, "40_lines", {"by": list(by)})
        )
        if by
        else (),
        causes=explained,
        beside=tuple(
            Beside(row["kind"], row["currency"], Decimal(row["cost"])) for row in _ask(con, "61_beside", {"month": month})
        ),
        unseen=tuple(
            Machine(row["instance_key"], row["instance_type"], float(row["instance_hours"]), Decimal(row["cost"]))
            for row in _ask(con, "50_unseen_machines", {})
        ),
        unbilled=unbilled,
        not_collected=(),
        final_cost=cost if is_final else Decimal(0),
        estimated_cost=sum((machine.cost for machine in unbilled), Decimal(0)),
    )


def _cause(row: dict[str, Any]) -> Cause:
    billed, effective = Decimal(row["billed_cost"]), Decimal(row["effective_cost"])
    return Cause(row["provider"], row["currency"], row["kind"], row["cause"], row["rows"], billed, effective, billed - effective)


def _ask(con: DuckDBPyConnection, name: str, params: Mapping[str, Any]) -> list[dict[str, Any]]:
    return answer_rows(con, _PACKAGE, name, params)


def _statements(con: DuckDBPyConnection, currency: str) -> Iterator[Statement]:
    classes: dict[tuple[str, str], list[ClassRow]] = defaultdict(list)
    for row in _ask(con, "42_classes", {"currency": currency}):
        classes[row["basis"], row["currency"]].append(ClassRow(row["class"], row["team"], row["rows"], row["cost"]))
    for whole in _ask(con, "43_totals", {"currency": currency}):
        for basis in BASES:
            own = classes[basis, whole["currency"]]
            yield Statement.of(basis, whole["currency"], whole["rows"], whole[f"{basis}_cost"], own)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _utc_month(month: str) -> tuple[int, int]:
    first = date.fromisoformat(f"{month}-01")
    after = date(first.year + first.month // 12, first.month % 12 + 1, 1)
    return to_ms(datetime(first.year, first.month, 1, tzinfo=UTC)), to_ms(datetime(after.year, after.month, 1, tzinfo=UTC))


def _no_rate(billed: str, currency: str, day: str, month: str) -> PriceError:
    return PriceError(
        f"the bill of {month} has machines in {billed}: there is no rate from {billed} to {currency} on {day}",
        f"set [prices] fx = {{ {billed} = … }}, what 1 {billed} is worth in {currency}, or add it to the file that [prices] "
        "fx_rates names",
    )


def _no_bill(con: DuckDBPyConnection, month: str) -> tuple[str, str]:
    months = [row[0] for row in con.execute("SELECT DISTINCT billing_period FROM bills ORDER BY ALL").fetchall()]
    if not months:
        return f"no bill of {month} was collected, nor any other", "gpucost collect aws|gcp|azure|focus PATH"
    return f"no bill of {month} was collected; there are {', '.join(months)}", "gpucost collect aws|gcp|azure|focus PATH"
