"""unit epoch, experiment, requests and tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpucost.schemas.base import Answer, Count, Currency, Hours, Instant, Part, Span


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


class Totals(Part):
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


class EpochTotals(Totals):
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


class ExperimentTotals(Totals):
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


class RequestTotals(Totals, RequestFigures): ...


class Requests(Unit):
    rows: list[RequestDay]
    totals: RequestTotals
    models: list[RequestModel]
    work_without_cost: list[ModelWithoutCost]


class TokenModel(Model, TokenFigures): ...


class TokenDay(ModelDay, TokenFigures): ...


class TokenTotals(Totals, TokenFigures): ...


class Tokens(Unit):
    rows: list[TokenDay]
    totals: TokenTotals
    models: list[TokenModel]
    work_without_cost: list[ModelWithoutCost]


ANSWERS: dict[str, type[Answer]] = {
    "unit.epoch": Epochs,
    "unit.experiment": Experiments,
    "unit.requests": Requests,
    "unit.tokens": Tokens,
}
