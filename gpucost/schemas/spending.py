"""diff, budget, forecast and anomalies."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from gpucost.schemas.base import Answer, Count, Coverage, Currency, Day, Hours, Part, Ratio, Span

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


ANSWERS: dict[str, type[Answer]] = {
    "diff": Diff,
    "budget": Budget,
    "forecast": Forecast,
    "anomalies": Anomalies,
}
