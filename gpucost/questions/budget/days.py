"""Costs by day, for budgets, forecasts and anomalies."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

from gpucost.errors import GpucostError, StoreError, UsageError
from gpucost.periods import Period, local_midnight, name_of
from gpucost.questions.budget.projection import Days, days_of
from gpucost.questions.request import Request
from gpucost.render.view import Notice, ReportView

# The names of rows without a team.
LEVELS = {"unallocated": "Unallocated", "fleet": "All GPU nodes"}
BOUGHT = "Bought tokens are part of it, of teams and of all GPU nodes."
# Eight weeks and one to begin with; three ends of months, and the weeks around them.
RECENT_DAYS, LONG_HISTORY_DAYS = 63, 94


def known_days(days: Days, wanted: Sequence[date]) -> str:
    return f"{sum(day in days.complete for day in wanted)} of {len(wanted)} days are known"


def chosen_month(request: Request) -> tuple[Period, str]:
    """The selected month, otherwise the current one or the newest with data. Raises UsageError for a future month."""
    period, name, _ = request.chosen
    if period.start > request.now:
        raise UsageError(f"{name} has not begun", "leave out --month to forecast the current month")
    return period, name


def costs_by_day(
    request: Request,
    period: Period,
    by: tuple[str, ...] = ("team", "day"),
    history_days: int = LONG_HISTORY_DAYS,
) -> tuple[ReportView, Days]:
    """Costs of the days of `period` and of the `history_days` before it, by `by`, which ends with day; and a report for coverage.

    The report covers `period` alone if any part of it was collected.
    """
    tz, now, of_all = request.tz, request.now, {"teams": (), "with_sections": False, "may_be_idle": True}
    first = period.start.astimezone(tz).date() - timedelta(days=history_days)
    window = Period(local_midnight(first, tz), period.end)
    view = request.report(period=window, period_name=name_of(window, tz), by=by, **of_all)
    days = days_of(view, tz, now)
    try:
        view = request.report(period=period, period_name="", may_be_absent=True, **of_all)
    except StoreError:
        raise
    except GpucostError:  # no data in it yet
        pass
    # past days that were not collected in full, since the first complete day
    today = now.astimezone(tz).date()
    since = [day for day in days.all if days.complete and days.complete[0] < day < today]
    left_out = [day for day in since if day not in days.complete]
    if not left_out:
        return view, days
    message = f"{len(left_out):,} of {len(since) + 1:,} days since {days.complete[0]} are left out: not collected in full"
    warnings = (*view.coverage.warnings, Notice("days_left_out", message, None))
    return replace(view, coverage=replace(view.coverage, warnings=warnings)), days
