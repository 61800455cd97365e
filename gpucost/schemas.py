"""JSON Schemas of the answers that commands print with --format json, and of a bundle's index.json; by name, as text."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from gpucost.errors import UsageError


def names() -> list[str]:
    """What there are schemas of: `gpucost.NAME/1` is what the answer's own key `schema` says."""
    return ["report", *_answers()]


def schema(name: str) -> str:
    """JSON Schema (draft 2020-12), as JSON text. Raises UsageError for a name that there is none of."""
    if name == "report":
        return files("gpucost.report").joinpath("report.schema.json").read_text(encoding="utf-8")
    found = _answers().get(name)
    if found is None:
        raise UsageError(f"there is no schema of {name!r}", f"gpucost schema takes one of: {', '.join(names())}")

    made: dict[str, Any] = found.model_json_schema(schema_generator=PlainTitles)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": f"gpucost.{name}/1"}
    made["properties"]["schema"] = {"const": f"gpucost.{name}/1"}
    return json.dumps(head | {key: value for key, value in made.items() if key != "title"}, indent=2, ensure_ascii=False) + "\n"


def _answers() -> dict[str, type[Answer]]:

    topics = (_USAGE, _SPENDING, _ACCOUNTS, _CHARGEBACK, _EXPLAIN, _UNITS)
    return {name: answer for topic in topics for name, answer in topic.items()}


Instant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time", "pattern": "Z$"})]
Day = Annotated[str, WithJsonSchema({"type": "string", "format": "date"})]
Currency = Annotated[str, Field(pattern="^[A-Z]{3}$")]
Hours = Annotated[float, Field(ge=0)]
Ratio = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


def _coverage() -> dict[str, Any]:
    """As the contract gpucost.report/1 has it, without references."""
    defs = json.loads(files("gpucost.report").joinpath("report.schema.json").read_text(encoding="utf-8"))["$defs"]

    def inlined(value: Any) -> Any:
        if isinstance(value, dict):
            name = value.get("$ref", "").removeprefix("#/$defs/")
            return inlined(defs[name]) if name else {key: inlined(item) for key, item in value.items()}
        return [inlined(item) for item in value] if isinstance(value, list) else value

    found: dict[str, Any] = inlined(defs["coverage"])
    return found


Coverage = Annotated[dict[str, Any], WithJsonSchema(_coverage())]


class Part(BaseModel):
    """An object with these properties and no others."""

    model_config = ConfigDict(extra="forbid")


class Span(Part):
    start: Instant = Field(alias="from")
    end: Instant = Field(alias="to")


class Answer(Part):
    """A whole answer; `schema` says which, and of which version."""

    contract: str = Field(alias="schema")


class PlainTitles(GenerateJsonSchema):
    """Properties are called by their names alone."""

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - pydantic asks so
        return False


class Class(Part):
    name: str = Field(alias="class", description="What the bill's rows are; docs/billing.md has them all.")
    team: str | None = Field(description="Of the class attributed; else null.")
    rows: Count = Field(description="A bill row of several teams counts where most of it went.")
    cost: float


class Statement(Part):
    basis: Literal["billed", "effective"]
    currency: Currency
    rows: Count = Field(description="All rows of the billing period's bills: the sum over the classes.")
    cost: float = Field(description="The sum over the classes, and the difference.")
    difference: float = Field(description="What went to no class: 0.")
    classes: list[Class]


class Invoice(Part):
    provider: str
    account: str | None
    invoice_id: str | None
    currency: str
    rows: Count
    billed_cost: float
    effective_cost: float


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


class Gap(Span):
    cluster: str
    hours: Hours
    families: list[str]
    reason: str
    accepted_by: str | None
    accepted_why: str | None


class Reconciliation(Answer):
    month: str
    currency: Currency
    providers: list[str]
    is_final: bool
    is_exact: bool
    problems: list[str]
    statements: list[Statement] = Field(description="Every row of the bills, as billed and as effective cost.")
    invoices: list[Invoice] = Field(description="What the statements are the sum of, each in its own currency.")
    effective_cost: float = Field(description="Of GPU instances.")
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
    not_collected: list[Gap] = Field(description="Time of the billing period that metrics miss.")
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


