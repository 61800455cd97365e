"""Periods, spans of time and their names, shared by all stages."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate
from zoneinfo import ZoneInfo

from gpucost.errors import UsageError
from gpucost.records import frozen_dataclass

MS_PER_HOUR = 3_600_000
MS_PER_DAY = 24 * MS_PER_HOUR
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Span = tuple[int, int]  # [from, to) in milliseconds


@frozen_dataclass
class Period:
    """A half-open interval [start, end) of UTC instants."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("a period needs instants with a time zone")
        object.__setattr__(self, "start", self.start.astimezone(UTC))
        object.__setattr__(self, "end", self.end.astimezone(UTC))

    @property
    def start_ms(self) -> int:
        """Start in milliseconds since 1970-01-01T00:00Z."""
        return to_ms(self.start)

    @property
    def end_ms(self) -> int:
        """End (exclusive) in milliseconds since 1970-01-01T00:00Z."""
        return to_ms(self.end)

    @property
    def span(self) -> Span:
        """Start and end (exclusive) in milliseconds since 1970-01-01T00:00Z."""
        return self.start_ms, self.end_ms

    @property
    def bounds(self) -> dict[str, int]:
        """Start and end in milliseconds, as parameters of statements."""
        return {"from_ms": self.start_ms, "to_ms": self.end_ms}

    @property
    def is_empty(self) -> bool:
        return self.end <= self.start

    def __str__(self) -> str:
        return f"{iso(self.start)} .. {iso(self.end)}"


def to_ms(instant: datetime) -> int:
    """Milliseconds since 1970-01-01T00:00Z of an aware instant, rounded to the nearest."""
    return round(instant.timestamp() * 1000)


def from_ms(ms: int) -> datetime:
    """The UTC instant of milliseconds since 1970-01-01T00:00Z."""
    return datetime.fromtimestamp(ms / 1000, UTC)


