"""When a serving workload is idle: the hours that it could be off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from gpucost.model import MS_PER_HOUR, from_ms

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

# An hour of the day counts as idle where GPUs were idle for so much of it, and is worth turning off in runs of so many.
_IDLE = 0.8
_SHORTEST = 3
_HOURS = 24


def open_hours(rows: Iterable[Mapping[str, Any]], tz: ZoneInfo) -> tuple[str, str] | None:
    """(hours, weekdays) that it is needed, as `whatif schedule` takes them; None where it is never idle for long, or always.

    `rows` tell active_gpu_ms and idle_gpu_ms of epoch hours.
    """
    idle: dict[tuple[bool, int], float] = defaultdict(float)
    measured: dict[tuple[bool, int], float] = defaultdict(float)
    for row in rows:
        local = from_ms(row["hour"] * MS_PER_HOUR).astimezone(tz)
        key = local.weekday() > 4, local.hour
        idle[key] += row["idle_gpu_ms"]
        measured[key] += row["idle_gpu_ms"] + row["active_gpu_ms"]
    needed = [not _is_idle(hour, (False, True), idle, measured) for hour in range(_HOURS)]
    if not any(needed):
        return None
    begin, length = _longest_pause(needed)
    opens, closes = (begin + length, begin) if length >= _SHORTEST else (0, 0)
    on = [hour for hour in range(_HOURS) if length < _SHORTEST or (hour - opens) % _HOURS < _HOURS - length]
    weekends_off = all(_is_idle(hour, (True,), idle, measured) for hour in on)
    if length < _SHORTEST and not weekends_off:
        return None
    return f"{opens % _HOURS:02}:00-{closes or _HOURS:02}:00", "mon-fri" if weekends_off else "mon-sun"


def _is_idle(
    hour: int, weekends: Iterable[bool], idle: Mapping[tuple[bool, int], float], measured: Mapping[tuple[bool, int], float]
) -> bool:
    heard = sum(measured.get((weekend, hour), 0.0) for weekend in weekends)
    return heard > 0 and sum(idle.get((weekend, hour), 0.0) for weekend in weekends) >= _IDLE * heard


def _longest_pause(needed: list[bool]) -> tuple[int, int]:
    """(first hour, length) of the longest run of hours that are not needed, midnight no border."""
    best = (0, 0)
    for begin in range(_HOURS):
        length = 0
        while length < _HOURS and not needed[(begin + length) % _HOURS]:
            length += 1
        if length > best[1]:
            best = (begin, length)
    return best


def told(at: datetime, tz: ZoneInfo) -> str:
    """A moment as evidence names it."""
    return f"{at.astimezone(tz):%Y-%m-%d %H:%M}"
