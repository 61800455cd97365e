"""`gpucost budget check`: budgets and targets, with an exit code for cron and pipelines."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpucost.cli._common import ConfigOption, QuietOption, StoreOption, VerboseOption, handle_errors, load, note, output_file
from gpucost.cli._periods import MonthOption
from gpucost.cli._rows import FormatOption, OutputOption, RowFormat

if TYPE_CHECKING:
    from decimal import Decimal

    from gpucost.budget import BudgetState
    from gpucost.report.view import Table

SCHEMA = "gpucost.budget/1"
MISSED = 3
_RANKS = ("ok", "warn", "over")


class FailOn(StrEnum):
    """From which status on the command fails."""

    warn = "warn"
    over = "over"
    never = "never"


@handle_errors
def budget_check(
    month: MonthOption = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(
            "--fail-on",
            help="Exit with 3 where a budget is overspent or a target missed (over), or already where that comes near (warn).",
        ),
    ] = FailOn.over,
    format: FormatOption = RowFormat.table,
    output: OutputOption = None,
    config: ConfigOption = None,
    store: StoreOption = None,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Hold the month against the budgets and targets of [[budgets]]; exit with 3 where one is missed.

    Over: more is spent than the budget, or a target is missed. Warn: the forecast is beyond the budget, or warn_at_percent of it
    (80) is spent. A target on efficiency is unknown, not missed, where too little was measured ([idle] min_measured).

    \b
    Examples:
      gpucost budget check
      gpucost budget check --month 2026-10 --fail-on warn
      gpucost budget check --format json -o budgets.json
    """
    from datetime import UTC, datetime

    from gpucost import pipeline
    from gpucost.budget import check
    from gpucost.cli._budget import chosen_month, costs_by_day, local_days_of, write_answer
    from gpucost.errors import ConfigError
    from gpucost.model import iso
    from gpucost.report import Query

    target = output_file(output)
    settings, opened = load(config, store)
    if not settings.budgets:
        raise ConfigError(
            f"{settings.path or 'the configuration'} holds no budgets",
            "add [[budgets]] with name, amount and, for a team's, team; docs/budgets.md has all keys",
        )
    now = datetime.now(UTC)
    period, name = chosen_month(settings, opened, month, now)
    # first, for its message where the month holds no data
    asked = Query(period=period, period_name=name, now=now, with_sections=False, may_be_idle=True)
    pipeline.report(settings, opened, asked)
    view, days = costs_by_day(settings, opened, period, now)
    month_days = local_days_of(settings, period)
    states = check(settings, view, days, month_days)
    worst = max((state.status for state in states), key=_RANKS.index)
    rows = [_flat(state, settings.currency) for state in states]
    whole: dict[str, Any] = {
        "schema": SCHEMA,
        "month": f"{month_days[0]:%Y-%m}",
        "from": iso(period.start),
        "to": iso(period.end),
        "currency": settings.currency,
        "status": worst,
        "budgets": [row | {"targets": _targets(state)} for row, state in zip(rows, states, strict=True)],
    }
    title = f"Budgets: {name}"
    subtitle = f"{sum(day in days.complete for day in month_days)} of {len(month_days)} days are known"
    lines = [
        row | {"reasons": "; ".join(row["reasons"]), **_target_columns(state)} for row, state in zip(rows, states, strict=True)
    ]
    sections = [table for table in (_money_table(states), _target_table(states)) if table.lines]
    write_answer(view, title, subtitle, sections, whole, lines, list(lines[0]), format, target)
    if target:
        note(f"{title}: written to {target}", quiet=quiet)
    known = [series.team for series in days.costs if series.level == "team" and series.team]
    for state in states:
        if not state.is_seen:
            note(f"budget {state.name}: no team {state.team!r} held GPUs in {name}{_meant(state.team, known)}", quiet=quiet)
    if fail_on is not FailOn.never and _RANKS.index(worst) >= _RANKS.index(fail_on.value):
        failed = [state for state in states if _RANKS.index(state.status) >= _RANKS.index(fail_on.value)]
        for state in failed:
            note(f"budget {state.name}: {'; '.join(state.reasons)}", quiet=quiet)
        raise typer.Exit(MISSED)


def _meant(team: str | None, known: list[str]) -> str:
    """The teams there are, the nearest first, where the name is of none that held anything in the weeks before, either."""
    from gpucost.report.query import nearest

    return f"; there are {', '.join(nearest(team, known)[:5])}" if team and known and team not in known else ""


def _flat(state: BudgetState, currency: str) -> dict[str, Any]:
    from gpucost.cli._budget import forecast_fields

    return {
        "name": state.name,
        "team": state.team,
        "status": state.status,
        "amount": state.amount,
        "amount_status": state.amount_status,
        "spent_percent": state.spent_percent,
        **forecast_fields(state.forecast),
        "currency": currency,
        "reasons": list(state.reasons),
    }


def _targets(state: BudgetState) -> list[dict[str, Any]]:
    return [
        {"name": one.name, "target": one.limit, "value": one.value, "status": one.status, "note": one.note}
        for one in state.targets
    ]


def _target_columns(state: BudgetState) -> dict[str, Any]:
    found = {one.name: one for one in state.targets}
    columns: dict[str, Any] = {}
    for name in ("efficiency", "spot_ratio", "idle_cost_share"):
        one = found.get(name)
        columns |= {name: one.value if one else None, f"{name}_target": one.limit if one else None}
        columns |= {f"{name}_status": one.status if one else None}
    return columns


def _money_table(states: tuple[BudgetState, ...]) -> Table:
    from gpucost.report.view import Column, Line, Table

    return Table(
        "Money",
        (
            Column("Budget", "text"),
            Column("Team", "text", weight=1),
            Column("Amount", "money", 2),
            Column("To date", "money", 2),
            Column("Spent", "ratio"),
            Column("Forecast", "money", 2),
            Column("Range", "text", weight=1),
            Column("Status", "text"),
        ),
        tuple(
            Line(
                (
                    state.name,
                    state.team or "all GPU nodes",
                    state.amount,
                    state.forecast.to_date,
                    _ratio(state.spent_percent),
                    state.forecast.expected,
                    _range(state),
                    state.amount_status or "",
                )
            )
            for state in states
            if state.amount is not None
        ),
    )


def _target_table(states: tuple[BudgetState, ...]) -> Table:
    from gpucost.report.view import Column, Line, Table

    lines = [
        Line(
            (
                state.name,
                state.team or "all GPU nodes",
                one.name.replace("_", " "),
                "at most" if one.name == "idle_cost_share" else "at least",
                one.limit,
                one.value,
                one.status,
                one.note or "",
            )
        )
        for state in states
        for one in state.targets
    ]
    return Table(
        "Targets",
        (
            Column("Budget", "text"),
            Column("Team", "text", weight=1),
            Column("Target", "text"),
            Column("", "text"),
            Column("Limit", "ratio"),
            Column("Reached", "ratio"),
            Column("Status", "text"),
            Column("", "text", weight=1),
        ),
        tuple(lines),
    )


def _range(state: BudgetState) -> str:
    low, high = state.forecast.low, state.forecast.high
    return "" if low is None or high is None or low == high else f"{low:,.0f} to {high:,.0f}"


def _ratio(percent: Decimal | None) -> float | None:
    return None if percent is None else float(percent) / 100
