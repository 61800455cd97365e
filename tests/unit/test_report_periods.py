"""Periods: options, and the division into local months, days and hours."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from gpucost.errors import UsageError
from gpucost.periods import (
    Period,
    is_month,
    iso,
    local_midnight,
    month_period,
    name_of,
    parse_instant,
    parse_period,
    time_buckets,
)

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")
SAO_PAULO = ZoneInfo("America/Sao_Paulo")
UTC_ZONE = ZoneInfo("UTC")
NOW = datetime(2026, 11, 3, 12, 20, tzinfo=UTC)


def parsed(options: str) -> tuple[Period, str] | None:
    """The period of options such as `month=2026-10`."""
    return parse_period(BERLIN, NOW, **dict(re.findall(r"(\w+)=(\S+)", options)))


PERIODS = """
month=2026-10                                 2026-09-30T22:00:00Z 2026-10-31T23:00:00Z October 2026
month=2026-11                                 2026-10-31T23:00:00Z 2026-11-30T23:00:00Z November 2026 so far
start=2026-10-01 end=2026-11-01               2026-09-30T22:00:00Z 2026-10-31T23:00:00Z October 2026
start=2026-10-24 end=2026-10-26               2026-10-23T22:00:00Z 2026-10-25T23:00:00Z 2026-10-24 to 2026-10-25
start=2026-10-25 end=2026-10-26               2026-10-24T22:00:00Z 2026-10-25T23:00:00Z 2026-10-25
start=2026-10-01T06:30 end=2026-10-01T06:00Z  2026-10-01T04:30:00Z 2026-10-01T06:00:00Z 2026-10-01 06:30 to 2026-10-01 08:00
start=2026-11-03                              2026-11-02T23:00:00Z 2026-11-03T13:00:00Z 2026-11-03 00:00 to 2026-11-03 14:00
last=7d                                       2026-10-26T23:00:00Z 2026-11-02T23:00:00Z 2026-10-27 to 2026-11-02
last=2w                                       2026-10-19T22:00:00Z 2026-11-02T23:00:00Z 2026-10-20 to 2026-11-02
last=24h                                      2026-11-02T12:00:00Z 2026-11-03T12:00:00Z 2026-11-02 13:00 to 2026-11-03 13:00"""


@pytest.mark.parametrize("line", PERIODS.strip().splitlines())
def test_periods_follow_local_time(line: str) -> None:
    options, expected = re.split("  +", line)
    period, name = parsed(options) or pytest.fail("no period")
    assert f"{iso(period.start)} {iso(period.end)} {name}" == expected


WRONG = """
month=2026-13
month=October
month=0001-01
month=9999-12
start=0001-01-01
month=2026-10 last=7d
month=2026-10 start=2026-10-01
last=7
last=0d
last=99999w
start=yesterday
start=2026-02-30
end=2026-10-01
start=2026-10-02 end=2026-10-01
start=2026-10-02 end=2026-10-02
start=2026-12-01"""


@pytest.mark.parametrize("options", WRONG.strip().splitlines())
def test_invalid_period_is_a_usage_error(options: str) -> None:
    assert parsed("") is None
    with pytest.raises(UsageError) as error:
        parsed(options)
    assert error.value.fix


def test_skipped_midnight_is_the_start_of_its_day() -> None:
    day = date(2018, 11, 4)  # clocks went from 00:00 to 01:00 in São Paulo
    assert iso(local_midnight(day, SAO_PAULO)) == "2018-11-04T03:00:00Z"
    assert parse_instant("--from", "2018-11-04", SAO_PAULO) == local_midnight(day, SAO_PAULO)


@pytest.mark.parametrize(
    "tz", [UTC_ZONE, BERLIN, KOLKATA, SAO_PAULO, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("Pacific/Apia")]
)
@pytest.mark.parametrize("by", [(), ("month",), ("day",), ("hour", "team"), ("day", "month")])
def test_time_buckets_cover_the_period_without_gaps(tz: ZoneInfo, by: tuple[str, ...]) -> None:
    start = datetime(2011, 12, 28, 5, 20, tzinfo=UTC)  # Apia skipped the 30th
    period = Period(start, start + timedelta(days=120, hours=3))
    parts = time_buckets(period, tz, by)
    edges = [part.from_ms for part in parts] + [period.end_ms]
    assert edges[0] == period.start_ms and edges[1:] == [part.to_ms for part in parts]
    assert edges == sorted(set(edges))
    names = [part.hour if "hour" in by else part.day if "day" in by else part.month for part in parts]
    assert len(set(names)) == len(names)


def test_days_of_a_clock_change_have_23_and_25_hours() -> None:
    march = time_buckets(month_period(date(2026, 3, 1), BERLIN), BERLIN, ("day",))
    october = time_buckets(month_period(date(2026, 10, 1), BERLIN), BERLIN, ("day",))
    hours = {part.day: (part.to_ms - part.from_ms) // 3_600_000 for part in march + october}
    assert [hours.get(day) for day in ("2026-03-28", "2026-03-29", "2026-10-25")] == [24, 23, 25]


@pytest.mark.parametrize(
    ("tz", "day", "at", "hours"),
    [
        (BERLIN, 25, 2, ["2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+01:00"]),  # this hour occurs twice
        (
            KOLKATA,
            2,
            0,
            ["2026-10-02T00:00:00+05:30", "2026-10-02T00:30:00+05:30"],
        ),  # split at local midnight
    ],
)
def test_repeated_and_split_hours_have_unique_names(
    tz: ZoneInfo, day: int, at: int, hours: list[str]
) -> None:
    start, end = (local_midnight(date(2026, 10, number), tz) for number in (day, day + 1))
    names = [part.hour for part in time_buckets(Period(start, end), tz, ("hour",))]
    assert len(names) == 25 and names[at : at + 2] == hours


def test_full_local_month_is_named() -> None:
    period = month_period(date(2026, 12, 9), BERLIN)
    assert is_month(period, BERLIN) and not is_month(period, UTC_ZONE)
    assert name_of(period, BERLIN) == "December 2026"
