"""The anatomy of waste as tables for people and as rows and JSON for programs."""

from __future__ import annotations

from dataclasses import asdict, replace
from decimal import Decimal
from typing import Any

from gpucost.report.view import Column, Figures, Line, ReportView, Table
from gpucost.waste import BUCKETS, Waste, WasteRow, WorkloadWaste

_BUCKETS = {bucket.name: bucket for bucket in BUCKETS}
_BLANK = ""


def with_waste(view: ReportView, waste: Waste) -> ReportView:
    """The report with the anatomy of waste after its own sections, and for programs beside its rows."""
    sections: tuple[Table | Figures, ...] = (*view.sections, *tables(waste)) if view.sections else ()
    return replace(view, sections=sections, waste=as_dict(waste))


def tables(waste: Waste) -> tuple[Table, ...]:
    """Where GPU time went, the same by the dimensions asked for, and the workloads that waste most."""
    by_rows = (_by_rows(waste),) if waste.by else ()
    workloads = (_workloads(waste.workloads),) if waste.workloads else ()
    return (_anatomy(waste), *by_rows, *workloads)


def as_dict(waste: Waste) -> dict[str, Any]:
    """What programs read, money still Decimal; ratios 0-1, null for 0/0."""
    return {
        "by": list(waste.by),
        "buckets": [
            {
                "bucket": row.bucket,
                "of": _BUCKETS[row.bucket].whose,
                "is_waste": _BUCKETS[row.bucket].is_waste,
                "gpu_hours": row.gpu_hours,
                "cost": row.cost,
            }
            for row in waste.buckets
        ],
        "rows": [_flat(row) for row in waste.rows],
        "totals": {
            "gpu_hours": waste.gpu_hours,
            "cost": waste.cost,
            "wasted_gpu_hours": waste.wasted_gpu_hours,
            "wasted_cost": waste.wasted_cost,
            "waste_ratio": _ratio(waste.wasted_cost, waste.cost),
        },
        "workloads": [asdict(workload) for workload in waste.workloads],
    }


def flat_rows(waste: Waste) -> tuple[list[str], list[list[Any]]]:
    """Columns and rows for CSV: by the dimensions asked for, else one row per bucket."""
    columns = ["bucket", *waste.by, "gpu_hours", "cost"]
    return columns, [[_flat(row)[name] for name in columns] for row in (waste.rows if waste.by else waste.buckets)]


def _flat(row: WasteRow) -> dict[str, Any]:
    return {"bucket": row.bucket, **row.keys, "gpu_hours": row.gpu_hours, "cost": row.cost}


def _anatomy(waste: Waste) -> Table:
    lines = [
        Line((kind.title, kind.whose, kind.meaning, row.gpu_hours, row.cost, _ratio(row.cost, waste.cost)))
        for row in waste.buckets
        if (kind := _BUCKETS[row.bucket]) and (row.gpu_hours or row.cost)
    ]
    wasted = ("Wasted", _BLANK, _BLANK, waste.wasted_gpu_hours, waste.wasted_cost, _ratio(waste.wasted_cost, waste.cost))
    total = ("Total", _BLANK, _BLANK, waste.gpu_hours, waste.cost, _ratio(waste.cost, waste.cost))
    return Table(
        "Where GPU time went",
        (
            Column("Kind", "text"),
            Column("Of", "text", weight=1),
            Column("What it is", "text", weight=2),
            Column("GPU-hours", "hours"),
            Column("Cost", "money", 2),
            Column("Share", "ratio"),
        ),
        (*lines, Line(wasted, is_sum=True), Line(total, is_sum=True)),
        note="Every GPU-hour stands in one line.",
    )


def _by_rows(waste: Waste) -> Table:
    return Table(
        f"By {' and '.join(key.replace('_', ' ') for key in waste.by)}",
        (
            *(Column(key.replace("_", " ").capitalize(), "text") for key in waste.by),
            Column("Kind", "text"),
            Column("GPU-hours", "hours"),
            Column("Cost", "money", 2),
        ),
        tuple(Line((*row.keys.values(), _BUCKETS[row.bucket].title, row.gpu_hours, row.cost)) for row in waste.rows),
    )


def _workloads(workloads: tuple[WorkloadWaste, ...]) -> Table:
    many = len({work.cluster for work in workloads}) > 1
    lines = tuple(
        Line(
            (
                work.workload,
                *((work.cluster,) if many else ()),
                work.namespace,
                work.workload_type,
                work.cost,
                work.wasted_cost,
                _ratio(work.wasted_cost, work.cost),
                _BUCKETS[work.bucket].title if work.bucket else _BLANK,
                work.utilization_p50,
                work.utilization_p95,
                _never_used(work),
                _memory(work),
            )
        )
        for work in workloads
    )
    return Table(
        "Workloads that waste most",
        (
            Column("Workload", "text"),
            *((Column("Cluster", "text"),) if many else ()),
            Column("Namespace", "text"),
            Column("Type", "text", weight=1),
            Column("Cost", "money", 2, weight=1),
            Column("Wasted", "money", 2),
            Column("Share", "ratio", 0, weight=2),
            Column("Most of it", "text"),
            Column("Busy p50", "ratio", 0, weight=3),
            Column("Busy p95", "ratio", 0, weight=3),
            Column("GPUs never used", "text", weight=3),
            Column("Memory used", "text", weight=3),
        ),
        lines,
    )


def _never_used(work: WorkloadWaste) -> str | None:
    return f"{work.gpus_never_used} of {work.gpus_measured}" if work.gpus_never_used else None


def _memory(work: WorkloadWaste) -> str | None:
    """`31 of 80 GiB`."""
    if work.memory_mib_p95 is None:
        return None
    whole = f" of {work.gpu_memory_mib / 1024:.0f}" if work.gpu_memory_mib else ""
    return f"{work.memory_mib_p95 / 1024:.0f}{whole} GiB"


def _ratio(part: Decimal, whole: Decimal) -> float | None:
    return round(float(part / whole), 6) if whole else None
