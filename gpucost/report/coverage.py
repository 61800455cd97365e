"""How far a report's figures can be trusted: what was measured, priced from where, and what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpucost.periods import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.render.formatting import alike_gaps, clusters_text, gap_text, local_text
from gpucost.render.view import Coverage, Gap, MissingTime, Notice, PriceSource, hours, ratio
from gpucost.report.query import Query
from gpucost.report.rows import BILL, NO_PRICE, ZERO, PricedNodes, ask, unpriced_ms

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A running period always lacks its last hours; that is worth a warning only after a missed daily collect.
_LATE_AFTER = timedelta(hours=25)
# What is collected begins and ends with a sample: up to here the one before, and the next one, may have been so.
_EDGE_MS = 10 * 60_000

_SPANS = """
FROM coverage_gaps
UNION ALL BY NAME SELECT cluster, from_ms, to_ms, 'collected' AS kind FROM collected
ORDER BY cluster, from_ms, to_ms, kind
"""


def coverage(
    con: DuckDBPyConnection,
    query: Query,
    *,
    tz: ZoneInfo,
    now: datetime,
    measured_ratio: float | None,
    unknown_capacity_gpu_hours: float,
    nodes: list[PricedNodes],
    estimated_cost: Decimal,
    cost_basis: str,
) -> Coverage:
    """Coverage of the query's period. What lies after `now` and after the newest collected moment is not missing yet."""
    spans = _spans(con, query.clusters)
    due = _due(spans, query.period, now)
    gaps = _gaps(spans, query.period, due, tz)
    missing = [gap for gap in gaps if gap.kind == "not_collected"]
    is_running = due < query.period.end_ms
    sources = _price_sources(nodes, now)
    unpriced, time = unpriced_ms(nodes), sum(node.capacity_gpu_ms for node in nodes)
    reached = _reached(spans, query.period, due)
    return Coverage(
        measured_ratio=measured_ratio,
        price_sources=sources,
        # what a bill says of its hours does not grow old
        price_as_of=min((source.as_of for source in sources if source.as_of and source.name != BILL), default=None),
        not_collected_hours=_most_hours(missing),
        bridged_hours=_most_hours(gap for gap in gaps if gap.kind == "bridged"),
        gaps=tuple(gaps),
        collected_to=from_ms(reached).astimezone(tz) if reached is not None else None,
        unknown_capacity_gpu_hours=unknown_capacity_gpu_hours,
        unpriced_gpu_hours=hours(unpriced),
        unpriced_ratio=ratio(unpriced, time),
        warnings=(
            *_gap_notices(missing, from_ms(due) if is_running else None, _asked_from(con)),
            *_partial_notices(gap for gap in gaps if gap.kind == "partial"),
            *_stored_notices(con, query),
        ),
        is_complete=not is_running and all(gap.accepted_by for gap in missing),
        cost_basis=cost_basis,
        billed_cost=sum((node.node_cost for node in nodes), ZERO) - estimated_cost,
        estimated_cost=estimated_cost,
    )


def is_collected(con: DuckDBPyConnection, query: Query) -> bool:
    """Whether any of the query's period was collected."""
    return any(
        span["kind"] == "collected" and _clipped(span, query.period.start_ms, query.period.end_ms)
        for span in _spans(con, query.clusters)
    )


def gaps_of(con: DuckDBPyConnection, period: Period, now: datetime, tz: ZoneInfo) -> list[Gap]:
    """What of `period` was not seen, or seen in part, of any cluster, as far as it is due by `now`."""
    spans = _spans(con, ())
    return _gaps(spans, period, _due(spans, period, now), tz)


def missed(
    con: DuckDBPyConnection, period: Period, now: datetime, tz: ZoneInfo, clusters: Sequence[str] = ()
) -> tuple[list[Gap], list[Notice], bool]:
    """What was not collected of `period`, what a report warns of it, and whether the period is still running."""
    spans = _spans(con, clusters)
    due = _due(spans, period, now)
    missing = [gap for gap in _gaps(spans, period, due, tz) if gap.kind == "not_collected"]
    is_running = due < period.end_ms
    return missing, _gap_notices(missing, from_ms(due) if is_running else None, _asked_from(con)), is_running


def _spans(con: DuckDBPyConnection, clusters: Sequence[str]) -> list[dict[str, Any]]:
    """Collected and other time of the clusters asked for (none: all), in order of cluster and time."""
    answer = con.execute(_SPANS)
    names = [column[0] for column in answer.description]
    spans = (dict(zip(names, row, strict=True)) for row in answer.fetchall())
    return [span for span in spans if not clusters or span["cluster"] in clusters]


def _due(spans: list[dict[str, Any]], period: Period, now: datetime) -> int:
    newest = max((span["to_ms"] for span in spans if span["kind"] == "collected"), default=0)
    return max(period.start_ms, min(period.end_ms, max(to_ms(now), newest)))


def _clipped(span: dict[str, Any], start: int, end: int) -> tuple[int, int] | None:
    begin, until = max(span["from_ms"], start), min(span["to_ms"], end)
    return (begin, until) if begin < until else None


