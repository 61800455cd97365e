"""Reports as flat CSV and Parquet."""

from __future__ import annotations

from dataclasses import fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucost.render import schema
from gpucost.render.view import ApiCost, Measures, NotCollected, ReportView, Unallocated
from gpucost.store.table_files import csv_text, harmless, save_rows


def to_csv(view: ReportView) -> str:
    """One line per row: kind, the dimensions, every measure, currency. Empty is unknown or not applicable.

    `cost` is the cost of the row's kind, including unallocated, not collected and bought tokens: the column adds up
    to the node cost plus bought tokens. Amounts shared by a [[shared_costs]] rule are in a column
    `shared_costs.NAME`. Text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    columns, rows = flat_table(view)
    return csv_text([map(harmless, columns), *(map(_plain, row) for row in rows)])


def to_parquet(view: ReportView, path: Path) -> None:
    """The columns and rows of to_csv, typed, with text unchanged."""
    save_rows(*flat_table(view), path)


#: In flat rows these are the cost of a row of their kind: one column adds up to the total.
IN_COST = ("unallocated_cost", "not_collected_cost", "api_cost")


def flat_table(view: ReportView) -> tuple[dict[str, str], list[list[Any]]]:
    """The rows without nesting, and the names and types of their columns: VARCHAR, DOUBLE, DECIMAL(38,9)."""
    shared = _flat(schema.to_dict(view.totals_shared.as_total())) if view.totals_shared else {}
    kinds = (Measures, Unallocated, NotCollected, *([ApiCost] if view.totals_api else []))
    columns = dict.fromkeys(("kind", *view.by), "VARCHAR")
    for kind in kinds:
        for field in fields(kind):
            if field.name not in IN_COST:
                columns[field.name] = "DECIMAL(38,9)" if "Decimal" in str(field.type) else "DOUBLE"
    columns |= dict.fromkeys(shared, "DECIMAL(38,9)") | {"currency": "VARCHAR"}
    rows = (
        _flat(schema.to_dict(row)) | {"cost": row.own_cost, "currency": view.currency} for row in view.rows
    )
    return columns, [[row.get(name) for name in columns] for row in rows]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    by_rule = row.pop("shared_costs", {})
    return row | {f"shared_costs.{name}": amount for name, amount in by_rule.items()}


def _plain(value: str | float | Decimal | None) -> str:
    """Numbers without exponents, for spreadsheets and awk."""
    if value is None:
        return ""
    if isinstance(value, int | float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return f"{value:f}" if isinstance(value, Decimal) else harmless(value)
