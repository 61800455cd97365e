"""The states of budgets and targets in a month."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from gpucost.config.model import Budget, Config
from gpucost.periods import Period
from gpucost.price.fx import budget_amount
from gpucost.questions.budget.projection import CostSeries, Days, Forecast, forecast
from gpucost.questions.report.sections import unmeasured
from gpucost.records import frozen_dataclass
from gpucost.render.view import CoverageAnswer, Measures, ReportView, ratio
from gpucost.shapes import Shape

State = Literal["ok", "warn", "over"]
TargetName = Literal["efficiency", "spot_ratio", "idle_cost_share"]
_SIX = Decimal("0.000001")


@frozen_dataclass
class TargetState:
    """A target and the reached value, ratios 0-1, with a note if it is unknown."""

    name: TargetName
    limit: Annotated[float, Field(alias="target")]
    value: float | None
    status: Literal["met", "missed", "unknown"]
    note: str | None


@frozen_dataclass
class BudgetState(Shape):
    """The state of a budget: `over` if more than `amount` is spent or a target is missed.

    `warn`: that is near, in a month that is not over. `amount` is in `currency`, that of the report; None with targets alone.
    `reasons` are sentences about a state that is not ok. `is_seen` False: the team had no GPUs and no tokens in the month.
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


@frozen_dataclass
class BudgetAnswer(Shape):
    """The answer of `gpucost budget check`; `status` is the worst of all."""

    month: str
    period: Period
    currency: str
    status: State
    budgets: tuple[BudgetState, ...]
    coverage: CoverageAnswer


def check(config: Config, view: ReportView, days: Days, month: Sequence[date]) -> tuple[BudgetState, ...]:
    """The state of every budget of the configuration, from the month's report by team and the costs by day.

    Raises PriceError where a budget is in a currency without a rate.
    """
    return tuple(_state(config, budget, view, days, month) for budget in config.budgets)


def _state(
    config: Config, budget: Budget, view: ReportView, days: Days, month: Sequence[date]
) -> BudgetState:
    rows = [row for row in view.rows if row.keys["team"] == budget.team]
    row = next((row for row in rows if row.kind == "allocated"), None)
    measures = view.totals if budget.team is None else row.measures if row else None
    expected = forecast(days, CostSeries("team", budget.team) if budget.team else CostSeries("fleet"), month)
    amount = budget_amount(config, budget, month[0])
    targets = _targets(config, budget, measures)
    missed = [f"{target.name.replace('_', ' ')} is missed" for target in targets if target.status == "missed"]
    money: State | None = None
    reasons: list[str] = []
    spent = None
    if amount:
        money, spent = "ok", (expected.to_date / amount * 100).quantize(_SIX)
        is_late = expected.expected is not None and expected.expected > amount
        if expected.to_date > amount:
            money, reasons = "over", ["the budget is exceeded"]
        elif expected.open_days and (is_late or expected.to_date * 100 >= amount * budget.warn_at_percent):
            money, reasons = (
                "warn",
                ["the forecast exceeds the budget" if is_late else f"{spent:.0f} % is spent"],
            )
    return BudgetState(
        name=budget.name,
        team=budget.team,
        status="over" if missed else money or "ok",
        amount=amount,
        amount_status=money,
        spent_percent=spent,
        forecast=expected,
        currency=config.currency,
        reasons=(*reasons, *missed),
        targets=targets,
        is_seen=budget.team is None or bool(rows),
    )


def _targets(config: Config, budget: Budget, measures: Measures | None) -> tuple[TargetState, ...]:
    activity_unknown = spot_unknown = idle_unknown = "held no GPUs"
    efficiency = spot_ratio = idle_share = None
    if measures:
        efficiency, spot_ratio = measures.efficiency, measures.spot_ratio
        idle_share = ratio(measures.idle_cost, measures.cost)
        activity_unknown = unmeasured(measures, config) or ""
        spot_unknown = "no capacity type is known" if spot_ratio is None else ""
        idle_unknown = activity_unknown or ("it cost nothing" if idle_share is None else "")
    targets = [
        _target("efficiency", budget.efficiency, efficiency, activity_unknown),
        _target("spot_ratio", budget.spot_ratio, spot_ratio, spot_unknown),
        _target("idle_cost_share", budget.idle_cost_share, idle_share, idle_unknown),
    ]
    return tuple(filter(None, targets))


def _target(
    name: TargetName, target: Decimal | None, value: float | None, unknown: str
) -> TargetState | None:
    """A target's state, None without one; `unknown` is why its value cannot be judged."""
    if target is None:
        return None
    limit, is_most = float(target), name == "idle_cost_share"
    is_missed = value is not None and (value > limit if is_most else value < limit)
    # unmeasured time may be idle, too: a share that is too large already stays so
    if (unknown or value is None) and not (is_missed and is_most):
        return TargetState(name, limit, value, "unknown", unknown or None)
    return TargetState(name, limit, value, "missed" if is_missed else "met", None)