def _gaps(spans: list[dict[str, Any]], period: Period, due: int, tz: ZoneInfo) -> list[Gap]:
    """The parts of the period up to `due` that are not simply collected, by time and cluster."""
    newest = {span["cluster"]: span["to_ms"] for span in spans if span["kind"] == "collected"}
    found = []
    for span in spans:
        part = _clipped(span, period.start_ms, due)
        is_edge = span["kind"] == "not_collected" and (span["from_ms"] == 0 or span["from_ms"] == newest.get(span["cluster"]))
        # a cluster that is off all the time, because it was taken down long ago, is no matter of the period
        is_all_off = span["kind"] == "off" and part == (period.start_ms, due)
        if span["kind"] == "collected" or part is None or is_all_off or (is_edge and part[1] - part[0] <= _EDGE_MS):
            continue
        found.append(
            (MissingTime if span["kind"] == "not_collected" else Gap)(
                cluster=span["cluster"],
                kind=span["kind"],
                start=from_ms(part[0]).astimezone(tz),
                end=from_ms(part[1]).astimezone(tz),
                hours=round((part[1] - part[0]) / MS_PER_HOUR, 9),
                families=tuple(span["families"]),
                reason=span["reason"],
                accepted_by=span["accepted_by"],
                accepted_why=span["accepted_why"],
            )
        )
    return sorted(found, key=lambda gap: (gap.start, gap.cluster, gap.end))


def _reached(spans: list[dict[str, Any]], period: Period, due: int) -> int | None:
    """Where the known time of the cluster that lags most ends, of those of which any of the period was collected."""
    ends = []
    for _, parts in groupby(spans, key=lambda span: span["cluster"]):
        known = [(span["kind"], part[1]) for span in parts if (part := _clipped(span, period.start_ms, due))]
        if any(kind == "collected" for kind, _ in known):
            ends.append(max(end for kind, end in known if kind in ("collected", "off")))
    return min(ends, default=None)


def _most_hours(gaps: Iterable[Gap]) -> float:
    """Hours of the cluster that has most of them."""
    sums: dict[str, float] = {}
    for gap in gaps:
        sums[gap.cluster] = sums.get(gap.cluster, 0.0) + gap.hours
    return round(max(sums.values(), default=0.0), 9)


def _price_sources(nodes: list[PricedNodes], now: datetime) -> tuple[PriceSource, ...]:
    """Shares of node cost; where nothing cost anything, of GPU time. What has no price has no share."""
    priced = [node for node in nodes if node.source != NO_PRICE or node.node_cost]
    cost = sum(node.node_cost for node in priced)
    time = sum(node.capacity_gpu_ms for node in priced)
    shares = [(node, ratio(node.node_cost, cost) if cost else ratio(node.capacity_gpu_ms, time)) for node in priced]
    return tuple(
        PriceSource(
            name=node.source,
            share=share or 0.0,
            as_of=node.as_of,
            age_days=(now.date() - node.as_of).days if node.as_of else None,
        )
        for node, share in sorted(shares, key=lambda pair: (-(pair[1] or 0.0), pair[0].source))
    )


def _asked_from(con: DuckDBPyConnection) -> tuple[int, int]:
    """From when on servers were asked, and from when on they had something: what lies between is forgotten for good."""
    asked, had = con.execute(
        "SELECT min(from_ms), min(from_ms) FILTER (rows + dropped > 0) FROM loads WHERE kind = 'prometheus'"
    ).fetchall()[0]
    return (asked, had) if had is not None else (0, 0)


def _gap_notices(missing: list[Gap], running_to: datetime | None, asked: tuple[int, int]) -> list[Notice]:
    """What nobody signed. A period that runs, and is due to `running_to`, may lack its last hours."""
    open_gaps = [
        gap for gap in missing if not gap.accepted_by and not (gap.end == running_to and gap.end - gap.start < _LATE_AFTER)
    ]
    notices: list[Notice] = []
    for alike in alike_gaps(open_gaps):
        gap = alike[0]
        if asked[0] <= to_ms(gap.start) and to_ms(gap.end) < asked[1] + MS_PER_HOUR:
            lost = f"{gap_text(alike)}; the server had nothing that old, and that time is lost"
            notices.append(Notice("not_collected", lost, None))
        else:
            notices.append(Notice("not_collected", gap_text(alike), _collect(gap.start, gap.end)))
    return notices


def _partial_notices(gaps: Iterable[Gap]) -> list[Notice]:
    """One per cluster: hours whose answers their server called partial, and that were accepted as they are."""
    by_cluster: dict[str, list[Gap]] = {}
    for gap in gaps:
        by_cluster.setdefault(gap.cluster, []).append(gap)
    return [
        Notice(
            "partial",
            f"{sum(gap.hours for gap in found):,.1f} h of {clusters_text(found[:1])} are incomplete, between "
            f"{local_text(found[0].start)} and {local_text(found[-1].end)}: {found[0].reason}",
            _collect(found[0].start, found[-1].end),
        )
        for found in by_cluster.values()
    ]


def _collect(start: datetime, end: datetime) -> str:
    return f"gpucost collect prometheus --from {local_text(start, 'T')} --to {local_text(end, 'T')}"


def _stored_notices(con: DuckDBPyConnection, query: Query) -> list[Notice]:
    period = {"from": query.period.start_ms, "to": query.period.end_ms}
    answer = ask(con, "60_warnings", period | {"clusters": list(query.clusters), "narrowed": query.is_narrowed})
    return [Notice(row["code"], row["message"], row["fix"]) for row in answer]
