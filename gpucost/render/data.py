"""Reports as JSON, flat CSV and Parquet."""

from collections.abc import Iterator
from dataclasses import fields, replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from textwrap import indent
from typing import Any

from gpucost.render import schema
from gpucost.render.view import ApiCost, Measures, NotCollected, ReportView, Row, Unallocated
from gpucost.store.table_files import csv_text, harmless, save_rows


def to_json(view: ReportView) -> str:
    """The JSON contract gpucost.report/1, row by row: together they would be slow."""
    text = schema.to_json(replace(view, rows=()), "report")
    if not view.rows:
        return text
    head, _, tail = text.partition('  "rows": [],\n')
    rows = ",\n".join(map(_row_text, view.rows))
    return f'{head}  "rows": [\n{rows}\n  ],\n{tail}'


def _row_text(row: Row) -> str:
    values = schema.to_dict(row)
    if row.shared:  # with an object in it
        return indent(schema.json_text(values), "    ").rstrip()
    # json.dumps with an indent is ten times slower
    text = schema.json_text(values, indent=None, separators=(",\n      ", ": "))
    return f"    {{\n      {text[1:-2]}\n    }}"


def to_csv(view: ReportView) -> str:
    """One line per row: kind, the dimensions, every measure, currency. Empty is unknown or not applicable.

    `cost` is the cost of the row's kind, including unallocated, not collected and bought tokens: the column adds up
    to the node cost plus bought tokens. Amounts shared by a [[shared_costs]] rule are in a column
    `shared_costs.NAME`. Text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    return "".join(csv_lines(view))


def csv_lines(view: ReportView) -> Iterator[str]:
    """The lines of to_csv: the names of the columns, then the rows."""
    columns, rows = flat_table(view)
    yield csv_text([map(harmless, columns)])
    writers = [_text if type_ == "VARCHAR" else _number for type_ in columns.values()]
    for row in rows:
        yield ",".join([write(value) for write, value in zip(writers, row, strict=True)]) + "\n"


def to_parquet(view: ReportView, path: Path) -> None:
    """The columns and rows of to_csv, typed, with text unchanged."""
    save_rows(*flat_table(view), path)


#: In flat rows these are the cost of a row of their kind: one column adds up to the total.
IN_COST = ("unallocated_cost", "not_collected_cost", "api_cost")


def flat_table(view: ReportView) -> tuple[dict[str, str], Iterator[list[Any]]]:
    """The rows without nesting, and the names and types of their columns: VARCHAR, DOUBLE, DECIMAL(38,9)."""
    shared = _flat(schema.to_dict(view.totals_shared.as_total())) if view.totals_shared else {}
    kinds = {"measures": Measures, "unallocated": Unallocated, "not_collected": NotCollected}
    columns = dict.fromkeys(("kind", *view.by), "VARCHAR")
    parts = {}
    for part, kind in (kinds | {"api": ApiCost} if view.totals_api else kinds).items():
        numbers = [field for field in fields(kind) if field.name not in IN_COST]
        parts[part] = [field.name for field in numbers]
        for field in numbers:
            columns[field.name] = "DECIMAL(38,9)" if "Decimal" in str(field.type) else "DOUBLE"
    columns |= dict.fromkeys(shared, "DECIMAL(38,9)") | {"currency": "VARCHAR"}
    cost = list(columns).index("cost")

    def rows() -> Iterator[list[Any]]:
        for row in view.rows:
            values: list[Any] = [row.kind, *map(row.keys.__getitem__, view.by)]
            for part, names in parts.items():
                of_part = getattr(row, part)
                values += [getattr(of_part, name, None) for name in names]
            values[cost] = row.own_cost
            if shared:
                values += map(_flat(schema.to_dict(row.shared) if row.shared else {}).get, shared)
            yield [*values, view.currency]

    return columns, rows()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    by_rule = row.pop("shared_costs", {})
    return row | {f"shared_costs.{name}": amount for name, amount in by_rule.items()}


@lru_cache(maxsize=2**16)
def _text(value: str | None) -> str:
    return csv_text([[harmless(value)]])[:-1] if value else ""


def _number(value: float | Decimal | None) -> str:
    """Numbers without exponents, for spreadsheets and awk."""
    if value is None:
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else f"{value:.9f}".rstrip("0").rstrip(".")
