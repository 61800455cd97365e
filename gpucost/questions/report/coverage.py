"""Coverage of a report: measured time, price sources and missing data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from gpucost.config.model import Config
from gpucost.engine import answer_rows, dicts
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, Period, from_ms, to_ms
from gpucost.questions.report.query import Query
from gpucost.questions.report.rows import NO_PRICE, PACKAGE, ZERO, Part, PricedNodes, unpriced_ms
from gpucost.records import frozen_dataclass, grouped
from gpucost.render.formatting import FINAL, alike_gaps, clusters_text, gap_text, local_text
from gpucost.render.view import Coverage, Gap, Measures, MissingTime, Notice, PriceSource, hours, ratio
from gpucost.store.sqlfiles import column

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# A running period always lacks its last hours; that deserves a warning only after a missed daily collect.
_LATE_AFTER = timedelta(hours=25)
# Collected time begins and ends with a sample. Up to this long before and after it, objects may have been up between
# two scrapes.
_EDGE_MS = 10 * 60_000
# At the end of a finished period only one late scrape is allowed for.
_LATE_SCRAPE_MS = 60_000

# Slurm does not report this if AccountingStorageTRES lacks it: collecting that time again does not help.
UNTRACKED = "gres/gpu"
TRACK_GPUS = "add gres/gpu to AccountingStorageTRES in slurm.conf"

# Collected and other time of the selected clusters (empty: all).
_SPANS = """
FROM (
    FROM coverage_gaps
    UNION ALL BY NAME SELECT cluster, from_ms, to_ms, 'collected' AS kind FROM collected
)
WHERE len($clusters::VARCHAR[]) = 0 OR list_contains($clusters::VARCHAR[], cluster)
ORDER BY cluster, from_ms, to_ms, kind"""


# The inputs for one part of a report: its totals, its nodes, and its GPU-hours of unknown capacity type.
Covered = tuple[Measures, list[PricedNodes], float]


def coverage(
    con: DuckDBPyConnection, config: Config, query: Query, now: datetime, parts: Mapping[Part, Covered]
) -> dict[Part, Coverage]:
    """Coverage of the query's period.

    Time after both `now` and the newest collected moment is not missing yet.
    """
    seen = _seen(con, query.period, now, config.tz, query.clusters)
    gap_notices = _gap_notices(con, seen)
    doubts: list[Notice] = []
    if column(con, "SELECT 1 FROM progress_series WHERE kind = 'counter' LIMIT 1"):
        from gpucost.questions.report.processes import processes

        doubts = processes(con, query.period, query.clusters, query.period.start_ms - MS_PER_DAY)
    selection = {"clusters": list(query.clusters), "narrowed": query.is_narrowed, "parts": list(parts)}
    span = {"from": query.period.start_ms, "to": query.period.end_ms}
    rows = answer_rows(con, PACKAGE, "60_warnings", span | selection)
    stored = grouped((row.pop("part"), Notice(**row)) for row in rows)
    kinds = ("not_collected", "bridged", "partial", "off")
    by_kind: dict[str, Any] = {kind: [gap for gap in seen.gaps if gap.kind == kind] for kind in kinds}
    partial = _partial_notices(gap for gap in by_kind["partial"] if not gap.families)
    basis = config.prices.cost_basis
    found = {}
    for part, (totals, nodes, unknown_capacity_gpu_hours) in parts.items():
        sources = _price_sources(nodes, now)
        unpriced = unpriced_ms(nodes)
        found[part] = Coverage(
            measured_ratio=totals.measured_ratio,
            sources=sources,
            price_sources={source.name: source.share for source in sources},
            # a final price does not become outdated
            price_as_of=min(
                (source.as_of for source in sources if source.as_of and source.name not in FINAL),
                default=None,
            ),
            not_collected_hours=_most_hours(by_kind["not_collected"]),
            bridged_hours=_most_hours(by_kind["bridged"]),
            **by_kind,
            collected_to=seen.reached,
            unknown_capacity_gpu_hours=unknown_capacity_gpu_hours,
            unpriced_gpu_hours=hours(unpriced),
            unpriced_ratio=ratio(unpriced, sum(node.capacity_gpu_ms for node in nodes)),
            warnings=(*gap_notices, *partial, *stored[part], *doubts),
            is_complete=not seen.is_running and not any(gap.is_missing for gap in seen.gaps),
            cost_basis=basis if basis != "node" else None,
            final_cost=sum((node.node_cost for node in nodes), ZERO) - totals.estimated_cost,
            estimated_cost=totals.estimated_cost,
        )
    return found


def gaps_of(con: DuckDBPyConnection, period: Period, now: datetime, tz: ZoneInfo) -> list[Gap]:
    """Gaps and partly collected time of `period` in all clusters, up to `now`."""
    return _seen(con, period, now, tz, ()).gaps


def missed(
    con: DuckDBPyConnection, period: Period, now: datetime, tz: ZoneInfo, clusters: Sequence[str] = ()
) -> tuple[list[Gap], list[Notice], bool]:
    """Gaps of `period`, their warnings, and whether the period is still running."""
    seen = _seen(con, period, now, tz, clusters)
    return [gap for gap in seen.gaps if gap.is_missing], _gap_notices(con, seen), seen.is_running


@frozen_dataclass
class _Seen:
    """Time of a period up to `due` that is not simply collected, by time and cluster.

    `reached` is the earliest end of the clusters' known time, over clusters with any collected time in the period.
    """

    gaps: list[Gap]
    reached: datetime | None
    due: datetime
    is_running: bool


def _seen(
    con: DuckDBPyConnection, period: Period, now: datetime, tz: ZoneInfo, clusters: Sequence[str]
) -> _Seen:
    spans = dicts(con.execute(_SPANS, {"clusters": list(clusters)}))
    newest = {span["cluster"]: span["to_ms"] for span in spans if span["kind"] == "collected"}
    due = max(period.start_ms, min(period.end_ms, max([to_ms(now), *newest.values()])))
    is_running = due < period.end_ms
    gaps: list[Gap] = []
    ends: dict[str, int] = {}
    collected: set[str] = set()
    for span in spans:
        cluster = span["cluster"]
        kind = span["kind"]
        begin = max(span["from_ms"], period.start_ms)
        end = min(span["to_ms"], due)
        if begin >= end:
            continue
        if kind in ("collected", "off"):
            ends[cluster] = max(end, ends.get(cluster, end))
        if kind == "collected":
            collected.add(cluster)
            continue
        edges = {0: _EDGE_MS, newest.get(cluster): _EDGE_MS if is_running else _LATE_SCRAPE_MS}
        is_edge = kind == "not_collected" and end - begin <= edges.get(span["from_ms"], 0)
        # a cluster that was off during the whole period was removed earlier
        is_all_off = kind == "off" and (begin, end) == (period.start_ms, due)
        if is_edge or is_all_off:
            continue
        facts = {name: span[name] for name in ("cluster", "kind", "reason", "accepted_by", "accepted_why")}
        facts |= {"hours": hours(end - begin), "families": tuple(span["families"])}
        span_of = MissingTime if kind == "not_collected" else Gap
        gaps.append(span_of(start=from_ms(begin).astimezone(tz), end=from_ms(end).astimezone(tz), **facts))
    reached = min((from_ms(ends[cluster]).astimezone(tz) for cluster in collected), default=None)
    return _Seen(
        sorted(gaps, key=lambda gap: (gap.start, gap.cluster, gap.end)), reached, from_ms(due), is_running
    )


def _most_hours(gaps: Iterable[Gap]) -> float:
    """Hours of the cluster with the most of them."""
    hours = grouped((gap.cluster, gap.hours) for gap in gaps)
    return round(max(map(sum, hours.values()), default=0.0), 9)


def _price_sources(nodes: list[PricedNodes], now: datetime) -> tuple[PriceSource, ...]:
    """Shares of node cost by price source, or of GPU time if the cost is zero.

    Nodes without a price and cost have no share.
    """
    priced = [node for node in nodes if node.source != NO_PRICE or node.node_cost]
    cost = sum(node.node_cost for node in priced)
    time = sum(node.capacity_gpu_ms for node in priced)
    sources = (
        PriceSource(
            name=node.source,
            share=(ratio(node.node_cost, cost) if cost else ratio(node.capacity_gpu_ms, time)) or 0.0,
            as_of=node.as_of,
            age_days=(now.date() - node.as_of).days if node.as_of else None,
        )
        for node in priced
    )
    return tuple(sorted(sources, key=lambda source: (-source.share, source.name)))


_ACCOUNTED = "SELECT DISTINCT source FROM loads WHERE kind = 'slurm'"


def _gap_notices(con: DuckDBPyConnection, seen: _Seen) -> list[Notice]:
    """Warnings about gaps that are not accepted. A running period may lack its last hours."""
    # start of the queried time, and of the time with data: the time in between is lost
    since_ms, first_ms = con.execute(
        "SELECT min(from_ms), min(from_ms) FILTER (rows + dropped > 0) FROM loads WHERE kind IN ('prometheus', 'slurm')"
    ).fetchall()[0]
    accounted = column(con, _ACCOUNTED)
    notices: list[Notice] = []
    missing = (gap for gap in seen.gaps if gap.kind == "not_collected" and not gap.accepted_by)
    for alike in alike_gaps(missing):
        gap = alike[0]
        text = gap_text(alike)
        if seen.is_running and gap.end == seen.due and gap.end - gap.start < _LATE_AFTER:
            continue
        fix: str | None = TRACK_GPUS
        if first_ms is not None and since_ms <= to_ms(gap.start) and to_ms(gap.end) < first_ms + MS_PER_HOUR:
            text, fix = f"{text}; the server had no data that old, and that time is lost", None
        elif UNTRACKED not in gap.families:
            fix = _collect(gap.start, gap.end, "slurm" if gap.cluster in accounted else "prometheus")
        notices.append(Notice("not_collected", text, fix))
    return notices


def _partial_notices(gaps: Iterable[Gap]) -> list[Notice]:
    """One notice per cluster for hours with accepted partial answers."""
    return [
        Notice(
            "partial",
            f"{sum(gap.hours for gap in partial):,.1f} h of {clusters_text(partial[:1])} are incomplete, between "
            f"{local_text(partial[0].start)} and {local_text(partial[-1].end)}: {partial[0].reason}",
            _collect(partial[0].start, partial[-1].end),
        )
        for partial in grouped((gap.cluster, gap) for gap in gaps).values()
    ]


def _collect(start: datetime, end: datetime, source: str = "prometheus") -> str:
    return f"gpucost collect {source} --from {local_text(start, 'T')} --to {local_text(end, 'T')}"
