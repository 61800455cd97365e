"""Budgets and targets of a month, with an exit code for cron and pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from gpucost.errors import ConfigError
from gpucost.options import Option
from gpucost.periods import local_days
from gpucost.questions.budget.days import BOUGHT, chosen_month, costs_by_day, known_days
from gpucost.questions.budget.projection import Days
from gpucost.questions.budget.states import BudgetAnswer, BudgetState, check
from gpucost.questions.report.query import nearest
from gpucost.questions.request import MonthRequest
from gpucost.render.schema import to_dict
from gpucost.render.view import Document, Table, money, share, text

MISSED = 3
_RANKS = ("ok", "warn", "over")
# From which status on the command fails.
FailOn = Literal["warn", "over", "never"]


def budget_check(
    request: MonthRequest,
    fail_on: Annotated[
        FailOn,
        Option(
            "Exit with 3 where a budget is overspent or a target missed (over), or already where that "
            "comes near (warn).",
            is_shown=True,
        ),
    ] = "over",
) -> Document:
    """Hold the month against the budgets and targets of [[budgets]]; exit with 3 where one is missed.

    Over: more is spent than the budget, or a target is missed. Warn: the forecast is beyond the budget, or warn_at_percent of it
    (80) is spent. A target on efficiency is unknown, not missed, where too little was measured ([idle] min_measured).

    \b
    Examples:
      gpucost budget check
      gpucost budget check --month 2026-10 --fail-on warn
      gpucost budget check --format json -o budgets.json
    """
    settings = request.settings
    if not settings.budgets:
        raise ConfigError(
            f"{settings.path or 'the configuration'} holds no budgets",
            "add [[budgets]] with name, amount and, for a team's, team; docs/budgets.md has all keys",
        )
    period, name = chosen_month(request)
    # first, for its message where the month holds no data
    request.report(period_note=None, with_sections=False, may_be_idle=True)
    view, days = costs_by_day(request, period)
    month_days = tuple(local_days(period, request.tz))
    states = check(settings, view, days, month_days)
    worst = max((state.status for state in states), key=_RANKS.index)
    lines = [
        to_dict(state) | {"reasons": "; ".join(state.reasons), **_target_columns(state)} for state in states
    ]
    for line in lines:
        del line["targets"]
    counts = {"warn": ("warn", "over"), "over": ("over",), "never": ()}[fail_on]
    failed = [state for state in states if state.status in counts]
    return Document(
        title=f"Budgets: {name}",
        subtitle=known_days(days, month_days),
        currency=settings.currency,
        sections=_tables(states, BOUGHT if view.totals_api else None),
        coverage=view.coverage,
        name="budget",
        data=BudgetAnswer(f"{month_days[0]:%Y-%m}", period, settings.currency, worst, states, view.coverage),
        flat=(list(lines[0]), [list(line.values()) for line in lines]),
        notes=_notes(states, days, name, failed),
        exit_code=MISSED if failed else 0,
    )


def _notes(
    states: Sequence[BudgetState], days: Days, name: str, failed: Sequence[BudgetState]
) -> tuple[str, ...]:
    """What to report besides the answer: teams that nobody knows, and why the command fails."""
    notes = []
    known = [series.team for series in days.costs if series.level == "team" and series.team]
    for state in states:
        if not state.is_seen:
            # of a team that held nothing in the weeks before, either
            others = ""
            if state.team and known and state.team not in known:
                others = f"; there are {', '.join(nearest(state.team, known)[:5])}"
            notes.append(
                f"budget {state.name}: no team {state.team!r} held GPUs or bought tokens in {name}{others}"
            )
    return (*notes, *(f"budget {state.name}: {'; '.join(state.reasons)}" for state in failed))


def _target_columns(state: BudgetState) -> dict[str, Any]:
    found = {one.name: one for one in state.targets}
    columns: dict[str, Any] = {}
    for name in ("efficiency", "spot_ratio", "idle_cost_share"):
        for column, field in ((name, "value"), (f"{name}_target", "limit"), (f"{name}_status", "status")):
            columns[column] = getattr(found.get(name), field, None)
    return columns


def _tables(states: tuple[BudgetState, ...], note: str | None) -> tuple[Table, ...]:
    """Of those that have any: amounts of money, with a note, and targets."""
    budgets = Table.of(
        "Money",
        [state for state in states if state.amount is not None],
        (
            text("name", "Budget"),
            text(lambda state: state.team or "all GPU nodes", "Team", weight=1),
            money("amount"),
            money("forecast.to_date", "To date"),
            share(
                lambda state: None if state.spent_percent is None else float(state.spent_percent) / 100,
                "Spent",
            ),
            money("forecast.expected", "Forecast"),
            text(_range, "Range", weight=1),
            text(lambda state: state.amount_status or "", "Status"),
        ),
        note=note,
    )
    targets = Table.of(
        "Targets",
        [(state, one) for state in states for one in state.targets],
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


def _range(state: BudgetState) -> str:
    low, high = state.forecast.low, state.forecast.high
    return "" if low is None or high is None or low == high else f"{low:,.0f} to {high:,.0f}"
