"""Which hours are to be collected: arithmetic on half-open spans of milliseconds, and what of a period is still missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import SourceError
from gpucost.model import MS_PER_HOUR, Period, from_ms, iso, to_ms
from gpucost.store import runs

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    import duckdb

    from gpucost.config import Config
    from gpucost.store import Store
    from gpucost.store.runs import Span

OVERLAP_MS = 2 * MS_PER_HOUR


def merge(spans: Iterable[Span]) -> list[Span]:
    """The same instants as sorted spans that neither overlap nor touch."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def subtract(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """What of `spans` is not in `taken`."""
    left: list[Span] = []
    holes = merge(taken)
    for start, end in merge(spans):
        for a, b in holes:
            if b <= start or a >= end:
                continue
            if a > start:
                left.append((start, a))
            start = max(start, b)
        if start < end:
            left.append((start, end))
    return left


def intersect(spans: Iterable[Span], others: Iterable[Span]) -> list[Span]:
    """What of `spans` is in `others`, too."""
    merged, rest = merge(spans), subtract(spans, others)
    return subtract(merged, rest)


def whole_hours(spans: Iterable[Span], now_ms: int) -> list[Span]:
    """Spans widened to full hours, but never past now: the running hour is collected as far as it goes."""
    widened = [(a // MS_PER_HOUR * MS_PER_HOUR, min(-(-b // MS_PER_HOUR) * MS_PER_HOUR, now_ms)) for a, b in spans]
    return merge(widened)


def until(spans: Iterable[Span], newest_ms: int | None) -> list[Span]:
    """What of `spans` is not past the newest sample; all where there is none."""
    return [(a, b if newest_ms is None else min(b, newest_ms + 1)) for a, b in spans]


def default_spans(month_start_ms: int, now_ms: int, asked: Iterable[Span], loaded: Iterable[Span]) -> list[Span]:
    """What a run without a period collects.

    The first one takes the current month so far. Later ones take whatever was asked for and never loaded (windows that
    failed, runs that were killed), and go on from the last collected moment less an overlap, for data that came late.
    Raises SourceError where the last collected hour is still to come.
    """
    known = merge(loaded)
    if not known:
        return whole_hours([*asked, (min(month_start_ms, now_ms - 1), now_ms)], now_ms)
    last = known[-1][1]
    if last // MS_PER_HOUR * MS_PER_HOUR > now_ms:
        raise SourceError(
            f"the clock says {iso(from_ms(now_ms))}, but the store holds data up to {iso(from_ms(last - 1))} already",
            "set the clock of this machine, or name a period with --from and --to",
        )
    wanted = [*asked, (min(month_start_ms, last), now_ms)]
    # the last sample is a scrape older than what was there to be had
    again = last + runs.SHORT_SILENCE_MS - OVERLAP_MS
    return whole_hours([*subtract(wanted, known), (min(again, last), now_ms)], now_ms)


def late_spans(con: duckdb.DuckDBPyConnection, source: str, now_ms: int, late_hours: int, newest_ms: int | None) -> list[Span]:
    """Hours of the last `late_hours` that are incomplete, and may no longer be when they are asked for again.

    `newest_ms` is the source's newest sample, None where it has none: what lies past it was never loaded.
    """
    if newest_ms is None or not late_hours:
        return []
    end = min(now_ms, newest_ms + 1)
    found = runs.incomplete_hours(con, source, now_ms - late_hours * MS_PER_HOUR, end)
    return merge((one.hour * MS_PER_HOUR, (one.hour + 1) * MS_PER_HOUR) for one in found if not one.is_settled)


def halves(span: Span) -> list[Span]:
    """A span cut at the full hour next to its middle; itself where it is an hour or less."""
    start, end = span
    if end - start <= MS_PER_HOUR:
        return [span]
    middle = start + max(1, round((end - start) / 2 / MS_PER_HOUR)) * MS_PER_HOUR
    return [(start, middle), (middle, end)] if middle < end else [span]


def uncollected(config: Config, store: Store, period: Period, now: datetime) -> dict[str, list[Period]]:
    """By the name of each configured Prometheus, what of `period` is to be collected from it.

    What was never collected, with an overlap for late data, and incomplete hours that are to be asked for again.
    """
    now_ms = to_ms(now)
    wanted = [(period.start_ms, min(period.end_ms, now_ms))]
    found: dict[str, list[Period]] = {}
    for source in config.prometheus:
        missing = wanted
        if store.exists:
            with store.read() as con:
                newest_ms = runs.newest_sample(con, source.source)
                missing = subtract(wanted, until(runs.loaded(con, "prometheus", source.source), newest_ms))
                late = late_spans(con, source.source, now_ms, source.late_hours, newest_ms)
            missing = [(max(period.start_ms, start - OVERLAP_MS), end) for start, end in missing]
            missing += intersect(wanted, late)
        found[source.source] = [Period(from_ms(start), from_ms(end)) for start, end in merge(missing)]
    return found