_ACCOUNTS: dict[str, type[Answer]] = {
    "reconcile": Reconciliation,
    "store": Store,
}


class Charged(Part):
    charge: float
    cost: float
    shared_cost: float
    estimated_cost: float
    idle_cost: float
    allocated_gpu_hours: Hours
    efficiency: Ratio | None
    spot_ratio: Ratio | None


class Team(Charged):
    team: str
    file: str = Field(description="Of the team's files, without the suffix.")
    measured_ratio: Ratio | None


class Totals(Charged):
    unallocated_cost: float | None
    not_collected_cost: float | None
    node_cost: float | None
    capacity_gpu_hours: Hours | None


class Account(Part):
    sentence: str
    providers: list[str]
    is_final: bool
    is_exact: bool
    problems: list[str]
    effective_cost: float
    lines: dict[str, float]
    difference: float
    statements: list[Statement] = Field(description="As gpucost reconcile has them.")


class InvoiceLine(Part):
    line: str = Field(description="charged, what is not the bill's of that, then classes of the bill's rows; docs/chargeback.md.")
    rows: Count | None
    cost: float


class InvoiceBridge(Part):
    billed_cost: float = Field(description="The sum of lines and difference.")
    effective_cost: float
    rows: Count
    difference: float
    lines: list[InvoiceLine]


class Focus(Part):
    version: str
    charges: Count
    rows: Count
    billed_cost: dict[str, float] = Field(description="By currency.")
    effective_cost: dict[str, float]
    estimated_cost: float


class Change(Part):
    before: float | None
    after: float | None
    adjustment: float


class TeamChange(Change):
    team: str


class Replaced(Part):
    state: Literal["final", "estimate"]
    teams: list[TeamChange]
    totals: dict[str, Change]


class File(Part):
    file: str
    bytes: Count
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Index(Answer, Span):
    month: str
    timezone: str
    currency: Currency
    share_unallocated: Literal["proportional", "even"] | None
    state: Literal["final", "estimate"]
    is_over: bool
    reasons: list[str] = Field(description="Why the figures are an estimate.")
    missing: list[str] = Field(description="What a month that is over lacks.")
    teams: list[Team]
    totals: Totals
    coverage: Coverage
    invoice: InvoiceBridge | None = Field(description="How the charge leads to the invoice; null where no bill was collected.")
    reconciliation: Account | None
    focus: Focus
    replaces: Replaced | None = Field(description="What the figures differ from: those of the bundle that stood there before.")
    files: list[File]


_CHARGEBACK: dict[str, type[Answer]] = {"chargeback": Index}


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


_EXPLAIN: dict[str, type[Answer]] = {
    "explain.team": ExplainedTeam,
    "explain.namespace": ExplainedNamespace,
    "explain.workload": ExplainedWorkload,
    "explain.node": ExplainedNode,
}


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
    not_collected: float
    host: float


