"""The time axis: a period cut into steps that a chart can show, and the local hours of its weeks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from gpucost.model import Period, from_ms
from gpucost.report.series.view import Moment, Step
from gpucost.report.slots import Slot, slots

_MOST_DAYS_BY: tuple[tuple[Step, int], ...] = (("hour", 3), ("day", 100), ("week", 750))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class LocalHour:
    """A part [from_ms, to_ms) of the period: the moment it belongs to, its weekday (Monday 0) and hour, both local.

    Hours are cut where the store cuts its cells: at hours of UTC and local midnights. One of a zone half an hour off counts for
    the local hour that it begins in.
    """

    from_ms: int
    to_ms: int
    moment: int
    weekday: int
    hour: int


def step_of(period: Period) -> Step:
    """The finest step of which a chart can show all."""
    days = (period.end - period.start) / timedelta(days=1)
    return next((step for step, most in _MOST_DAYS_BY if days <= most), "month")


def moments_of(period: Period, tz: ZoneInfo, step: Step) -> list[Moment]:
    """The period's steps in order, without gap or overlap; the first and last may be cut short by its ends."""
    parts = slots(period, tz, ("day",) if step == "week" else (step,))
    if step != "week":
        return [_moment(part, part.to_ms, step, tz) for part in parts]
    weeks = [list(days) for _, days in groupby(parts, key=lambda part: from_ms(part.from_ms).astimezone(tz).isocalendar()[:2])]
    return [_moment(days[0], days[-1].to_ms, step, tz) for days in weeks]


def local_hours(period: Period, tz: ZoneInfo, moments: list[Moment]) -> list[LocalHour]:
    """Every hour of the period."""
    found: list[LocalHour] = []
    at = 0
    for part in slots(period, tz, ("hour",)):
        while part.from_ms >= moments[at].to_ms:
            at += 1
        local = from_ms(part.from_ms).astimezone(tz)
        found.append(LocalHour(part.from_ms, part.to_ms, at, local.weekday(), local.hour))
    return found


def _moment(part: Slot, to_ms: int, step: Step, tz: ZoneInfo) -> Moment:
    local = from_ms(part.from_ms).astimezone(tz)
    last = from_ms(to_ms - 1).astimezone(tz)
    day = f"{_MONTHS[local.month - 1]} {local.day}"
    if step == "month":
        return Moment(part.month, f"{_MONTHS[local.month - 1]} {local.year}", part.from_ms, to_ms)
    if step == "hour":
        return Moment(_hour_name(local), f"{day} {local:%H:%M}", part.from_ms, to_ms)
    if step == "week" and last.date() > local.date():
        return Moment(f"{local:%Y-%m-%d} to {last:%Y-%m-%d}", day, part.from_ms, to_ms)
    return Moment(f"{local:%Y-%m-%d}", day, part.from_ms, to_ms)


def _hour_name(local: datetime) -> str:
    """With the offset from UTC where clocks show the hour twice."""
    is_plain = local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset()
    return f"{local:%Y-%m-%d %H:%M}" if is_plain else f"{local:%Y-%m-%d %H:%M %z}"
