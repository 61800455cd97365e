"""Reports for programs: the JSON contract gpucost.report/1, and flat CSV."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import asdict, fields
from decimal import Decimal
from typing import Any

from gpucost.model import iso
from gpucost.report.view import Coverage, Measures, NodeTotals, ReportView, Row, Unallocated

SCHEMA = "gpucost.report/1"
_MEASURES = tuple(field.name for field in fields(Measures))
_UNALLOCATED = tuple(field.name for field in fields(Unallocated))


def to_json(view: ReportView) -> str:
    """The JSON contract gpucost.report/1; money and hours are plain numbers."""
    return json.dumps(to_dict(view), indent=2, ensure_ascii=False, default=_number) + "\n"


def to_dict(view: ReportView) -> dict[str, Any]:
    """What to_json prints, money still Decimal."""
    nodes = asdict(view.node_totals) if view.node_totals else {field.name: None for field in fields(NodeTotals)}
    return {
        "schema": SCHEMA,
        "from": iso(view.period.start),
        "to": iso(view.period.end),
        "currency": view.currency,
        "by": list(view.by),
        "rows": [_row(row) for row in view.rows],
        "totals": asdict(view.totals) | nodes,
        "coverage": _coverage(view.coverage),
    }


def to_csv(view: ReportView) -> str:
    """One line per row: kind, the dimensions, every measure, currency. Empty is unknown or not applicable."""
    keys = list(view.by)
    target = io.StringIO()
    writer = csv.DictWriter(target, ["kind", *keys, *_MEASURES, *_UNALLOCATED, "currency"], restval="", lineterminator="\n")
    writer.writeheader()
    for row in view.rows:
        writer.writerow({name: _plain(value) for name, value in _row(row).items()} | {"currency": view.currency})
    return target.getvalue()


def _row(row: Row) -> dict[str, Any]:
    # by name, not by asdict: that copies every value, and rows can be many
    flat = {"kind": row.kind} | row.keys | {name: getattr(row.measures, name) for name in _MEASURES}
    return flat | {name: getattr(row.unallocated, name) for name in _UNALLOCATED} if row.unallocated else flat


def _coverage(coverage: Coverage) -> dict[str, Any]:
    return {
        "measured_ratio": coverage.measured_ratio,
        "price_sources": {source.name: source.share for source in coverage.price_sources},
        "price_as_of": coverage.price_as_of.isoformat() if coverage.price_as_of else None,
        "not_collected_hours": coverage.not_collected_hours,
        "not_collected": [
            {"cluster": gap.cluster, "from": iso(gap.period.start), "to": iso(gap.period.end)} for gap in coverage.not_collected
        ],
        "unknown_capacity_gpu_hours": coverage.unknown_capacity_gpu_hours,
        "unpriced_gpu_hours": coverage.unpriced_gpu_hours,
        "warnings": [asdict(notice) for notice in coverage.warnings],
    }


def _number(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)  # 15 significant digits: at least 6 decimals up to a billion
    raise TypeError(f"{type(value).__name__} has no place in a report")


def _plain(value: str | float | Decimal | None) -> str:
    """No exponents: spreadsheets and awk read these."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.9f}".rstrip("0").rstrip(".")
    return f"{value:f}" if isinstance(value, Decimal) else value
