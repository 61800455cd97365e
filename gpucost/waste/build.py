"""Builds the anatomy of waste from the attributed tables, when it is asked for: nothing of it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from gpucost.catalog import load_catalog
from gpucost.engine.local import answer_rows, run_stage
from gpucost.model import MS_PER_HOUR
from gpucost.store.activity import load_devices
from gpucost.store.names import nothing_used
from gpucost.timeline import is_whole_days
from gpucost.waste.view import BUCKETS, WASTED, Filters, Slot, Waste, WasteRow, WorkloadWaste

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from gpucost.config import Config
    from gpucost.model import Period

_PACKAGE = "gpucost.waste"
_FILTERS = ("teams", "namespaces", "clusters", "workloads")


def build(
    con: DuckDBPyConnection,
    config: Config,
    period: Period,
    slots: Sequence[Slot],
    by: tuple[str, ...] = (),
    filters: Filters | None = None,
    top: int = 10,
) -> Waste:
    """The buckets of `period` (cut into `slots`), by the dimensions `by`, and the `top` workloads that waste most.

    Works on a read-only connection; makes temporary tables. What a serving workload needs is settled by its peak in the period,
    whether a pod was forgotten by all that the store knows. Raises GpucostError where nothing passes the filters.
    """
    chosen = filters or Filters()
    prepare(con, config, period, slots, chosen)
    buckets = {row.bucket: row for row in _rows(con, ())}
    if not buckets:
        asked = {name: getattr(chosen, name) for name in _FILTERS}
        raise nothing_used(con, period.start_ms, period.end_ms, str(period), **asked)
    run_stage(con, _PACKAGE, "61_workloads", {"wasted": list(WASTED), "most": top})
    load_devices(con, config.activity, period)
    load_catalog(con)
    return Waste(
        by=by,
        buckets=tuple(buckets.get(bucket.name, WasteRow(bucket.name, {}, 0.0, Decimal(0))) for bucket in BUCKETS),
        rows=tuple(_rows(con, by)) if by else (),
        workloads=tuple(_workload(row) for row in answer_rows(con, _PACKAGE, "62_levels")),
    )


def prepare(con: DuckDBPyConnection, config: Config, period: Period, slots: Sequence[Slot], filters: Filters) -> None:
    """Make the temporary table waste_facts: GPU time and cost by bucket, node, pod and slot."""
    run_stage(
        con,
        _PACKAGE,
        "10_slots",
        {
            "from_ms": [slot.from_ms for slot in slots],
            "to_ms": [slot.to_ms for slot in slots],
            "month": [slot.month for slot in slots],
            "day": [slot.day for slot in slots],
            "hour": [slot.hour for slot in slots],
        },
    )
    con.execute("SET VARIABLE waste_from_ms = $at::BIGINT", {"at": period.start_ms})
    con.execute("SET VARIABLE waste_to_ms = $at::BIGINT", {"at": period.end_ms})
    con.execute("SET VARIABLE waste_by_day = $by_day::BOOLEAN", {"by_day": _by_day(period, slots, config)})
    con.execute("SET VARIABLE waste_by_gpus = $by_gpus::BOOLEAN", {"by_gpus": config.prices.cost_basis == "node"})
    for name in ("11_cell_slots", "12_cells", "20_saved", "21_last_active"):
        run_stage(con, _PACKAGE, name)
    run_stage(con, _PACKAGE, "22_pods", {"forgotten_after_ms": config.waste.forgotten_after_ms})
    run_stage(con, _PACKAGE, "23_serving", {"target_utilization": config.waste.target_utilization})
    for name in ("24_days", "25_held_cells", "30_held"):
        run_stage(con, _PACKAGE, name)
    run_stage(con, _PACKAGE, "40_free_stretches", {"empty_after_ms": config.waste.empty_after_ms})
    run_stage(con, _PACKAGE, "41_wanted")
    run_stage(con, _PACKAGE, "42_free")
    run_stage(con, _PACKAGE, "50_facts", {name: list(getattr(filters, name)) for name in _FILTERS})


def _by_day(period: Period, slots: Sequence[Slot], config: Config) -> bool:
    return is_whole_days(period, config.tz) and not any(slot.hour for slot in slots)


def _rows(con: DuckDBPyConnection, by: tuple[str, ...]) -> list[WasteRow]:
    answer = [
        WasteRow(
            bucket=row["bucket"],
            keys={name: row[name] for name in by},
            gpu_hours=_hours(row["gpu_ms"]),
            cost=row["cost"],
        )
        for row in answer_rows(con, _PACKAGE, "60_rows", {"by": list(by)})
    ]
    return sorted(answer, key=_dearest_first)


def _dearest_first(row: WasteRow) -> tuple[Decimal, float, list[tuple[bool, str]], str]:
    return -row.cost, -row.gpu_hours, [(key is None, key or "") for key in row.keys.values()], row.bucket


def _workload(row: dict[str, Any]) -> WorkloadWaste:
    return WorkloadWaste(
        **{name: row[name] for name in ("cluster", "namespace", "workload", "workload_type", "pods", "cost", "wasted_cost")},
        **{name: row[name] for name in ("bucket", "gpus_measured", "gpus_never_used", "gpu_memory_mib")},
        gpu_hours=_hours(row["gpu_ms"]),
        wasted_gpu_hours=_hours(row["wasted_gpu_ms"]),
        gpus_requested=round(row["gpus_requested"], 6),
        utilization_p50=_rounded(row["p50"]),
        utilization_p95=_rounded(row["p95"]),
        memory_mib_p95=_rounded(row["memory_mib_p95"]),
    )


def _hours(gpu_ms: float) -> float:
    return round(gpu_ms / MS_PER_HOUR, 9)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
