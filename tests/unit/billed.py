"""Made-up bills for price tests, written straight into the tables that a load fills."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duckdb

from tests.bill_table import bill_table
from tests.text_tables import table, words
from tests.unit.price_nodes import DAY

KEY = "i-0abc"
ROW: dict[str, Any] = {"hour": 0, "length": 1.0, "hours": 1.0} | words(f"""
    key={KEY} cost=10 currency=USD type=p4d.24xlarge account=444455556666 region=us-east-1 pricing=Standard category=Usage
    cause=same kind=instance""")
#: Columns of a bill's rows, by their names in ROW.
COLUMNS = words("""
    key=instance_key hours=instance_hours currency=billing_currency type=instance_type account=sub_account_id
    pricing=pricing_category category=charge_category cause=cost_cause reservation=capacity_reservation_id
    correction=charge_class payer=billing_account_id invoice=invoice_id sku=sku_description service=service_code
    plan=commitment_discount_id status=commitment_discount_status discount=commitment_discount_type""")


def bill(
    con: duckdb.DuckDBPyConnection,
    *rows: dict[str, Any],
    provider: str = "aws",
    period: str = "2026-10",
    told_as: str = "aws-cur",
    is_final: bool | None = None,
) -> int:
    """Put a bill of rows and its load into the store; return the bill's number.

    Each row gives its differences from ROW; hours count from DAY.
    """
    number: int = con.execute("SELECT coalesce(max(bill_id), 0) + 1 FROM bills").fetchall()[0][0]
    con.execute(
        "INSERT INTO bills (bill_id, provider, source, format, billing_account_id, billing_period, is_whole, is_final, digest,"
        " load_bills, rows, load_id, loaded_at) VALUES ($1, $2, $2, $3, '', $4, false, $6, '', 1, $5, $1, now()::TIMESTAMP)",
        [number, provider, told_as, period, len(rows), is_final],
    )
    with bill_table(con):
        for place, changes in enumerate(rows):
            row = ROW | changes
            start = DAY.replace(tzinfo=None) + timedelta(hours=float(row.pop("hour")))
            own = {
                "bill_id": number, "charge_key": place, "source_file": "f.csv", "source_row": place,
                "charge_period_start": start, "charge_period_end": start + timedelta(hours=float(row.pop("length"))),
                "effective_cost": row.pop("cost"),
            }  # fmt: skip
            own["billed_cost"] = row.pop("billed", own["effective_cost"])
            values = own | {COLUMNS.get(name, name): value for name, value in row.items()}
            names, marks = ", ".join(values), ", $".join(values)
            con.execute(f"INSERT INTO bill_rows ({names}) VALUES (${marks})", values)  # noqa: S608 - names of our own
    return number


def hours(*numbers: int, **other: Any) -> list[dict[str, Any]]:
    """Rows of whole hours that differ only in the hour."""
    return [{"hour": number, **other} for number in numbers]


def covered(con: duckdb.DuckDBPyConnection, text: str) -> None:
    """Put a bill from a table of charges of one day each.

    Charges with a `plan` are committed.
    """
    usage: dict[str, Any] = {"key": None, "type": None, "hours": None}
    plan = {"pricing": "Committed", "status": "Used", "discount": "Savings Plan"}
    rows = [usage | (plan if "plan" in row else {}) | {"length": 24} | row for row in table(text)]
    bill(con, *rows)
