"""Local days and months as instants: safe where clocks change."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from gpucost.model import Period

_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def local_midnight(day: date, tz: ZoneInfo) -> datetime:
    """The UTC instant at which the local day begins; where clocks skip midnight, the first instant after the skip."""
    return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)


def local_days(period: Period, tz: ZoneInfo) -> Iterator[date]:
    """The local days that the period touches, in order; a day that the zone skipped is none."""
    day = period.start.astimezone(tz).date()
    previous: datetime | None = None
    while (begins := local_midnight(day, tz)) < period.end:
        if begins != previous:  # a day that the zone skipped begins where the next one does
            yield day
        previous, day = begins, day + timedelta(days=1)


def month_period(day: date, tz: ZoneInfo) -> Period:
    """The local month that holds `day`."""
    first = day.replace(day=1)
    return Period(local_midnight(first, tz), local_midnight(_first_of_next_month(first), tz))


def is_month(period: Period, tz: ZoneInfo) -> bool:
    """Whether the period is one whole local month."""
    return month_period(period.start.astimezone(tz).date(), tz) == period


def is_whole_days(period: Period, tz: ZoneInfo) -> bool:
    """Whether the period begins and ends at a midnight of `tz`."""
    return all(local_midnight(at.astimezone(tz).date(), tz) == at for at in (period.start, period.end))


def month_name(day: date) -> str:
    """`October 2026`, in English whatever the locale."""
    return f"{_MONTHS[day.month - 1]} {day.year}"


def name_of(period: Period, tz: ZoneInfo) -> str:
    """How people name the period: a month, days (the last one included), or two local instants."""
    start, end = period.start.astimezone(tz), period.end.astimezone(tz)
    first, last = start.date(), (period.end - timedelta(milliseconds=1)).astimezone(tz).date()
    if is_month(period, tz):
        return month_name(first)
    if period.start == local_midnight(first, tz) and period.end == local_midnight(last + timedelta(days=1), tz):
        return first.isoformat() if first == last else f"{first} to {last}"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"


def within(name: str) -> str:
    """The name of a period as a sentence goes on with it: in October 2026, on 2026-10-14, from 2026-10-01 to 2026-10-07."""
    if " to " in name:
        return f"from {name}"
    return f"{'on' if name[:1].isdigit() else 'in'} {name}"


def _first_of_next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)
