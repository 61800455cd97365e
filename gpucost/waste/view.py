"""What is asked of the anatomy of waste, and what it answers, in numbers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol


class Slot(Protocol):
    """A part [from_ms, to_ms) of the period, named by its local month, day and hour; names finer than asked for are None."""

    @property
    def from_ms(self) -> int: ...
    @property
    def to_ms(self) -> int: ...
    @property
    def month(self) -> str: ...
    @property
    def day(self) -> str | None: ...
    @property
    def hour(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Filters:
    """Empty filters take everything; values of one filter are alternatives, filters add up.

    A workload is named `Kind/name`, or by its name alone.
    """

    teams: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bucket:
    """A kind of GPU time: whose it is, what people call it, what it means, and whether it is waste."""

    name: str
    whose: str
    title: str
    meaning: str
    is_waste: bool = True


BUCKETS = (
    Bucket("active", "held", "Active", "at or above the idle threshold", is_waste=False),
    Bucket("data_stall", "training, batch", "Data stalls", "idle while running"),
    Bucket("failed_restarted", "training, batch", "Lost work", "of failed pods, since the last epoch known"),
    Bucket("off_peak_idle", "inference", "Off-peak idle", "idle in replicas that the peak needs"),
    Bucket("over_provisioned", "inference", "Over-provisioned", "replicas beyond what the peak needs"),
    Bucket("user_away", "development", "User away", "idle until it is forgotten"),
    Bucket("forgotten", "development", "Forgotten", "idle for long, until its end"),
    Bucket("idle", "other", "Idle", "idle, of no known type"),
    Bucket("starting", "held", "Starting", "bound, pulling images"),
    Bucket("unmeasured", "held", "Unmeasured", "held, without a sample", is_waste=False),
    Bucket("between_jobs", "unallocated", "Between jobs", "free on a node in use"),
    Bucket("empty_node", "unallocated", "Empty nodes", "nobody on the node for long"),
    Bucket("unavailable", "unallocated", "Unavailable", "not ready, cordoned, broken"),
    Bucket("fragmentation", "unallocated", "Fragmentation", "free, but too little for a request"),
    Bucket("cpu_memory", "no GPU", "Cores, memory", "charged without a GPU", is_waste=False),
)
WASTED = tuple(bucket.name for bucket in BUCKETS if bucket.is_waste)


@dataclass(frozen=True, slots=True)
class WasteRow:
    """One bucket, or its part for one combination of dimension values; what only pods have is None where nobody held anything."""

    bucket: str
    keys: dict[str, str | None]
    gpu_hours: float
    cost: Decimal


@dataclass(frozen=True, slots=True)
class WorkloadWaste:
    """What one workload wasted. `bucket` is its dearest kind of waste, None where it wasted nothing.

    `gpus_requested` and `gpus_measured` count each of its pods' GPUs. `gpus_never_used`: of pods of several GPUs, those at 0 %
    for as long as they were held; None where no GPU was heard. Percentiles of utilization (0-1) are of hours of its GPUs;
    `memory_mib_p95` is None where used GPU memory was not collected; `gpu_memory_mib`
    is a whole GPU's, None for slices and unknown models.
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
    utilization_p50: float | None
    utilization_p95: float | None
    memory_mib_p95: float | None
    gpu_memory_mib: int | None


@dataclass(frozen=True, slots=True)
class Waste:
    """`buckets` are in the order of BUCKETS, all of them; they add up to what was asked for: of the whole fleet, what nodes cost.

    `rows` are the same by `by`, the dearest first, empty where `by` is; `workloads` those that waste most.
    """

    by: tuple[str, ...]
    buckets: tuple[WasteRow, ...]
    rows: tuple[WasteRow, ...]
    workloads: tuple[WorkloadWaste, ...]

    @property
    def gpu_hours(self) -> float:
        """All GPU-hours, held or not."""
        return round(sum(row.gpu_hours for row in self.buckets), 9)

    @property
    def cost(self) -> Decimal:
        """What they cost."""
        return sum((row.cost for row in self.buckets), Decimal(0))

    @property
    def wasted_gpu_hours(self) -> float:
        """Those in buckets that are waste."""
        return round(sum(row.gpu_hours for row in self.buckets if row.bucket in WASTED), 9)

    @property
    def wasted_cost(self) -> Decimal:
        """What those cost."""
        return sum((row.cost for row in self.buckets if row.bucket in WASTED), Decimal(0))

    def of(self, dimension: str, name: str) -> Waste:
        """The buckets of one value of the only dimension of `by`, those that there are; without workloads."""
        rows = {row.bucket: row for row in self.rows if row.keys[dimension] == name}
        return Waste((), tuple(rows[bucket.name] for bucket in BUCKETS if bucket.name in rows), (), ())
