"""diff, budget, forecast, anomalies, waste, findings, queue and reconcile."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from gpucost.schemas.base import Answer, Count, Coverage, Currency, Day, Hours, Instant, Part, Ratio, Span

Level = Literal["team", "workload", "unallocated", "fleet"]


class Side(Span):
    name: str
    days: float
    gpu_hours: Hours
    cost: float
    cost_per_day: float
    coverage: Coverage


class Parts(Part):
    """They add up to the change."""

    price: float
    volume: float
    idle: float
    mix: float
    new: float
    gone: float
    unallocated: float
    host: float


class DiffRow(Parts):
    """And a property for each dimension of `by`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | None]
    kind: Literal["allocated", "unallocated"]
    gpu_hours_before: Hours
    gpu_hours_after: Hours
    cost_before: float
    cost_after: float
    cost_change: float
    cost_per_day_before: float
    cost_per_day_after: float
    cost_per_day_change: float
    currency: Currency


class Diff(Answer):
    currency: Currency
    by: list[str]
    before: Side
    after: Side
    cost_change: float
    cost_change_per_day: float
    parts: Parts
    rows: list[DiffRow]
    workloads: list[DiffRow]


class Foretold(Part):
    cost_to_date: float
    forecast: float | None
    forecast_low: float | None
    forecast_high: float | None
    open_days: Count
    history_days: Count


class Target(Part):
    name: Literal["efficiency", "spot_ratio", "idle_cost_share"]
    target: Ratio
    value: float | None
    status: Literal["met", "missed", "unknown"]
    note: str | None


class BudgetRow(Foretold):
    name: str
    team: str | None
    status: Literal["ok", "warn", "over"]
    amount: float | None
    amount_status: Literal["ok", "warn", "over"] | None
    spent_percent: float | None
    currency: Currency
    reasons: list[str]
    targets: list[Target]


class Budget(Answer, Span):
    month: str
    currency: Currency
    status: Literal["ok", "warn", "over"]
    budgets: list[BudgetRow]
    coverage: Coverage


class ForecastRow(Foretold):
    level: Level
    team: str | None


class Forecast(Answer, Span):
    month: str
    currency: Currency
    method: str
    history_days: Count
    chance: Ratio = Field(alias="range", description="How often the range holds what the month comes to.")
    rows: list[ForecastRow]
    coverage: Coverage


class Anomaly(Part):
    level: Level
    day: Day
    team: str | None
    cluster: str | None
    namespace: str | None
    workload: str | None
    direction: Literal["above", "below"]
    cost: float
    expected_cost: float
    excess_cost: float
    score: float
    basis_days: Count
    main_workload: str | None
    main_workload_change: float | None
    currency: Currency


class Anomalies(Answer, Span):
    currency: Currency
    min_cost: float
    rows: list[Anomaly]
    coverage: Coverage


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


class Cause(Part):
    provider: str
    currency: str
    kind: str
    cause: str
    rows: Count
    billed_cost: float
    effective_cost: float
    difference: float


class Beside(Part):
    kind: str
    currency: str
    cost: float


class Machine(Part):
    name: str
    instance_type: str | None
    hours: float
    cost: float


class Reconciliation(Answer):
    month: str
    currency: Currency
    providers: list[str]
    is_final: bool
    is_exact: bool
    problems: list[str]
    effective_cost: float
    instance_hours: float
    instances: Count
    lines: dict[str, float]
    difference: float
    by: list[str]
    rows: list[dict[str, Any]]
    billed_minus_effective: list[Cause]
    beside: list[Beside]
    instances_without_metrics: list[Machine]
    nodes_without_bill: list[Machine]
    final_cost: float
    estimated_cost: float


class Dropped(Part):
    source: str
    reason: str
    metric: str
    samples: Count


class Table(Part):
    name: str
    rows: Count


class Source(Part):
    kind: str
    source: str
    loads: Count
    start: Instant
    end: Instant
    rows: Count
    dropped: Count
    last_loaded_at: Instant


class Store(Answer):
    path: str
    size: Count = Field(description="Bytes.")
    wal_size: Count
    schema_version: Count
    storage_version: str
    samples: Count
    states: Count
    tables: list[Table]
    sources: list[Source]
    dropped: list[Dropped]


ANSWERS: dict[str, type[Answer]] = {
    "waste": Waste,
    "findings": Findings,
    "queue": Queues,
    "reconcile": Reconciliation,
    "diff": Diff,
    "budget": Budget,
    "forecast": Forecast,
    "anomalies": Anomalies,
    "store": Store,
}
