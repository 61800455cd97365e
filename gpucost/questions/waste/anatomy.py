"""Waste by bucket: every allocated or paid GPU-hour in exactly one (docs/waste.md)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from gpucost.config.model import Config
from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.inventory import load_activity
from gpucost.options import Names
from gpucost.periods import Period
from gpucost.questions.report import labels
from gpucost.questions.report.query import Query, filters
from gpucost.questions.report.rows import ZERO, cut_by, in_hours, keys_of
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.render.view import CoverageAnswer, hours, ratio
from gpucost.shapes import Shape
from gpucost.store.usage import load_devices, nothing_used

PACKAGE = "gpucost.questions.waste"


@frozen_dataclass
class WasteBucket:
    """A kind of GPU time: its scope, display name, meaning, and whether it is waste."""

    name: str
    scope: str
    title: str
    meaning: str
    is_waste: bool = True


BUCKETS = (
    WasteBucket("active", "held", "Active", "at or above the idle threshold", is_waste=False),
    WasteBucket("data_stall", "training, batch", "Data stalls", "idle while running"),
    WasteBucket(
        "failed_restarted", "training, batch", "Lost work", "work of failed pods after their last known epoch"
    ),
    WasteBucket("off_peak_idle", "inference", "Off-peak idle", "idle replicas that the peak needs"),
    WasteBucket("over_provisioned", "inference", "Over-provisioned", "replicas beyond what the peak needs"),
    WasteBucket("user_away", "development", "User away", "idle, not yet forgotten"),
    WasteBucket("forgotten", "development", "Forgotten", "idle for a long time, until the end"),
    WasteBucket("idle", "other", "Idle", "idle, workload type unknown"),
    WasteBucket("starting", "held", "Starting", "bound, pulling images"),
    WasteBucket("unmeasured", "held", "Unmeasured", "allocated, without a sample", is_waste=False),
    WasteBucket("between_jobs", "unallocated", "Between jobs", "free on a node in use"),
    WasteBucket("empty_node", "unallocated", "Empty nodes", "node without pods for a long time"),
    WasteBucket("unavailable", "unallocated", "Unavailable", "not ready, cordoned or broken"),
    WasteBucket("reserved", "unallocated", "Reserved", "kept free by a Slurm reservation"),
    WasteBucket("fragmentation", "unallocated", "Fragmentation", "free GPUs, too few for a request"),
    WasteBucket(
        "cpu_memory", "no GPU", "Cores, memory", "cores and memory charged without a GPU", is_waste=False
    ),
)
WASTED = tuple(bucket.name for bucket in BUCKETS if bucket.is_waste)
BY_NAME = {bucket.name: bucket for bucket in BUCKETS}


class _OfBucket:
    """GPU time of one bucket."""

    __slots__ = ()
    bucket: str

    @property
    def kind(self) -> WasteBucket:
        """The bucket."""
        return BY_NAME[self.bucket]


@frozen_dataclass
class WasteRow(_OfBucket, Shape):
    """The part of a bucket for one combination of dimension values.

    Pod dimensions are None for unallocated time.
    """

    bucket: str
    keys: dict[str, str | None]
    gpu_hours: float
    cost: Decimal


@frozen_dataclass
class BucketWaste(_OfBucket):
    """A bucket; `of` is the scope of its time."""

    bucket: str
    of: str
    is_waste: bool
    gpu_hours: float
    cost: Decimal


@frozen_dataclass
class WasteTotals:
    """All GPU-hours, allocated or not, and their cost; the wasted ones, and their share of cost."""

    gpu_hours: float
    cost: Decimal
    wasted_gpu_hours: float
    wasted_cost: Decimal
    waste_ratio: float | None

    @classmethod
    def of(cls, buckets: Sequence[BucketWaste]) -> WasteTotals:
        """The sums of all buckets."""
        wasted = [row for row in buckets if row.is_waste]
        all_hours, wasted_hours = (round(sum(row.gpu_hours for row in rows), 9) for rows in (buckets, wasted))
        cost, wasted_cost = (sum((row.cost for row in rows), ZERO) for rows in (buckets, wasted))
        return cls(all_hours, cost, wasted_hours, wasted_cost, ratio(wasted_cost, cost))


@frozen_dataclass
class WorkloadWaste:
    """The waste of one workload. `bucket` is its most expensive kind of waste, None without waste.

    `gpus_requested` and `gpus_measured` count the GPUs of each of its pods. `gpus_never_used`: GPUs of
    multi-GPU pods at 0 % during their whole allocation; None without measurements.
    """

    cluster: str
    namespace: str
    workload: str
    workload_type: str
    pods: int
    gpu_hours: float
    cost: Decimal
    wasted_gpu_hours: float
    wasted_cost: Decimal
    bucket: str | None
    gpus_requested: float
    gpus_measured: int
    gpus_never_used: int | None


@frozen_dataclass
class Waste:
    """All buckets in the order of BUCKETS; they add up to the selection, for the whole fleet to the node cost.

    `rows` are the same by `by`, the most expensive first, empty if `by` is empty; `workloads` are the most wasteful
    ones.
    """

    by: Names
    buckets: tuple[BucketWaste, ...]
    rows: tuple[WasteRow, ...]
    totals: WasteTotals
    workloads: tuple[WorkloadWaste, ...]

    def of(self, dimension: str, name: str) -> Waste:
        """The non-empty buckets for one value of the only dimension of `by`, without workloads."""
        rows = {row.bucket: row for row in self.rows if row.keys[dimension] == name}
        buckets = tuple(_bucket(bucket, rows[bucket.name]) for bucket in BUCKETS if bucket.name in rows)
        return Waste((), buckets, (), WasteTotals.of(buckets), ())


@frozen_dataclass
class WasteAnswer(Shape):
    """The output of `gpucost waste`."""

    period: Period
    currency: str
    waste: Waste
    coverage: CoverageAnswer

    FLAT = ("period", "waste")


def _bucket(bucket: WasteBucket, row: WasteRow | None) -> BucketWaste:
    figures = (row.gpu_hours, row.cost) if row else (0.0, ZERO)
    return BucketWaste(bucket.name, bucket.scope, bucket.is_waste, *figures)


def build(con: DuckDBPyConnection, config: Config, query: Query, by: Names = (), top: int = 10) -> Waste:
    """The buckets of the query's period and filters, by the dimensions `by`, and the most wasteful workloads.

    Works on a read-only connection; makes temporary tables. The peak in the period determines the need of a serving
    workload; all data in the store determines whether a pod was forgotten. Raises GpucostError if nothing passes the
    filters.
    """
    prepare(con, config, query, by)
    period = query.period
    if error := labels.unknown_value(con, query):
        raise error
    buckets = {row.bucket: row for row in _rows(con, ())}
    if not buckets:
        raise nothing_used(con, *period.span, str(period), **filters(query))
    workloads: list[dict[str, Any]] = []
    if top:
        load_activity(con, config.activity)
        load_devices(con, period)
        workloads = answer_rows(con, PACKAGE, "60_workloads", {"wasted": list(WASTED), "most": top})
    whole = tuple(_bucket(bucket, buckets.get(bucket.name)) for bucket in BUCKETS)
    return Waste(
        by=by,
        buckets=whole,
        rows=tuple(_rows(con, by)) if by else (),
        totals=WasteTotals.of(whole),
        workloads=tuple(WorkloadWaste(**in_hours(row)) for row in workloads),
    )


# The part of the period that contains each cell or day, by its from_ms.
_CELL_SLOTS = """
CREATE OR REPLACE TEMP TABLE waste_cell_buckets AS
SELECT c.from_ms, s.from_ms AS time_bucket
FROM (
    SELECT from_ms FROM hourly_node_costs(getvariable('report_from_ms'), getvariable('report_to_ms'))
    UNION
    SELECT from_ms FROM node_daily WHERE from_ms >= getvariable('report_from_ms') AND to_ms <= getvariable('report_to_ms')
) AS c
JOIN time_buckets AS s ON c.from_ms >= s.from_ms AND c.from_ms < s.to_ms"""
# The cells of the period with the part of the period that contains each. A view, because cells are many.
_CELLS = """
CREATE OR REPLACE TEMP VIEW waste_cells AS
SELECT c.*, s.time_bucket
FROM hourly_costs(getvariable('report_from_ms'), getvariable('report_to_ms')) AS c JOIN waste_cell_buckets AS s USING (from_ms)"""
# One row per pod and local day, empty unless the period consists of whole days. is_fine: the day's hours are needed, as
# they can differ in price. The day suffices if its cost falls to idle time and to one other part.
_DAYS = """
CREATE OR REPLACE TEMP TABLE waste_days AS
SELECT c.allocation_id, c.from_ms, c.to_ms, (NOT getvariable('waste_by_gpus') OR (c.unmeasured_gpu_ms > 0 AND c.active_gpu_ms > 0)
    OR (c.from_ms < p.started_ms AND p.held_from_ms < p.started_ms)
    OR (c.from_ms < p.forgotten_from_ms AND p.forgotten_from_ms < c.to_ms)
    OR (c.from_ms < p.lost_from_ms AND p.lost_from_ms < c.to_ms)
    OR (p.workload_type = 'inference'
    AND (p.cluster, p.namespace, p.workload) IN (SELECT (cluster, namespace, workload) FROM waste_serving))) IS TRUE AS is_fine
