"""Which hours are to be collected: arithmetic on half-open spans of milliseconds, and what of a period is still missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.model import MS_PER_HOUR, Period, from_ms
from gpucost.store import runs

if TYPE_CHECKING:
    from collections.abc import Iterable

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


def whole_hours(spans: Iterable[Span], now_ms: int) -> list[Span]:
    """Spans widened to full hours, but never past now: the running hour is collected as far as it goes."""
    widened = [(a // MS_PER_HOUR * MS_PER_HOUR, min(-(-b // MS_PER_HOUR) * MS_PER_HOUR, now_ms)) for a, b in spans]
    return merge(widened)


def default_spans(month_start_ms: int, now_ms: int, asked: Iterable[Span], loaded: Iterable[Span]) -> list[Span]:
    """What a run without a period collects.

    The first one takes the current month so far. Later ones take whatever was asked for and never loaded (windows that
    failed, runs that were killed), and go on from the last collected moment less an overlap, for data that came late.
    """
    had = merge(loaded)
    if not had:
        return whole_hours([*asked, (min(month_start_ms, now_ms - 1), now_ms)], now_ms)
    last = had[-1][1]
    wanted = [*asked, (min(month_start_ms, last), now_ms)]
    return whole_hours([*subtract(wanted, had), (last - OVERLAP_MS, now_ms)], now_ms)


def halves(span: Span) -> list[Span]:
    """A span cut at the full hour next to its middle; itself where it is an hour or less."""
    start, end = span
    if end - start <= MS_PER_HOUR:
        return [span]
    middle = start + max(1, round((end - start) / 2 / MS_PER_HOUR)) * MS_PER_HOUR
    return [(start, middle), (middle, end)] if middle < end else [span]


def uncollected(config: Config, store: Store, period: Period) -> dict[str, list[Period]]:
    """By the name of each configured Prometheus, what of `period` was never collected from it, with an overlap for late data."""
    wanted = [(period.start_ms, period.end_ms)]
    found: dict[str, list[Period]] = {}
    for source in config.prometheus:
        had: list[runs.Span] = []
        if store.exists:
            with store.read() as con:
                had = runs.loaded(con, "prometheus", source.source)
        found[source.source] = [
            Period(from_ms(max(period.start_ms, start - OVERLAP_MS)), from_ms(end)) for start, end in subtract(wanted, had)
        ]
    return found
