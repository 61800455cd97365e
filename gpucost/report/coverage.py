"""How far a report's figures can be trusted: what was measured, priced from where, and what is missing."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from gpucost.model import MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.report.query import Query
from gpucost.report.rows import BILL, NO_PRICE, ZERO, PricedNodes, ask, hours, ratio, unpriced_ms
from gpucost.report.view import Coverage, Gap, Notice, PriceSource

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A running period always lacks its last hours; that is worth a warning only after a missed daily collect.
_LATE_AFTER = timedelta(hours=25)


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
    spans = _collected(con, query)
    newest = max((to for parts in spans.values() for _, to in parts), default=query.period.start_ms)
    due = min(query.period.end_ms, max(to_ms(now), newest))
    gaps = [gap for cluster, parts in spans.items() for gap in _gaps(cluster, parts, query.period.start_ms, due)]
    missing: dict[str, float] = {}
    for gap in gaps:
        missing[gap.cluster] = missing.get(gap.cluster, 0.0) + gap.hours
    sources = _price_sources(nodes, now)
    unpriced, time = unpriced_ms(nodes), sum(node.capacity_gpu_ms for node in nodes)
    ends = [parts[-1][1] for parts in spans.values() if parts]
    return Coverage(
        measured_ratio=measured_ratio,
        price_sources=sources,
        # what a bill says of its hours does not grow old
        price_as_of=min((source.as_of for source in sources if source.as_of and source.name != BILL), default=None),
        not_collected_hours=round(max(missing.values(), default=0.0), 9),
        not_collected=tuple(gaps),
        collected_to=from_ms(min(ends)).astimezone(tz) if ends else None,
        unknown_capacity_gpu_hours=unknown_capacity_gpu_hours,
        unpriced_gpu_hours=hours(unpriced),
        unpriced_ratio=ratio(unpriced, time),
        warnings=(*_gap_notices(gaps, due < query.period.end_ms, due, tz, _asked_from(con)), *_stored_notices(con, query)),
        is_complete=due >= query.period.end_ms and not gaps,
        cost_basis=cost_basis,
        billed_cost=sum((node.node_cost for node in nodes), ZERO) - estimated_cost,
        estimated_cost=estimated_cost,
    )


def is_collected(con: DuckDBPyConnection, query: Query) -> bool:
    """Whether any of the query's period was collected."""
    return any(_collected(con, query).values())


def _collected(con: DuckDBPyConnection, query: Query) -> dict[str, list[tuple[int, int]]]:
    """Per cluster the collected intervals in order, clipped to the period."""
    start, end = query.period.start_ms, query.period.end_ms
    spans: dict[str, list[tuple[int, int]]] = {}
    for cluster, begin, until in con.execute("SELECT cluster, from_ms, to_ms FROM collected ORDER BY ALL").fetchall():
        if query.clusters and cluster not in query.clusters:
            continue
        parts = spans.setdefault(cluster, [])
        if begin < end and until > start:
            parts.append((max(begin, start), min(until, end)))
    return spans


def _gaps(cluster: str, parts: list[tuple[int, int]], start: int, due: int) -> list[Gap]:
    gaps: list[Gap] = []
    at = start
    for begin, until in [*parts, (due, due)]:
        if begin > at:
            gaps.append(Gap(cluster, Period(from_ms(at), from_ms(begin)), round((begin - at) / MS_PER_HOUR, 9)))
        at = max(at, until)
    return gaps


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


def _gap_notices(gaps: list[Gap], is_running: bool, due: int, tz: ZoneInfo, asked: tuple[int, int]) -> list[Notice]:
    by_span: dict[tuple[int, int], list[Gap]] = {}
    for gap in gaps:
        is_tail = is_running and gap.period.end_ms == due
        if not (is_tail and gap.period.end - gap.period.start < _LATE_AFTER):
            by_span.setdefault((gap.period.start_ms, gap.period.end_ms), []).append(gap)
    notices: list[Notice] = []
    for (begin, until), alike in sorted(by_span.items()):
        start, end = _local(begin, tz), _local(until, tz)
        span = f"{alike[0].hours:,.1f} h from {start.replace('T', ' ')} to {end.replace('T', ' ')}"
        clusters = ", ".join(gap.cluster for gap in alike)
        word = "cluster" if len(alike) == 1 else "clusters"
        lost = asked[0] <= begin and until < asked[1] + MS_PER_HOUR
        message = f"{span} were not collected for {word} {clusters}"
        if lost:
            notices.append(Notice("not_collected", f"{message}: the server had nothing that old, and that time is lost", None))
        else:
            notices.append(Notice("not_collected", message, f"gpucost collect prometheus --from {start} --to {end}"))
    return notices


def _local(ms: int, tz: ZoneInfo) -> str:
    """Local time as --from and --to take it; with its offset where clocks show it twice."""
    local = from_ms(ms - ms % 60_000).astimezone(tz)
    is_plain = local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset()
    return local.strftime("%Y-%m-%dT%H:%M") if is_plain else local.isoformat(timespec="minutes")


def _stored_notices(con: DuckDBPyConnection, query: Query) -> list[Notice]:
    period = {"from": query.period.start_ms, "to": query.period.end_ms}
    answer = ask(con, "60_warnings", period | {"clusters": list(query.clusters), "narrowed": query.is_narrowed})
    return [Notice(row["code"], row["message"], row["fix"]) for row in answer]
