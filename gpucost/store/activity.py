"""What the samples say of pods: when all their GPUs were idle, and how busy and how full they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpucost.store import sqlfiles

if TYPE_CHECKING:
    import duckdb

    from gpucost.config import Activity
    from gpucost.model import Period

# dcgm-exporter's used frame buffer, in MiB; not every exporter is set to tell it
MEMORY_METRIC = "DCGM_FI_DEV_FB_USED"

Row = dict[str, Any]


def read_idle(con: duckdb.DuckDBPyConnection, metrics: Activity, period: Period, at_least_ms: int) -> list[Row]:
    """Rows (cluster, uid, from_ms, to_ms): stretches of at least `at_least_ms` in which every GPU of a pod was measured idle.

    Only devices that the exporter labels with their pod are known. Makes temporary tables.
    """
    load_devices(con, metrics, period)
    sqlfiles.run(con, "activity_runs")
    return _rows(sqlfiles.run(con, "activity_idle", {"at_least_ms": at_least_ms}))


def read_levels(con: duckdb.DuckDBPyConnection, metrics: Activity, period: Period) -> list[Row]:
    """One row per measured pod, as activity_levels.sql names its columns. Makes temporary tables."""
    load_devices(con, metrics, period)
    return _rows(sqlfiles.run(con, "activity_levels"))


def load_devices(con: duckdb.DuckDBPyConnection, metrics: Activity, period: Period) -> None:
    """Make the temporary table activity_devices: which series tell of which pods of `period`."""
    sqlfiles.run(
        con,
        "activity_devices",
        {
            "from_ms": period.start_ms,
            "to_ms": period.end_ms,
            "device": metrics.device_metric.lower(),
            "device_scale": metrics.device_scale,
            "mig": metrics.mig_metric.lower(),
            "mig_scale": metrics.mig_scale,
            "memory": MEMORY_METRIC.lower(),
        },
    )


def _rows(answer: duckdb.DuckDBPyConnection) -> list[Row]:
    columns = [str(column[0]) for column in answer.description or []]
    return [dict(zip(columns, values, strict=True)) for values in answer.fetchall()]
