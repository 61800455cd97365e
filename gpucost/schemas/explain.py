"""explain team, namespace, workload and node."""

from __future__ import annotations

from typing import Literal

from gpucost.schemas.base import Answer, Count, Currency, Day, Hours, Instant, Part, Span


class WorkloadCost(Part):
    cluster: str
    namespace: str
    workload: str
    node: str
    allocated_gpu_hours: Hours
    cost: float
    estimated_cost: float
    price_sources: list[str]


class Price(Span):
    price_per_hour: float
    price_source: str
    price_as_of: Day | None


class BillRow(Span):
    provider: str
    billing_period: str
    source_file: str
    source_row: Count
    description: str | None
    instance_hours: float | None
    effective_cost: float
    currency: str
    cost: float | None


class BilledMachine(Part):
    instance_key: str
    is_scale_set: bool
    rows: Count
    instance_hours: float
    cost: float | None
    pooled_cost: float
    discount_cost: float
    discount_rows: Count
    first_discount_rows: list[str]
    first_rows: list[BillRow]
    more_rows: Count
    more_cost: float | None


class NodeCost(Part):
    cluster: str
    node: str
    machine_id: str | None
    instance_type: str | None
    capacity_type: str
    gpu_model: str | None
    gpu_count: float
    allocated_gpu_hours: Hours
    cost: float
    estimated_cost: float
    others_cost: float
    unallocated_cost: float
    not_collected_cost: float
    node_cost: float
    node_cost_by_price_source: dict[str, float]
    prices: list[Price]
    bill: list[BilledMachine]


class PodCost(Span):
    cluster: str
    namespace: str
    pod: str
    uid: str
    node: str
    gpus: float
    devices: list[str]
    allocated_gpu_hours: Hours
    active_gpu_hours: Hours
    idle_gpu_hours: Hours
    unmeasured_gpu_hours: Hours
    cost: float


class Stage(Part):
    decides: str
    file: str


class Explained(Answer, Span):
    currency: Currency
    cost_basis: str
    allocated_gpu_hours: Hours
    cost: float
    estimated_cost: float
    workloads: list[WorkloadCost]
    nodes: list[NodeCost]
    pods: list[PodCost]
    stages: list[Stage]


class ExplainedTeam(Explained):
    team: str


class ExplainedNamespace(Explained):
    namespace: str


class ExplainedWorkload(Explained):
    workload: str


class Candidate(Part):
    price_per_hour: float
    currency: str
    price_source: str
    price_as_of: Day | None
    origin: str
    holds_from: Instant
    holds_to: Instant
    wins: bool
    why: str


class Step(Part):
    step: str
    detail: str
    factor: float
    price_per_hour: float


class ExplainedNode(Answer):
    cluster: str
    node: str
    up_from: Instant
    up_to: Instant
    provider: str | None
    region: str | None
    zone: str | None
    instance_type: str | None
    capacity_type: Literal["on_demand", "spot", "reserved", "capacity_block", "flex_start", "unknown"]
    gpu_model: str | None
    gpu_count: float
    at: Instant
    currency: Currency
    price_per_hour: float | None
    price_per_gpu_hour: float | None
    price_source: str
    price_as_of: Day | None
    candidates: list[Candidate]
    steps: list[Step]
    fix: str | None


ANSWERS: dict[str, type[Answer]] = {
    "explain.team": ExplainedTeam,
    "explain.namespace": ExplainedNamespace,
    "explain.workload": ExplainedWorkload,
    "explain.node": ExplainedNode,
}
