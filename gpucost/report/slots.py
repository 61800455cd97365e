"""A period cut into its local months, days or hours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from gpucost.model import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.timeline import local_days, local_midnight


@dataclass(frozen=True, slots=True)
class Slot:
    """A part [from_ms, to_ms) of a period, named by its local month, day and hour; names finer than asked for are None."""

    from_ms: int
    to_ms: int
    month: str
    day: str | None
    hour: str | None


def slots(period: Period, tz: ZoneInfo, by: tuple[str, ...]) -> list[Slot]:
    """The period cut as coarsely as the time dimensions in `by` allow, in order, without gaps.

    Hours are hours of UTC, as everywhere in the store, cut at local midnight: in a zone half an hour off they begin at :30.
    """
    if "hour" in by:
        edges, level = list(_hours(period, tz)), 2
    elif "day" in by:
        edges, level = [to_ms(local_midnight(day, tz)) for day in local_days(period, tz)], 1
    elif "month" in by:
        edges, level = sorted({to_ms(local_midnight(day.replace(day=1), tz)) for day in local_days(period, tz)}), 0
    else:
        edges, level = [period.start_ms], -1
    ends = [*edges[1:], period.end_ms]
    result: list[Slot] = []
    for edge, end in zip(edges, ends, strict=True):
        local = from_ms(edge).astimezone(tz)
        result.append(
            Slot(
                from_ms=max(edge, period.start_ms),
                to_ms=end,
                month=f"{local:%Y-%m}",
                day=f"{local:%Y-%m-%d}" if level >= 1 else None,
                hour=local.isoformat(timespec="seconds") if level >= 2 else None,
            )
        )
    return result


def _hours(period: Period, tz: ZoneInfo) -> Iterator[int]:
    midnights = {to_ms(local_midnight(day, tz)) for day in local_days(period, tz)}
    first = period.start_ms - period.start_ms % MS_PER_HOUR
    edges = sorted(set(range(first, period.end_ms, MS_PER_HOUR)) | midnights)
    begins = max(edge for edge in edges if edge <= period.start_ms)
    yield from (edge for edge in edges if edge >= begins)