FROM cost_daily AS c JOIN waste_pods AS p USING (allocation_id)
WHERE getvariable('report_by_day') AND c.kind = 'allocated'
    AND c.from_ms >= getvariable('report_from_ms') AND c.to_ms <= getvariable('report_to_ms')"""
# The pods' cells in the period, by day if that suffices, otherwise by hour. A view, because cells are many.
_HELD_CELLS = """
CREATE OR REPLACE TEMP VIEW waste_held_cells AS
SELECT c.*, s.time_bucket FROM cost_daily AS c JOIN waste_cell_buckets AS s USING (from_ms)
SEMI JOIN (FROM waste_days WHERE NOT is_fine) AS d ON d.allocation_id = c.allocation_id AND d.from_ms = c.from_ms
UNION ALL BY NAME
SELECT c.* FROM waste_cells AS c WHERE c.kind = 'allocated' AND NOT getvariable('report_by_day')
UNION ALL BY NAME
SELECT c.* FROM waste_cells AS c JOIN (FROM waste_days WHERE is_fine) AS d
    ON d.allocation_id = c.allocation_id AND d.from_ms <= c.from_ms AND c.from_ms < d.to_ms WHERE getvariable('waste_has_fine')"""


def prepare(con: DuckDBPyConnection, config: Config, query: Query, by: Names = ()) -> None:
    """Make the temporary table waste_rows: GPU time and cost by bucket, node, pod and time.

    `by` are the dimensions that will be used.
    """
    cut_by(con, query, config.tz, by)
    con.execute("SET VARIABLE waste_by_gpus = $1::BOOLEAN", [config.prices.cost_basis == "node"])
    con.execute(_CELL_SLOTS)
    con.execute(_CELLS)
    run_stage(con, PACKAGE, "20_pods", {"forgotten_after_ms": config.waste.forgotten_after_ms})
    # these variables are known before planning, so that DuckDB leaves the cells out
    con.execute(
        "SET VARIABLE waste_has_services = (SELECT bool_or(workload_type = 'inference') FROM waste_pods)"
    )
    run_stage(con, PACKAGE, "23_serving", {"target_utilization": config.waste.target_utilization})
    con.execute(_DAYS)
    con.execute("SET VARIABLE waste_has_fine = (SELECT bool_or(is_fine) FROM waste_days)")
    con.execute(_HELD_CELLS)
    run_stage(con, PACKAGE, "30_held")
    run_stage(con, PACKAGE, "40_free", {"empty_after_ms": config.waste.empty_after_ms})
    run_stage(con, PACKAGE, "50_waste_rows")


_BUCKETS = """
SELECT bucket, unnest(keys), gpu_ms, cost
FROM (
    SELECT bucket, dimensions($by, f) AS keys, sum(gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost
    FROM waste_rows AS f GROUP BY ALL
)"""


def _rows(con: DuckDBPyConnection, by: Names) -> list[WasteRow]:
    rows = [
        WasteRow(row["bucket"], keys_of(row, by), hours(row["gpu_ms"]), row["cost"])
        for row in dicts(con.execute(_BUCKETS, {"by": list(by)}))
    ]
    return sorted(rows, key=_most_expensive_first)


def _most_expensive_first(row: WasteRow) -> tuple[Decimal, float, list[tuple[bool, str]], str]:
    return -row.cost, -row.gpu_hours, [(key is None, key or "") for key in row.keys.values()], row.bucket
