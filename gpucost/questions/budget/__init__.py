"""Budgets and targets of a month, with an exit code for cron and pipelines."""

from collections.abc import Sequence
from typing import Annotated, Literal

from gpucost.errors import ConfigError
from gpucost.options import Option
from gpucost.periods import local_days
from gpucost.questions.budget.days import BOUGHT, chosen_month, costs_by_day, known_days
from gpucost.questions.budget.states import BudgetAnswer, BudgetState, check
from gpucost.questions.request import MonthRequest
from gpucost.render.schema import columns_of, table as as_table
from gpucost.render.view import Document, Table, money, share, text

MISSED = 3
_RANKS = ("ok", "warn", "over")
# The lowest status with which the command fails.
FailOn = Literal["warn", "over", "never"]


def budget_check(
    request: MonthRequest,
    fail_on: Annotated[
        FailOn,
        Option(
            "Lowest status that exits with 3: warn, over (a budget is exceeded or a target is missed), or "
            "never.",
            is_shown=True,
        ),
    ] = "over",
) -> Document:
    """Compare the month with the budgets and targets of [[budgets]]; exit with 3 if one is missed.

    Over: the cost exceeds the budget, or a target is missed. Warn: the forecast exceeds the budget, or warn_at_percent
    of it (default: 80) is spent. An efficiency target is unknown, not missed, if too little time was measured
    ([idle] min_measured).

    \b
    Examples:
      gpucost budget check
      gpucost budget check --month 2026-10 --fail-on warn
      gpucost budget check --format json -o budgets.json
    """
    settings = request.settings
    if not settings.budgets:
        raise ConfigError(
            f"{settings.path or 'the configuration'} has no budgets",
            "add [[budgets]] with name, amount and, for a team's, team",
        )
    period, name = chosen_month(request)
    # first, for its error message if the month has no data
    request.report(period_note=None, with_sections=False, may_be_idle=True)
    view, days = costs_by_day(request, period)
    month_days = tuple(local_days(period, request.tz))
    states = check(settings, view, days, month_days)
    worst = max((state.status for state in states), key=_RANKS.index)
    counts = {"warn": ("warn", "over"), "over": ("over",), "never": ()}[fail_on]
    failed = [state for state in states if state.status in counts]
    unknown = [
        f"budget {state.name}: no team {state.team!r} held GPUs or bought tokens in {name}"
        for state in states
        if not state.is_seen
    ]
    # reasons come last; targets are in JSON
    columns, lines = as_table(states, [name for name in columns_of(BudgetState) if name != "targets"])
    return Document(
        title=f"Budgets: {name}",
        subtitle=known_days(days, month_days),
        currency=settings.currency,
        sections=_tables(states, BOUGHT if view.totals_api else None),
        coverage=view.coverage,
        name="budget",
        data=BudgetAnswer(f"{month_days[0]:%Y-%m}", period, settings.currency, worst, states, view.coverage),
        flat=(columns, [[*line[:-1], "; ".join(line[-1])] for line in lines]),
        notes=(*unknown, *(f"budget {state.name}: {'; '.join(state.reasons)}" for state in failed)),
        exit_code=MISSED if failed else 0,
    )


def _tables(states: Sequence[BudgetState], note: str | None) -> tuple[Table, ...]:
    """Amounts of money, with a note, and targets, if there are any."""
    budgets = Table.of(
        "Money",
        [state for state in states if state.amount is not None],
        (
            text("name", "Budget"),
            text(lambda state: state.team or "all GPU nodes", "Team", weight=1),
            money("amount"),
            money("forecast.to_date", "To date"),
            share(lambda state: state.spent_percent / 100, "Spent"),
            money("forecast.expected", "Forecast"),
            money("forecast.low", "From", weight=1),
            money("forecast.high", "To", weight=1),
            text("amount_status", "Status"),
        ),
        note=note,
    )
    targets = Table.of(
        "Targets",
        [(state, target) for state in states for target in state.targets],
        (
            text(lambda row: row[0].name, "Budget"),
            text(lambda row: row[0].team or "all GPU nodes", "Team", weight=1),
            text(lambda row: row[1].name.replace("_", " "), "Target"),
            text(lambda row: "at most" if row[1].name == "idle_cost_share" else "at least"),
            share(lambda row: row[1].limit, "Limit"),
            share(lambda row: row[1].value, "Reached"),
            text(lambda row: row[1].status, "Status"),
            text(lambda row: row[1].note or "", weight=1),
        ),
    )
    return tuple(table for table in (budgets, targets) if table.lines)
