"""--month, --from, --to and --last: how every command reads a period of time."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from gpucost.errors import UsageError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gpucost.model import Period
    from gpucost.store import Store

MonthOption = Annotated[
    str | None,
    typer.Option("--month", metavar="YYYY-MM", help="A whole month of the configured time zone.", show_default=False),
]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Begin here: 2026-10-01 (local midnight), 2026-10-01T06:00 (local), 2026-10-01T06:00Z.",
        show_default=False,
    ),
]
ToOption = Annotated[
    str | None,
    typer.Option("--to", metavar="TIME", help="End before this instant; without it, now.", show_default=False),
]
LastOption = Annotated[
    str | None,
    typer.Option(
        "--last",
        metavar="SPAN",
        help="The last complete days or weeks (7d, 2w), up to last midnight; hours (24h), up to the last full hour.",
        show_default=False,
    ),
]

_HOUR = timedelta(hours=1)
_YEARS = range(1971, 9999)  # local time of all of them can be told in UTC


def parse_period(
    tz: ZoneInfo,
    now: datetime,
    *,
    month: str | None = None,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
) -> tuple[Period, str] | None:
    """The period that the options mean, and its name for people; None where no option is given.

    `start` alone runs to the end of the hour that `now` lies in. Raises UsageError for options that cannot be read, that
    contradict each other, or that mean an empty period.
    """
    from gpucost.model import Period
    from gpucost.timeline import month_period, name_of

    given = [name for name, value in (("--month", month), ("--last", last), ("--from/--to", start or end)) if value is not None]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} exclude each other", "give one of them")
    if month is not None:
        period = month_period(_month(month), tz)
        is_running = period.start <= now < period.end
        return period, name_of(period, tz) + (" so far" if is_running else "")
    if last is not None:
        period = _last(last, tz, now)
        return period, name_of(period, tz)
    if end is not None and start is None:
        raise UsageError("--to needs --from", "add --from, for example --from 2026-10-01")
    if start is None:
        return None
    until = parse_instant("--to", end, tz) if end is not None else _end_of_hour(now)
    period = Period(parse_instant("--from", start, tz), until)
    if period.is_empty:
        raise UsageError(f"the period from {start} to {end or 'now'} is empty", "--to is exclusive and must lie after --from")
    return period, name_of(period, tz)


def chosen_period(
    store: Store,
    tz: ZoneInfo,
    now: datetime,
    *,
    month: str | None = None,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
) -> tuple[Period, str, str | None]:
    """The period that the options mean, and its name; where none is given the current month so far, or the newest with data.

    And why that one, where none is given. Raises UsageError as parse_period, GpucostError where the store holds nothing.
    """
    from gpucost.report import default_period

    if named := parse_period(tz, now, month=month, start=start, end=end, last=last):
        return *named, None
    with store.read() as con:
        return default_period(con, tz, now)


def parse_instant(option: str, text: str, tz: ZoneInfo) -> datetime:
    """The instant that `text` means: a date is local midnight, a time without offset is local. Raises UsageError."""
    from gpucost.timeline import local_midnight

    try:
        instant = datetime.fromisoformat(text)
        if instant.year not in _YEARS:
            raise ValueError
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return local_midnight(instant.date(), tz)
        return instant if instant.tzinfo else instant.replace(tzinfo=tz)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is no date or time", f"for example {option} 2026-10-01, or {option} 2026-10-01T06:00Z"
        ) from None


def _month(text: str) -> date:
    try:
        if not re.fullmatch(r"\d{4}-\d{2}", text):
            raise ValueError
        first = date.fromisoformat(f"{text}-01")
        if first.year not in _YEARS:
            raise ValueError
        return first
    except ValueError:
        raise UsageError(f"--month {text!r} is no month", "for example --month 2026-10") from None


def _last(text: str, tz: ZoneInfo, now: datetime) -> Period:
    from gpucost.model import Period
    from gpucost.timeline import local_midnight

    match = re.fullmatch(r"(\d{1,4})([hdw])", text.strip())
    if match is None or not int(match[1]):
        raise UsageError(f"--last {text!r} is no span of time", "for example --last 7d, --last 24h or --last 2w")
    count, unit = int(match[1]), match[2]
    if unit == "h":
        end = _end_of_hour(now) - _HOUR if now != _end_of_hour(now) else now
        return Period(end - count * _HOUR, end)
    today = now.astimezone(tz).date()
    first = today - timedelta(days=count * (7 if unit == "w" else 1))
    if first.year not in _YEARS:
        raise UsageError(f"--last {text} goes back to {first.year}", "give a shorter span, for example --last 30d")
    return Period(local_midnight(first, tz), local_midnight(today, tz))


def _end_of_hour(now: datetime) -> datetime:
    past = timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
    return now - past + (_HOUR if past else timedelta())