class DiffRow(Parts):
    """And a property for each dimension of `by`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str | None]
    kind: Literal["allocated", "unallocated", "not_collected"]
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


_SPENDING: dict[str, type[Answer]] = {
    "diff": Diff,
    "budget": Budget,
    "forecast": Forecast,
    "anomalies": Anomalies,
}


class Place(Part):
    cluster: str
    namespace: str
    workload: str
    team: str


class WorkWithoutCost(Part):
    workload: str | None
    namespace: str | None
    unit: str
    amount: float
    failed: float
    since: str | None
    source: str | None
    why: str


class ModelWithoutCost(WorkWithoutCost):
    model: str | None


class RunWithoutCost(WorkWithoutCost):
    run: str
    run_id: str


class CostWithoutWork(Place):
    cost: float
    idle_cost: float
    allocated_gpu_hours: Hours
    has_other_work: bool


class UnitTotals(Part):
    cost: float
    idle_cost: float
    cost_without_work: float
    allocated_cost: float


class Unit(Answer, Span):
    currency: Currency
    cost_without_work: list[CostWithoutWork]
    notes: list[str]


class EpochRow(Place):
    run: str | None
    run_id: str | None
    epoch: int | None
    status: Literal["done", "lost", "unfinished", "outside"]
    attempt: Count | None
    start: Instant | None = Field(alias="from")
    end: Instant | None = Field(alias="to")
    duration_hours: Hours | None
    cost: float
    idle_cost: float
    allocated_gpu_hours: Hours
    active_gpu_hours: Hours
    is_whole: bool


class Run(Place, Span):
    run: str
    run_id: str | None
    attempts: Count
    epochs_done: Count
    mean_cost: float | None
    mean_hours: float | None
    cost_per_epoch_all_in: float | None
    best_epoch: int | None
    best_cost: float | None
    trend_percent: float | None
    trend_since: Literal["restart", "middle"] | None
    lost_epochs: Count
    lost_cost: float
    unfinished_cost: float
    outside_cost: float
    cost: float
    idle_cost: float
    cost_per_useful_gpu_hour: float | None
    planned_epochs: Count | None
    remaining_epochs: Count | None
    forecast_cost: float | None
    forecast_hours: float | None


class EpochTotals(UnitTotals):
    runs: Count
    epochs_done: Count
    lost_cost: float
    outside_cost: float
    mean_cost_per_epoch: float | None
    cost_per_useful_gpu_hour: float | None


class Epochs(Unit):
    rows: list[EpochRow]
    totals: EpochTotals
    runs: list[Run]
    work_without_cost: list[ModelWithoutCost]


class ExperimentRow(Place):
    kind: Literal["run", "job", "outside_runs"]
    experiment: str | None
    name: str
    run_id: str | None
    parent_id: str | None
    status: str | None
    start: Instant | None = Field(alias="from")
    end: Instant | None = Field(alias="to")
    hours: Hours | None
    pods: Count | None
    cost: float
    idle_cost: float
    allocated_gpu_hours: Hours
    active_gpu_hours: Hours
    cost_per_active_gpu_hour: float | None


class Sweep(Part):
    sweep: str
    run_id: str
    experiment: str | None
    trials: Count
    cost: float
    cost_outside_trials: float
    cost_per_trial: float | None
    metric: str | None
    best_trial: str | None
    best_run_id: str | None
    best_value: float | None
    best_trial_cost: float | None


class ExperimentTotals(UnitTotals):
    experiments: Count
    cost_per_active_gpu_hour: float | None


class Experiments(Unit):
    rows: list[ExperimentRow]
    totals: ExperimentTotals
    sweeps: list[Sweep]
    work_without_cost: list[RunWithoutCost]


class Served(Part):
    cost: float
    idle_cost: float
    allocated_gpu_hours: Hours
    active_gpu_hours: Hours
    cost_per_active_gpu_hour: float | None


class RequestFigures(Served):
    unit: str
    amount: float
    failed: float
    cost_per_1000: float | None


class TokenFigures(Served):
    prompt_tokens: float
    generation_tokens: float
    cost_per_million_tokens: float | None
    cost_per_million_prompt_tokens: float | None
    cost_per_million_generation_tokens: float | None


class Model(Place):
    model: str | None


class ModelDay(Model):
    day: str


class RequestModel(Model, RequestFigures): ...


class RequestDay(ModelDay, RequestFigures): ...


class RequestTotals(UnitTotals, RequestFigures): ...


class Requests(Unit):
    rows: list[RequestDay]
    totals: RequestTotals
    models: list[RequestModel]
    work_without_cost: list[ModelWithoutCost]


class TokenModel(Model, TokenFigures): ...


class TokenDay(ModelDay, TokenFigures): ...


class TokenTotals(UnitTotals, TokenFigures): ...


class Tokens(Unit):
    rows: list[TokenDay]
    totals: TokenTotals
    models: list[TokenModel]
    work_without_cost: list[ModelWithoutCost]


_UNITS: dict[str, type[Answer]] = {
    "unit.epoch": Epochs,
    "unit.experiment": Experiments,
    "unit.requests": Requests,
    "unit.tokens": Tokens,
}


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


_USAGE: dict[str, type[Answer]] = {
    "waste": Waste,
    "findings": Findings,
    "queue": Queues,
}
