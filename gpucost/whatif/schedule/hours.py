"""Office hours: the local times of a week in which people work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING

from gpucost.errors import UsageError
from gpucost.model import MS_PER_HOUR, Period, to_ms
from gpucost.timeline import local_days

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gpucost.whatif.measured import Span

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS = re.compile(r"(\d{1,2}):(\d\d)-(\d{1,2}):(\d\d)")
HOURS_PER_WEEK = 168


@dataclass(frozen=True, slots=True)
class OfficeHours:
    """Minutes of the local day [opens, closes), on `weekdays` (0 is Monday). Closing before opening runs into the next day."""

    opens: int
    closes: int
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, hours: str, weekdays: str) -> OfficeHours:
        """Of `08:00-18:00` and `mon-fri` or `mon,wed,sat`. Raises UsageError."""
        found = _HOURS.fullmatch(hours.strip())
        if not found:
            raise UsageError(f"--office-hours {hours!r} cannot be read", "write them as 08:00-18:00")
        first, first_minutes, last, last_minutes = map(int, found.groups())
        opens, closes = first * 60 + first_minutes, last * 60 + last_minutes
        if max(first_minutes, last_minutes) > 59 or opens > 1439 or closes > 1440 or opens == closes:
            raise UsageError(f"--office-hours {hours!r} are no hours of a day", "write them as 08:00-18:00, up to 24:00")
        return cls(opens, closes, _weekdays(weekdays))

    @property
    def hours_per_day(self) -> float:
        return ((self.closes - self.opens) % 1440 or 1440) / 60

    @property
    def share_of_week(self) -> float:
        """Of all hours, 0-1."""
        return self.hours_per_day * len(self.weekdays) / HOURS_PER_WEEK

    def spans(self, period: Period, tz: ZoneInfo) -> list[Span]:
        """The stretches of the period in which the office is open, in milliseconds, in order."""
        wider = Period(period.start - timedelta(days=1), period.end)
        spans = []
        for day in local_days(wider, tz):
            if day.weekday() not in self.weekdays:
                continue
            closing = day if self.closes > self.opens else day + timedelta(days=1)
            at = [to_ms(_local(on, minute, tz)) for on, minute in ((day, self.opens), (closing, self.closes))]
            span = (max(at[0], period.start_ms), min(at[1], period.end_ms))
            if span[0] < span[1]:
                spans.append(span)
        return spans


def _local(day: date, minute: int, tz: ZoneInfo) -> datetime:
    # 24:00 is the next day's midnight
    return datetime.combine(day + timedelta(days=minute // 1440), time(minute % 1440 // 60, minute % 60), tz).astimezone(UTC)


def _weekdays(text: str) -> frozenset[int]:
    chosen: set[int] = set()
    for part in text.lower().replace(" ", "").split(","):
        first, dash, last = part.partition("-")
        if first not in _DAYS or (dash and last not in _DAYS):
            raise UsageError(f"--weekdays {text!r} cannot be read", "write them as mon-fri or mon,wed,sat")
        begin = _DAYS.index(first)
        length = (_DAYS.index(last) - begin) % 7 + 1 if dash else 1
        chosen |= {(begin + step) % 7 for step in range(length)}
    return frozenset(chosen)


def intersect(spans: list[Span], others: list[Span]) -> list[Span]:
    """What lies in both; each list in order and without overlaps."""
    both, i, j = [], 0, 0
    while i < len(spans) and j < len(others):
        begin, end = max(spans[i][0], others[j][0]), min(spans[i][1], others[j][1])
        if begin < end:
            both.append((begin, end))
        if spans[i][1] < others[j][1]:
            i += 1
        else:
            j += 1
    return both


def subtract(spans: list[Span], others: list[Span]) -> list[Span]:
    """What of `spans` lies in none of `others`; each list in order and without overlaps."""
    left: list[Span] = []
    for begin, end in spans:
        at = begin
        for start, stop in others:
            if stop <= at or start >= end:
                continue
            if start > at:
                left.append((at, start))
            at = max(at, stop)
        if at < end:
            left.append((at, end))
    return left


def total_hours(spans: list[Span]) -> float:
    """Hours that the spans last together."""
    return sum(end - begin for begin, end in spans) / MS_PER_HOUR
