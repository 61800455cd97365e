"""Costs day by day: what a month will come to, what it may come to, and the days that break their pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from gpucost.periods import Period
from gpucost.price.fx import budget_amount
from gpucost.render.schema import Shape
from gpucost.render.view import Coverage
from gpucost.report.forecast import Days, Forecast, Series, forecast

if TYPE_CHECKING:
    from gpucost.config.model import Budget, Config
    from gpucost.render.view import Measures, ReportView

State = Literal["ok", "warn", "over"]
_SIX = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class TargetState:
    """A target and what was reached: ratios 0-1, and why it cannot be told where it is unknown."""

    name: Literal["efficiency", "spot_ratio", "idle_cost_share"]
    limit: Annotated[float, Field(alias="target")]
    value: float | None
    status: Literal["met", "missed", "unknown"]
    note: str | None


@dataclass(frozen=True, slots=True)
class BudgetState(Shape):
    """How a budget stands: `over` where more than `amount` is spent or a target is missed.

    `warn` where that comes near in a month that is not over. `amount` is in `currency`, the report's, None where only targets are
    given. `reasons` say why it is not ok, in words. `is_seen` False: the team held nothing in the month.
    """

    name: str
    team: str | None
    status: State
    amount: Decimal | None
    amount_status: State | None
    spent_percent: Decimal | None
    forecast: Forecast
    currency: str
    reasons: tuple[str, ...]
    targets: tuple[TargetState, ...]
    is_seen: bool

    FLAT = ("forecast",)
    HIDDEN = ("is_seen",)


@dataclass(frozen=True, slots=True)
class BudgetAnswer(Shape):
    """What `gpucost budget check` prints; `status` is the worst of all."""

    month: str
    period: Period
    currency: str
    status: State
    budgets: tuple[BudgetState, ...]
    coverage: Coverage

    FLAT = ("period",)


def check(config: Config, view: ReportView, days: Days, month: Sequence[date]) -> tuple[BudgetState, ...]:
    """The state of every budget of the configuration, from the month's report by team and the costs by day.

    Raises PriceError where a budget is in a currency without a rate.
    """
    return tuple(_state(config, budget, view, days, month) for budget in config.budgets)


def _state(config: Config, budget: Budget, view: ReportView, days: Days, month: Sequence[date]) -> BudgetState:
    row = next((row for row in view.rows if row.kind == "allocated" and row.keys["team"] == budget.team), None)
    measures = view.totals if budget.team is None else row.measures if row else None
    expected = forecast(days, Series("team", budget.team) if budget.team else Series("fleet"), month)
    amount = budget_amount(config, budget, month[0])
    money = _money_state(budget, amount, expected)
    targets = _targets(config, budget, measures)
    missed = [f"{target.name.replace('_', ' ')} is missed" for target in targets if target.status == "missed"]
    spent = (expected.to_date / amount * 100).quantize(_SIX) if amount else None
    words = []
    if money == "over":
        words.append("more is spent than the budget")
    elif money == "warn":
        words.append("the forecast is beyond it" if _is_late(amount, expected) else f"{spent:.0f} % is spent")
    return BudgetState(
        name=budget.name,
        team=budget.team,
        status="over" if missed or money == "over" else money or "ok",
        amount=amount,
        amount_status=money,
        spent_percent=spent,
        forecast=expected,
        currency=config.currency,
        reasons=(*words, *missed),
        targets=targets,
        is_seen=measures is not None,
    )


def _is_late(amount: Decimal | None, expected: Forecast) -> bool:
    return expected.expected is not None and amount is not None and expected.expected > amount


def _money_state(budget: Budget, amount: Decimal | None, expected: Forecast) -> State | None:
    if amount is None:
        return None
    if expected.to_date > amount:
        return "over"
    if not expected.open_days:
        return "ok"  # nothing more will be spent
    return "warn" if _is_late(amount, expected) or expected.to_date * 100 >= amount * budget.warn_at_percent else "ok"


def _targets(config: Config, budget: Budget, measures: Measures | None) -> tuple[TargetState, ...]:
    found = []
    unmeasured = _unmeasured(config, measures)
    if budget.efficiency is not None:
        limit, value = float(budget.efficiency), measures.efficiency if measures else None
        status = "unknown" if unmeasured or value is None else "met" if value >= limit else "missed"
        found.append(TargetState("efficiency", limit, value, status, unmeasured))  # type: ignore[arg-type]
    if budget.spot_ratio is not None:
        limit, value = float(budget.spot_ratio), measures.spot_ratio if measures else None
        status = "unknown" if value is None else "met" if value >= limit else "missed"
        note = None if value is not None else "held no GPUs" if measures is None else "no capacity type is known"
        found.append(TargetState("spot_ratio", limit, value, status, note))  # type: ignore[arg-type]
    if budget.idle_cost_share is not None:
        limit = float(budget.idle_cost_share)
        value = round(float(measures.idle_cost / measures.cost), 6) if measures and measures.cost else None
        # what was not measured may be idle, too: a share that is too large already stays so
        status = "missed" if value is not None and value > limit else "unknown" if unmeasured or value is None else "met"
        note = None if status == "missed" else unmeasured or ("it cost nothing" if value is None else None)
        found.append(TargetState("idle_cost_share", limit, value, status, note))  # type: ignore[arg-type]
    return tuple(found)


def _unmeasured(config: Config, measures: Measures | None) -> str | None:
    """Why nothing can be told of activity; None where it can."""
    if measures is None:
        return "held no GPUs"
    measured = measures.measured_ratio
    if measured is None:
        return "nothing was measured"
    least = config.idle.min_measured
    return f"{measured:.0%} measured, {least:.0%} needed" if measured < least else None