def iso(instant: datetime) -> str:
    """ISO 8601 in UTC with a trailing Z; with milliseconds only if they are not zero."""
    text = instant.astimezone(UTC).isoformat(timespec="milliseconds" if instant.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def label_name(key: str) -> str:
    """A Kubernetes label as kube-state-metrics exports it: `nvidia.com/gpu` is `label_nvidia_com_gpu`."""
    return "label_" + re.sub(r"[^a-zA-Z0-9_]", "_", key)


_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip


def local_midnight(day: date, tz: ZoneInfo) -> datetime:
    """The UTC instant at which the local day begins.

    If clocks skip midnight, the first instant after the skip.
    """
    return datetime(day.year, day.month, day.day, tzinfo=tz).astimezone(UTC)


def local_days(period: Period, tz: ZoneInfo) -> Iterator[date]:
    """The local days that the period touches, in order, without days that the zone skipped."""
    day = period.start.astimezone(tz).date()
    previous = None
    while (begins := local_midnight(day, tz)) < period.end:
        if begins != previous:  # a day that the zone skipped begins with the next day
            yield day
        previous, day = begins, day + timedelta(days=1)


def month_period(day: date, tz: ZoneInfo) -> Period:
    """The local month that contains `day`."""
    first = day.replace(day=1)
    following = (first + timedelta(days=31)).replace(day=1)
    return Period(local_midnight(first, tz), local_midnight(following, tz))


def bill_month(month: str) -> Period:
    """The billing period `month` (`2026-10`, UTC)."""
    return month_period(date.fromisoformat(f"{month}-01"), ZoneInfo("UTC"))


def previous_month(moment: datetime, tz: ZoneInfo) -> Period:
    """The last local month that is over at the moment."""
    return month_period(moment.astimezone(tz).date().replace(day=1) - timedelta(days=1), tz)


def is_month(period: Period, tz: ZoneInfo) -> bool:
    """Whether the period is one whole local month."""
    return month_period(period.start.astimezone(tz).date(), tz) == period


def is_whole_days(period: Period, tz: ZoneInfo) -> bool:
    """Whether the period begins and ends at a midnight of `tz`."""
    return all(local_midnight(at.astimezone(tz).date(), tz) == at for at in (period.start, period.end))


def month_name(day: date) -> str:
    """`October 2026`, in English in every locale."""
    return f"{_MONTHS[day.month - 1]} {day.year}"


def name_of(period: Period, tz: ZoneInfo) -> str:
    """The period's name for people: a month, days (last day included), or two local instants."""
    start, end = period.start.astimezone(tz), period.end.astimezone(tz)
    first, last = start.date(), (period.end - timedelta(milliseconds=1)).astimezone(tz).date()
    if is_month(period, tz):
        return month_name(first)
    if is_whole_days(period, tz):
        return first.isoformat() if first == last else f"{first} to {last}"
    return f"{start:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"


def period_words(period: Period, tz: ZoneInfo) -> tuple[str, ...]:
    """The words of a command line that name the period."""
    if is_month(period, tz):
        return "--month", f"{period.start.astimezone(tz):%Y-%m}"
    return "--from", iso(period.start), "--to", iso(period.end)


def within(name: str) -> str:
    """The name of a period with its preposition.

    in October 2026, on 2026-10-14, from 2026-10-01 to 2026-10-07
    """
    if " to " in name or " .. " in name:
        return f"from {name.replace(' .. ', ' to ')}"
    return f"{'on' if name[:1].isdigit() else 'in'} {name}"


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same instants as sorted spans that neither overlap nor touch."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def most_at_once(spans: Iterable[Span]) -> int:
    """The most spans at one moment; a span that ends as another one begins does not count with it."""
    steps = []
    for start, end in spans:
        steps += [(start, 1), (end, -1)]
    return max(accumulate(step for _, step in sorted(steps)), default=0)


def subtract(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """The parts of `spans` that are not in `taken`, as `merge` returns them."""
    left = []
    holes = merge(taken)
    for start, end in merge(spans):
        for a, b in holes:
            if a >= end:
                break
            if a > start:
                left.append((start, a))
            start = max(start, b)
        if start < end:
            left.append((start, end))
    return left


def intersect(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """The parts of `spans` that are also in `others`."""
    spans = list(spans)
    return subtract(spans, subtract(spans, others))


@frozen_dataclass
class TimeBucket:
    """A part [from_ms, to_ms) of a period, named by its local month, day and hour.

    Names finer than requested are None.
    """

    from_ms: int
    to_ms: int
    month: str
    day: str | None
    hour: str | None


def time_buckets(
    period: Period, tz: ZoneInfo, by: tuple[str, ...], cuts: Iterable[int] = ()
) -> list[TimeBucket]:
    """The period, cut at `cuts` and as coarsely as the time dimensions in `by` allow, in order, without gaps.

    Hours are UTC hours, as everywhere in the store, cut at local midnight: in a zone with a half-hour offset
    they begin at :30.
    """
    days = list(local_days(period, tz))
    is_hourly, is_daily = "hour" in by, "hour" in by or "day" in by
    if not is_daily:
        days = [day.replace(day=1) for day in days] if "month" in by else days[:1]
    edges = sorted({to_ms(local_midnight(day, tz)) for day in days})
    if is_hourly:
        edges = sorted(
            {*edges, *range(period.start_ms - period.start_ms % MS_PER_HOUR, period.end_ms, MS_PER_HOUR)}
        )
        edges = edges[bisect_right(edges, period.start_ms) - 1 :]
    edges = sorted({*edges, *cuts})
    parts = []
    for edge, end in zip(edges, [*edges[1:], period.end_ms], strict=True):
        local = from_ms(edge).astimezone(tz)
        parts.append(
            TimeBucket(
                from_ms=max(edge, period.start_ms),
                to_ms=end,
                month=f"{local:%Y-%m}",
                day=f"{local:%Y-%m-%d}" if is_daily else None,
                hour=local.isoformat(timespec="seconds") if is_hourly else None,
            )
        )
    return parts


_HOUR = timedelta(hours=1)
_YEARS = range(1971, 9999)  # local times of all these years exist in UTC


def parse_period(
    tz: ZoneInfo,
    now: datetime,
    *,
    month: str | None = None,
    start: str | None = None,
    end: str | None = None,
    last: str | None = None,
) -> tuple[Period, str] | None:
    """The period given by the options and its name for people; None without options.

    `start` alone runs to the end of the current hour. Raises UsageError for options that cannot be read, that
    contradict each other, or that give an empty period.
    """
    explicit = [
        name
        for name, value in (("--month", month), ("--last", last), ("--from/--to", start or end))
        if value is not None
    ]
    if len(explicit) > 1:
        raise UsageError(f"{' and '.join(explicit)} exclude each other", "give one of them")
    if month is not None:
        if not re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", month) or int(month[:4]) not in _YEARS:
            raise UsageError(f"invalid month {month!r}", "for example --month 2026-10")
        period = month_period(date.fromisoformat(f"{month}-01"), tz)
        is_running = period.start <= now < period.end
        return period, name_of(period, tz) + (" so far" if is_running else "")
    if last is not None:
        period = _last(last, tz, now)
        return period, name_of(period, tz)
    if end is not None and start is None:
        raise UsageError("--to needs --from", "add --from, for example --from 2026-10-01")
    if start is None:
        return None
    hour = _hour(now)
    until = parse_instant("--to", end, tz) if end is not None else hour if hour == now else hour + _HOUR
    period = Period(parse_instant("--from", start, tz), until)
    if period.is_empty:
        raise UsageError(
            f"the period from {start} to {end or 'now'} is empty",
            "--to is exclusive and must be after --from",
        )
    return period, name_of(period, tz)


def parse_instant(option: str, text: str, tz: ZoneInfo) -> datetime:
    """The instant in `text`; a date is local midnight, a time without offset is local.

    Raises UsageError.
    """
    try:
        instant = datetime.fromisoformat(text)
        if instant.year not in _YEARS:
            raise ValueError
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return local_midnight(instant.date(), tz)
        return instant if instant.tzinfo else instant.replace(tzinfo=tz)
    except ValueError:
        raise UsageError(
            f"{option} {text!r} is not a date or time",
            f"for example {option} 2026-10-01, or {option} 2026-10-01T06:00Z",
        ) from None


def _last(text: str, tz: ZoneInfo, now: datetime) -> Period:
    match = re.fullmatch(r"(\d{1,4})([hdw])", text.strip())
    if match is None or not int(match[1]):
        raise UsageError(
            f"invalid span of time: --last {text!r}", "for example --last 7d, --last 24h or --last 2w"
        )
    count, unit = int(match[1]), match[2]
    if unit == "h":
        return Period(_hour(now) - count * _HOUR, _hour(now))
    today = now.astimezone(tz).date()
    first = today - timedelta(days=count * (7 if unit == "w" else 1))
    if first.year not in _YEARS:
        raise UsageError(
            f"--last {text} goes back to {first.year}", "give a shorter span, for example --last 30d"
        )
    return Period(local_midnight(first, tz), local_midnight(today, tz))


def _hour(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0)
