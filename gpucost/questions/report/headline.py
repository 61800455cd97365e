"""The first sentence of a report: total, change, budget and idle cost."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from gpucost.errors import PriceError
from gpucost.periods import is_month, within
from gpucost.price.fx import budget_amount
from gpucost.questions.report.rows import ZERO
from gpucost.render.formatting import figure_text
from gpucost.texts import shortened

if TYPE_CHECKING:
    from gpucost.config.model import Config
    from gpucost.questions.report.query import Query
    from gpucost.render.view import ReportView

# A change or a share this near to 100 % keeps a decimal: a budget of 100.4 % is exceeded.
_NEAR = 0.01
# A smaller change would be 0 %.
_LEAST_CHANGE = 0.005
_LONGEST_NAME = 60


def headline(
    config: Config, query: Query, view: ReportView, earlier: tuple[str, Decimal] | None = None
) -> str:
    """`research: $22,303.85 in October 2026, 8 % more than September; 89 % of its $25,000 budget; idle $9,363.57`.

    The total is `total_cost`. `earlier` is the name and total of another period. Parts that are not known are left out.
    """
    total = total_cost(view)
    name = shortened(selected(query, "all GPU nodes"), _LONGEST_NAME)
    sentence = f"{name}: {_money(total, config)} {within(query.period_name)}"
    if earlier and earlier[1]:
        when, before = earlier
        change = float(total / before) - 1
        more = f"{_percent(abs(change))} {'more' if change > 0 else 'less'} than"
        sentence += f", {more if abs(change) >= _LEAST_CHANGE else 'as much as'} {when}"
    if budget := _budget(config, query):
        whose = "its" if query.teams else "the"
        decimals = 0 if budget == budget.to_integral_value() else 2
        amount = figure_text(budget, "money", config.currency, decimals)
        sentence += f"; {_percent(float(total / budget))} of {whose} {amount} budget"
    if view.totals.measured_ratio:
        sentence += f"; idle {_money(view.totals.idle_cost, config)}"
    return sentence


def total_cost(view: ReportView) -> Decimal:
    """The cost of all rows with bought tokens, before sharing: the cost to date of `gpucost budget check`.

    Without filters of pods, unallocated and not collected cost are part of it.
    """
    whole = view.node_totals.node_cost if view.node_totals else view.totals.cost
    return whole + (view.totals_api.api_cost if view.totals_api else ZERO)


def selected(query: Query, everything: str = "all teams") -> str:
    """The selected part of the fleet in words; `everything` names all of it."""
    namespaces = ", ".join(query.namespaces)
    selection = ", ".join(query.teams) or everything
    if namespaces and query.teams:
        selection += f" in {namespaces}"
    elif namespaces:
        selection = f"namespace{'s' if len(query.namespaces) > 1 else ''} {namespaces}"
    pods = (*query.workloads, *(f"user {name}" for name in query.users), *query.labels)
    if pods:
        selection = ", ".join(pods) + (f" of {selection}" if query.teams or query.namespaces else "")
    if query.clusters:
        selection += f" on {', '.join(query.clusters)}"
    return selection


def _budget(config: Config, query: Query) -> Decimal | None:
    """The smallest amount of the budgets of a month's report on all nodes or one team; None if it is not known.

    A team includes the teams below it.
    """
    filters = query.filters
    team, *below = filters.pop("teams") or ("",)
    is_other = tuple(below) != config.children(team) or any(filters.values())
    if is_other or not is_month(query.period, config.tz):
        return None
    first = query.period.start.astimezone(config.tz).date()
    try:
        amounts = [
            budget_amount(config, budget, first) for budget in config.budgets if (budget.team or "") == team
        ]
    except PriceError:
        return None
    return min(filter(None, amounts), default=None)


def _money(amount: Decimal, config: Config) -> str:
    """Money to the cent."""
    return figure_text(amount, "money", config.currency, 2)


def _percent(share: float) -> str:
    """A share (0-1) in whole percent; near 100 % with a decimal."""
    return figure_text(share, "ratio", "", int(abs(share - 1) < _NEAR))
