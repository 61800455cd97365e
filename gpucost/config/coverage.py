"""What may be missing: gaps that are bridged or signed, and clusters that are not always on."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationInfo, field_validator, model_validator

from gpucost.config.section import Section
from gpucost.model import MS_PER_HOUR, from_ms, to_ms
from gpucost.timeline import local_midnight

_HOURS = re.compile(
    r"^(?:(mon|tue|wed|thu|fri|sat|sun)(?:-(mon|tue|wed|thu|fri|sat|sun))? )?(\d\d:\d\d)-(\d\d:\d\d)$", re.IGNORECASE
)
_SPAN = re.compile(r"[0-9]{1,4}[mh]")
# Silences of up to ten minutes are none; who stands at both ends of a whole day may well have been gone between them.
_BRIDGES_MS = (600_000, 24 * MS_PER_HOUR)
_EVER = (0, 9_223_372_036_854_775_807)
# How far before and after what was collected hours are told.
_BEFORE, _AFTER = timedelta(days=40), timedelta(days=400)
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

Moment = datetime | date


def _read_moment(value: object) -> object:
    try:
        if isinstance(value, str):
            return date.fromisoformat(value) if len(value) == len("2026-10-03") else datetime.fromisoformat(value)
    except ValueError:
        pass
    if not isinstance(value, date):
        raise ValueError("should look like 2026-10-03 or 2026-10-03T06:00")
    return value


def _after_start(value: Moment | None, info: ValidationInfo) -> Moment | None:
    start = info.data.get("start")
    # the time zone of the settings is not known here
    if start and value and instant_ms(value, ZoneInfo("UTC")) <= instant_ms(start, ZoneInfo("UTC")):
        raise ValueError("should lie after from")
    return value


class AcceptedGap(Section):
    """Time of which somebody says that its figures may stand as they are."""

    start: Moment = Field(alias="from", description="From when, a date (local midnight) or a time.")
    end: Moment = Field(alias="to", description="To when, exclusive.")
    cluster: str | None = Field(default=None, description="Cluster; else all.")
    who: str = Field(min_length=1, description="Who accepts it: stands on every report.")
    why: str = Field(min_length=1, description="Why: stands on every report.")

    _moments = field_validator("start", "end", mode="before")(_read_moment)
    _order = field_validator("end")(_after_start)


class CoverageSettings(Section):
    """What of the time that was not seen counts, and what is accepted (docs/coverage.md)."""

    max_bridge: str = Field(
        default="2h", description="Longest silence across which who stands at both ends held on: `10m` to `24h`."
    )
    accept: list[AcceptedGap] = Field(default_factory=list, description="Gaps that are signed: they end no command with 4.")

    @field_validator("max_bridge", mode="before")
    @classmethod
    def _readable(cls, value: object) -> object:
        if not isinstance(value, str) or not _SPAN.fullmatch(value):
            raise ValueError("should look like 90m or 2h")
        if not _BRIDGES_MS[0] <= _span_ms(value) <= _BRIDGES_MS[1]:
            raise ValueError("should lie between 10m and 24h")
        return value

    @property
    def max_bridge_ms(self) -> int:
        """`max_bridge` in milliseconds."""
        return _span_ms(self.max_bridge)


def _span_ms(text: str) -> int:
    return int(text[:-1]) * (MS_PER_HOUR if text.endswith("h") else 60_000)


class ClusterHours(Section):
    """When a cluster runs that is not always on: outside of that nothing is missing."""

    name: str = Field(min_length=1, description="Cluster.")
    start: Moment | None = Field(default=None, alias="from", description="When it was set up; else since ever.")
    until: Moment | None = Field(default=None, description="When it was taken down, exclusive; else it goes on.")
    hours: list[str] = Field(
        default_factory=list,
        description='Local hours in which it runs, such as `["Mon-Fri 07:00-21:00", "Sat 10:00-16:00"]`; else always.',
    )

    _moments = field_validator("start", "until", mode="before")(_read_moment)
    _order = field_validator("until")(_after_start)

    @field_validator("hours", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        return [value] if isinstance(value, str) else value

    @field_validator("hours")
    @classmethod
    def _readable(cls, value: list[str]) -> list[str]:
        for text in value:
            found = _HOURS.match(text)
            if found is None or not all(_is_clock(part) for part in found.groups()[2:]):
                raise ValueError(f"{text!r} should look like 07:00-21:00 or Mon-Fri 07:00-21:00")
            if found[3] == "24:00":
                raise ValueError(f"{text!r} begins at 24:00: that is 00:00 of the next day")
            if found[3] == found[4]:
                raise ValueError(f"{text!r} ends when it begins: a whole day is 00:00-24:00")
        return value

    @model_validator(mode="after")
    def _is_more_than_a_name(self) -> ClusterHours:
        if self.start is None and self.until is None and not self.hours:
            raise ValueError("needs one of from, until and hours")
        return self

    def weekly(self) -> list[tuple[frozenset[int], time, time]]:
        """The weekdays (0 is Monday) on which it starts, and from when to when; past midnight where the end is not later."""
        found: list[tuple[frozenset[int], time, time]] = []
        for text in self.hours:
            first, last, start, end = _HOURS.findall(text)[0]
            days = range(7)
            if first:
                begin = _DAYS.index(first.lower())
                count = (_DAYS.index((last or first).lower()) - begin) % 7 + 1
                days = range(begin, begin + count)
            found.append((frozenset(day % 7 for day in days), time.fromisoformat(start), _end(end)))
        return found


def _is_clock(text: str) -> bool:
    try:
        _end(text)
    except ValueError:
        return False
    return True


def _end(text: str) -> time:
    return time(0) if text == "24:00" else time.fromisoformat(text)


def instant_ms(moment: Moment, tz: ZoneInfo) -> int:
    """Milliseconds since 1970 of a date (local midnight) or a time (local, where it names no zone)."""
    if not isinstance(moment, datetime):
        return to_ms(local_midnight(moment, tz))
    return to_ms(moment if moment.tzinfo else moment.replace(tzinfo=tz))


def hours_off(cluster: ClusterHours, tz: ZoneInfo, seen: tuple[int, int]) -> list[tuple[int, int]]:
    """When the cluster is declared off, [from, to) in milliseconds; hours of the week from 40 days before `seen` to 400 after."""
    off = []
    if cluster.start is not None:
        off.append((_EVER[0], instant_ms(cluster.start, tz)))
    if cluster.until is not None:
        off.append((instant_ms(cluster.until, tz), _EVER[1]))
    weekly = cluster.weekly()
    if not weekly:
        return off
    day = (from_ms(seen[0]) - _BEFORE).astimezone(tz).date()
    last = (from_ms(seen[1]) + _AFTER).astimezone(tz).date()
    at = instant_ms(day, tz)
    while day <= last:
        for days, start, end in sorted(weekly, key=lambda one: one[1]):
            if day.weekday() in days:
                ends = day if end > start else day + timedelta(days=1)
                opens, closes = (instant_ms(datetime.combine(*one), tz) for one in ((day, start), (ends, end)))
                if opens > at:
                    off.append((at, opens))
                at = max(at, closes)
        day += timedelta(days=1)
    return off
