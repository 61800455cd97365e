"""waste, findings and queue."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from gpucost.schemas.base import Answer, Count, Coverage, Currency, Part, Ratio, Span


class Bucket(Part):
    bucket: str
    of: str = Field(description="Whose time: held, unallocated, or the types of workloads.")
    is_waste: bool
    gpu_hours: float
    cost: float


class WasteRow(Part):
    """And a property for each dimension of `by`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | None]
    bucket: str
    gpu_hours: float
    cost: float


class WasteTotals(Part):
    gpu_hours: float
    cost: float
    wasted_gpu_hours: float
    wasted_cost: float
    waste_ratio: Ratio | None


class WorkloadWaste(Part):
    cluster: str
    namespace: str
    workload: str
    workload_type: str
    pods: Count
    gpu_hours: float
    cost: float
    wasted_gpu_hours: float
    wasted_cost: float
    bucket: str | None
    gpus_requested: float
    gpus_measured: Count
    gpus_never_used: Count
    utilization_p50: Ratio | None
    utilization_p95: Ratio | None
    memory_mib_p95: float | None
    gpu_memory_mib: float | None


class Finding(Span):
    rank: Count
    kind: str
    title: str
    cluster: str
    namespace: str | None
    team: str | None
    subject: str
    evidence: str
    gpu_hours: float
    waste_gpu_hours: float
    utilization: Ratio | None
    cost: float
    saving: float
    saving_per_month: float
    is_bound: bool = Field(description="No command shows it: at most that much can be saved.")
    command: str | None
    advice: str


class Waste(Answer, Span):
    currency: Currency
    by: list[str]
    buckets: list[Bucket]
    rows: list[WasteRow]
    totals: WasteTotals
    workloads: list[WorkloadWaste]
    findings: list[Finding] = Field(default=[], description="With --findings.")
    coverage: Coverage


class Findings(Answer, Span):
    currency: Currency
    minimum_per_month: float
    saving_per_month: float
    passed_over: Count
    findings: list[Finding]


class Queue(Part):
    cluster: str
    cluster_queue: str
    cohort: str | None
    resource: str | None
    quota: float | None
    borrowing_limit: float | None
    is_borrowing_unlimited: bool
    used_average: float | None
    used_p95: float | None
    used_max: float | None
    borrowed_average: float | None
    borrowed_max: float | None
    pending_average: float | None
    pending_max: float | None
    recent_quota: float | None
    recent_used: float | None
    share_of_quota: Ratio | None
    share_of_use: Ratio | None
    admitted: float
    wait_mean_seconds: float | None
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None


class Queues(Answer, Span):
    queues: list[Queue]


ANSWERS: dict[str, type[Answer]] = {
    "waste": Waste,
    "findings": Findings,
    "queue": Queues,
}
