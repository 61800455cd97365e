"""Bills made up for tests of prices, put straight into the tables that a load fills."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import duckdb

from tests.bill_table import bill_table
from tests.unit.price_nodes import DAY

KEY = "i-0abc"
ROW: dict[str, Any] = {
    "key": KEY, "hour": 0, "length": 1.0, "hours": 1.0, "cost": "10", "currency": "USD", "type": "p4d.24xlarge",
    "account": "444455556666", "region": "us-east-1", "pricing": "Standard", "reservation": None, "correction": None,
    "cause": "same", "kind": "instance",
}  # fmt: skip


def bill(
    con: duckdb.DuckDBPyConnection,
    *rows: dict[str, Any],
    provider: str = "aws",
    period: str = "2026-10",
    told_as: str = "aws-cur",
) -> int:
    """Puts a bill of rows, each some of ROW's keys (hours count from DAY), and its load; returns its number."""
    number: int = con.execute("SELECT coalesce(max(bill_id), 0) + 1 FROM bills").fetchall()[0][0]
    con.execute(
        "INSERT INTO bills (bill_id, provider, source, format, billing_account_id, billing_period, is_whole, is_final, digest,"
        " load_bills, rows, load_id, loaded_at) VALUES ($1, $2, $2, $3, '', $4, false, NULL, '', 1, $5, $1, now()::TIMESTAMP)",
        [number, provider, told_as, period, len(rows)],
    )
    with bill_table(con):
        for place, told in enumerate(rows):
            row = ROW | told
            start = DAY.replace(tzinfo=None) + timedelta(hours=row.pop("hour"))
            span = {"start": start, "end": start + timedelta(hours=row.pop("length"))}
            con.execute(
                "INSERT INTO bill_rows BY NAME SELECT $bill AS bill_id, $place AS charge_key, $start AS charge_period_start, "
                "$end AS charge_period_end, 'Usage' AS charge_category, $correction AS charge_class, $cost AS billed_cost, "
                "$cost AS effective_cost, $currency AS billing_currency, $account AS sub_account_id, $region AS region, "
                "$type AS instance_type, $pricing AS pricing_category, $reservation AS capacity_reservation_id, $kind AS kind, "
                "$hours AS instance_hours, $key AS instance_key, $cause AS cost_cause, 'f.csv' AS source_file, "
                "$place AS source_row",
                row | span | {"bill": number, "place": place},
            )
    return number


def hours(*numbers: int, **other: Any) -> list[dict[str, Any]]:
    """Rows of whole hours, alike but for their hour."""
    return [{"hour": number, **other} for number in numbers]
