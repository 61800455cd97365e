"""Periods as arguments: a month, a day, or FROM..TO."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

from gpucost.cli._periods import parse_period
from gpucost.errors import UsageError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from gpucost.model import Period


def parse_span(text: str, tz: ZoneInfo, now: datetime) -> tuple[Period, str]:
    """The period that `text` means, and its name for people. Raises UsageError for what is none."""
    start, dots, end = text.partition("..")
    if dots:
        found = parse_period(tz, now, start=start, end=end or None)
    elif re.fullmatch(r"\d{4}-\d{2}", text):
        found = parse_period(tz, now, month=text)
    else:
        found = parse_period(tz, now, start=f"{(day := _day(text))}", end=f"{day + timedelta(days=1)}")
    if found is None:
        raise UsageError(f"{text!r} is no period", "a month (2026-10), a day (2026-10-05), or FROM..TO (2026-10-01..2026-10-08)")
    return found


def _day(text: str) -> date:
    try:
        if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            raise ValueError
        day = date.fromisoformat(text)
        if not 1971 <= day.year < 9999:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"{text!r} is no period", "a month (2026-10), a day (2026-10-05), or FROM..TO (2026-10-01..2026-10-08)"
        ) from None
    return day
