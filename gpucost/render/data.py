"""Reports for programs: the JSON contract gpucost.report/1, and flat CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from decimal import Decimal
from pathlib import Path
from typing import Any

from gpucost.periods import iso
from gpucost.render.view import Changes, Coverage, Gap, Measures, NodeTotals, NotCollected, ReportView, Row, Shared, Unallocated
from gpucost.store.table_files import harmless, save_rows

SCHEMA = "gpucost.report/1"
_GAPS = ("not_collected", "bridged", "partial", "off")
_MEASURES = tuple(field.name for field in fields(Measures))
_UNALLOCATED = tuple(field.name for field in fields(Unallocated))
_NOT_COLLECTED = tuple(field.name for field in fields(NotCollected))


def to_json(view: ReportView) -> str:
    """The JSON contract gpucost.report/1; money and hours are plain numbers."""
    return json.dumps(to_dict(view), indent=2, ensure_ascii=False, default=number) + "\n"


def to_dict(view: ReportView) -> dict[str, Any]:
    """What to_json prints, money still Decimal."""
    nodes = asdict(view.node_totals) if view.node_totals else {field.name: None for field in fields(NodeTotals)}
    totals = asdict(view.totals) | nodes | _shared(view.totals_shared) | _changes(view.changes)
    return {
        "schema": SCHEMA,
        "from": iso(view.period.start),
        "to": iso(view.period.end),
        "currency": view.currency,
        "by": list(view.by),
        "rows": [_row(row) for row in view.rows],
        "totals": totals,
        **_previous(view.changes),
        **({"waste": view.waste} if view.waste is not None else {}),
        "coverage": coverage_dict(view.coverage),
    }


def to_csv(view: ReportView) -> str:
    """One line per row: kind, the dimensions, every measure, currency. Empty is unknown or not applicable.

    What is shared by a rule of [[shared_costs]] stands in a column `shared_costs.NAME`. Text that a spreadsheet would run as a
    formula begins with an apostrophe.
    """
    columns, rows = flat_table(view)
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    writer.writerow(harmless(name) for name in columns)
    writer.writerows([_plain(value) for value in row] for row in rows)
    return target.getvalue()


def to_parquet(view: ReportView, path: Path) -> None:
    """The same columns and rows as in to_csv, typed, text as it is."""
    save_rows(*flat_table(view), "parquet", path)


def flat_table(view: ReportView) -> tuple[dict[str, str], list[list[Any]]]:
    """The rows without any nesting, and the names and types of their columns: VARCHAR, DOUBLE, DECIMAL(38,9)."""
    shared = _flat(_shared(view.totals_shared))
    measures = {field.name: str(field.type) for kind in (Measures, Unallocated, NotCollected) for field in fields(kind)}
    columns = dict.fromkeys(("kind", *view.by), "VARCHAR")
    columns |= {name: "DECIMAL(38,9)" if "Decimal" in told else "DOUBLE" for name, told in measures.items()}
    if view.changes:
        columns |= {"previous_cost": "DECIMAL(38,9)", "cost_change": "DECIMAL(38,9)", "cost_change_percent": "DOUBLE"}
    columns |= dict.fromkeys(shared, "DECIMAL(38,9)") | {"currency": "VARCHAR"}
    rows = (_flat(_row(row)) | {"currency": view.currency} for row in view.rows)
    return columns, [[row.get(name) for name in columns] for row in rows]


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    by_rule = row.pop("shared_costs", {})
    return row | {f"shared_costs.{name}": amount for name, amount in by_rule.items()}


def _row(row: Row) -> dict[str, Any]:
    # by name, not by asdict: that copies every value, and rows can be many
    flat = {"kind": row.kind} | row.keys | {name: getattr(row.measures, name) for name in _MEASURES}
    if row.unallocated:
        flat |= {name: getattr(row.unallocated, name) for name in _UNALLOCATED}
    if row.not_collected:
        flat |= {name: getattr(row.not_collected, name) for name in _NOT_COLLECTED}
    if row.change:
        flat |= asdict(row.change)
    return flat | _shared(row.shared, is_total=False)


def _previous(changes: Changes | None) -> dict[str, Any]:
    if changes is None:
        return {}
    return {"previous": {"name": changes.period_name, "from": iso(changes.period.start), "to": iso(changes.period.end)}}


def _changes(changes: Changes | None) -> dict[str, Any]:
    if changes is None:
        return {}
    return asdict(changes.cost) | {
        "previous_unallocated_cost": changes.unallocated_cost.previous_cost if changes.unallocated_cost else None,
        "previous_not_collected_cost": changes.not_collected_cost.previous_cost if changes.not_collected_cost else None,
        "previous_node_cost": changes.node_cost.previous_cost if changes.node_cost else None,
    }


def _shared(shared: Shared | None, *, is_total: bool = True) -> dict[str, Any]:
    """What was asked for of it, and nothing else."""
    if shared is None:
        return {}
    found: dict[str, Any] = {}
    if shared.unallocated_cost is not None:
        found["shared_unallocated_cost"] = shared.unallocated_cost
    if shared.remaining_unallocated_cost is not None or (is_total and found):
        found["remaining_unallocated_cost"] = shared.remaining_unallocated_cost
    if shared.costs:
        found |= {"shared_cost": shared.shared_cost, "shared_costs": shared.costs}
    return found


def coverage_dict(coverage: Coverage) -> dict[str, Any]:
    """How far the figures can be trusted, as the JSON contracts say it."""
    return {
        **({"state": coverage.state, "reasons": list(coverage.reasons)} if coverage.state else {}),
        **({"reconciliation": coverage.reconciliation} if coverage.reconciliation else {}),
        "measured_ratio": coverage.measured_ratio,
        "price_sources": {source.name: source.share for source in coverage.price_sources},
        "price_as_of": coverage.price_as_of.isoformat() if coverage.price_as_of else None,
        "not_collected_hours": coverage.not_collected_hours,
        "bridged_hours": coverage.bridged_hours,
        **{kind: [gap_dict(gap) for gap in coverage.of_kind(kind)] for kind in _GAPS},
        "unknown_capacity_gpu_hours": coverage.unknown_capacity_gpu_hours,
        "unpriced_gpu_hours": coverage.unpriced_gpu_hours,
        **({"cost_basis": coverage.cost_basis} if coverage.cost_basis != "node" else {}),
        "warnings": [asdict(notice) for notice in coverage.warnings],
    }


def gap_dict(gap: Gap) -> dict[str, Any]:
    """Time that was not seen in full, and, where it was not collected and somebody accepts that, who and why."""
    return {
        "cluster": gap.cluster,
        "from": iso(gap.start),
        "to": iso(gap.end),
        "hours": gap.hours,
        "families": list(gap.families),
        "reason": gap.reason,
        **({"accepted_by": gap.accepted_by, "accepted_why": gap.accepted_why} if gap.kind == "not_collected" else {}),
    }


def number(value: object) -> float:
    """Money as a JSON number, for json.dumps. Raises TypeError for anything else."""
    if isinstance(value, Decimal):
        return float(value)  # 15 significant digits: at least 6 decimals up to a billion
    raise TypeError(f"{type(value).__name__} has no place in a report")


def _plain(value: str | float | Decimal | None) -> str:
    """No exponents: spreadsheets and awk read these."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return f"{value:f}" if isinstance(value, Decimal) else harmless(value)
