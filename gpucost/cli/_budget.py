"""What `gpucost budget check`, `gpucost forecast` and `gpucost anomalies` share: costs by day, and how answers are written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost.cli._common import put_or_write
from gpucost.cli._periods import chosen_period
from gpucost.cli._rows import FLAT, RowFormat, write_rows

if TYPE_CHECKING:
    from gpucost.budget import Days, Forecast
    from gpucost.config import Config
    from gpucost.model import Period
    from gpucost.report import ReportView
    from gpucost.report.view import Figures, Table
    from gpucost.store import Store


_DAYS_SHOWN = 5


def chosen_month(config: Config, store: Store, month: str | None, now: datetime) -> tuple[Period, str]:
    """The month asked for, else the current one or the newest with data. Raises UsageError for one that has not begun."""
    from gpucost.errors import UsageError

    period, name, _ = chosen_period(store, config.tz, now, month=month)
    if period.start > now:
        raise UsageError(f"{name} has not begun", "a forecast is of the current month; without --month it is taken")
    return period, name


def costs_by_day(
    config: Config, store: Store, period: Period, now: datetime, by: tuple[str, ...] = ("team", "day")
) -> tuple[ReportView, Days]:
    """Costs of the days of `period` and of eight weeks before it, by `by`, which ends with day; and a report for its coverage.

    That is of `period` alone where any of it was collected: what lies before is no matter of its figures.
    """
    from gpucost import pipeline
    from gpucost.budget import HISTORY_DAYS, days_of
    from gpucost.errors import GpucostError, StoreError
    from gpucost.model import Period
    from gpucost.report import Query
    from gpucost.timeline import local_midnight, name_of

    first = period.start.astimezone(config.tz).date() - timedelta(days=HISTORY_DAYS + 7)
    window = Period(local_midnight(first, config.tz), period.end)
    query = Query(period=window, period_name=name_of(window, config.tz), by=by, now=now, with_sections=False, may_be_idle=True)
    view = pipeline.report(config, store, query)
    days = days_of(view, config.tz, now)
    asked = Query(period=period, period_name="", now=now, with_sections=False, may_be_absent=True, may_be_idle=True)
    try:
        view = pipeline.report(config, store, asked)
    except StoreError:
        raise
    except GpucostError:  # no data in it yet
        pass
    return _with_left_out(view, days, now.astimezone(config.tz).date()), days


def _with_left_out(view: ReportView, days: Days, today: date) -> ReportView:
    """The report with a word on the days that are over, and were not collected in full, since the first one that was."""
    from gpucost.report.view import Notice

    since = [day for day in days.all if days.complete and days.complete[0] < day < today]
    left_out = [day for day in since if day not in set(days.complete)]
    if not left_out:
        return view
    message = f"{len(left_out):,} of {len(since) + 1:,} days since {days.complete[0]} are left out: not collected in full"
    named = f" ({', '.join(map(str, left_out[:_DAYS_SHOWN]))}{', …' if len(left_out) > _DAYS_SHOWN else ''})"
    warnings = (*view.coverage.warnings, Notice("days_left_out", message + named, None))
    return replace(view, coverage=replace(view.coverage, warnings=warnings))


def local_days_of(config: Config, period: Period) -> tuple[date, ...]:
    """The local days of `period`."""
    from gpucost.timeline import local_days

    return tuple(local_days(period, config.tz))


def forecast_fields(forecast: Forecast) -> dict[str, Any]:
    """A forecast as programs read it, money still Decimal."""
    return {
        "cost_to_date": forecast.to_date,
        "forecast": forecast.expected,
        "forecast_low": forecast.low,
        "forecast_high": forecast.high,
        "open_days": forecast.open_days,
        "history_days": forecast.history_days,
    }


def write_answer(
    view: ReportView,
    title: str,
    subtitle: str,
    sections: Sequence[Table | Figures],
    whole: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    format: RowFormat,
    target: Path | None,
) -> None:
    """Write `sections` for people, `whole` as JSON with the coverage of `view`, or `rows` in `columns` as CSV or Parquet."""
    if format in FLAT:
        write_rows(columns, [[row[name] for name in columns] for row in rows], format, target)
    elif format is RowFormat.json:
        from gpucost.report.render_data import coverage_dict

        text = (
            json.dumps({**whole, "coverage": coverage_dict(view.coverage)}, indent=2, ensure_ascii=False, default=_plain) + "\n"
        )
        put_or_write(text, target)
    else:
        from gpucost.cli.report import ReportFormat, write_report

        shown = replace(view, title=title, subtitle=subtitle, sections=tuple(sections))
        write_report(shown, ReportFormat(format.value), target)


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no place in an answer")
