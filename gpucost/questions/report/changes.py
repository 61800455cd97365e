"""The period before another, and what was not collected of it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from gpucost.periods import (
    MS_PER_HOUR,
    Period,
    from_ms,
    is_month,
    is_whole_days,
    local_midnight,
    month_period,
)
from gpucost.render.view import Notice, ReportView

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo


def previous_period(period: Period, end_ms: int, tz: ZoneInfo) -> Period:
    """The period before, as long: of a month the month before, else what ends where `period` begins.

    `end_ms` is where what is known of the period ends: of a month that is not over, as much of the month before is taken.
    """
    if not is_month(period, tz):
        first = period.start.astimezone(tz).date()
        last = period.end.astimezone(tz).date()
        start = period.start - (period.end - period.start)
        if is_whole_days(period, tz):  # they stay whole where clocks change
            start = local_midnight(first - (last - first), tz)
        return Period(start, period.start)
    before = month_period(period.start.astimezone(tz).date() - timedelta(days=1), tz)
    if end_ms >= period.end_ms:
        return before
    known = -(-(end_ms - period.start_ms) // MS_PER_HOUR) * MS_PER_HOUR
    return Period(before.start, from_ms(min(before.end_ms, before.start_ms + max(known, MS_PER_HOUR))))


def missed_before(earlier: ReportView, name: str) -> list[Notice]:
    """What was not collected of `earlier`, the report on the period called `name`: that much of a change may be no change."""
    return [
        Notice("not_collected_before", f"compared with {name}, of which {gap.message}", gap.fix)
        for gap in earlier.coverage.warnings
        if gap.code == "not_collected"
    ]
