"""What Kueue says of its ClusterQueues: quotas, use, borrowing, waits, and whose share of the GPUs is fair (docs/kueue.md)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gpucost.engine import answer_rows, dicts, run_stage
from gpucost.periods import MS_PER_HOUR, Period
from gpucost.render.schema import Shape
from gpucost.store import sqlfiles

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True, slots=True)
class Waits:
    """How long workloads waited from creation to admission, in seconds; quantiles are read off a histogram, None without any."""

    admitted: float
    wait_mean_seconds: float | None
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None


@dataclass(frozen=True, slots=True)
class Queue(Shape):
    """One ClusterQueue and GPU resource; units of the resource (GPUs, slices), averages over the time they are known for.

    None: Kueue did not say (quotas and use need `enableClusterQueueResources`). `borrowing_limit` is None, too, where Kueue says
    that there is none: then `is_borrowing_unlimited`. `recent_*` are of the last 7 days of the period, decayed by half in 2 days;
    shares (0-1) are of the queue's cohort, or of all queues without one. Figures of the queue (pending, waits) stand in each of
    its rows.
    """

    cluster: str
    cluster_queue: str
    cohort: str | None
    resource: str | None
    quota: float | None
    borrowing_limit: float | None
    is_borrowing_unlimited: bool
    used_average: float | None
    used_p95: float | None
    used_max: float | None
    borrowed_average: float | None
    borrowed_max: float | None
    pending_average: float | None
    pending_max: float | None
    recent_quota: float | None
    recent_used: float | None
    share_of_quota: float | None
    share_of_use: float | None
    waits: Waits

    FLAT = ("waits",)


@dataclass(frozen=True, slots=True)
class Queues(Shape):
    """What the queues were in a period."""

    period: Period
    queues: list[Queue]

    FLAT = ("period",)


_PACKAGE = "gpucost.report.queue"
_RECENT_MS = 7 * 24 * MS_PER_HOUR
_HALF_LIFE_MS = 2 * 24 * MS_PER_HOUR
_DIGITS = 6

Name = tuple[str, str]
Row = Mapping[str, Any]


# One row per (cluster, queue, resource, part) and moment at which one of its gauges begins or ends, and the next one. A table, as
# every left side of an ASOF join.
_EDGES = """
CREATE OR REPLACE TEMP TABLE queue_edges AS
SELECT *, lead(at_ms) OVER (PARTITION BY cluster, cluster_queue, resource, part ORDER BY at_ms) AS next_ms
FROM (
    SELECT cluster, cluster_queue, resource, part, from_ms AS at_ms FROM queue_runs
    UNION
    SELECT cluster, cluster_queue, resource, part, to_ms FROM queue_runs
)
QUALIFY next_ms IS NOT NULL"""
# The newest borrowing limit, summed over flavors, and the cohort: infinite where one flavor has none, null where none was told.
_LIMITS = """
SELECT cluster, cluster_queue, resource, sum(borrowing_limit) AS borrowing_limit, max(cohort) AS cohort
FROM (
    SELECT cluster, cluster_queue, resource, part,
        arg_max(borrowing_limit, from_ms) AS borrowing_limit, arg_max(cohort, from_ms) AS cohort
    FROM queue_parts WHERE to_ms > $from_ms AND resource IS NOT NULL GROUP BY ALL
)
GROUP BY ALL
ORDER BY ALL"""


def queues(con: DuckDBPyConnection, period: Period, clusters: Sequence[str] = (), names: Sequence[str] = ()) -> list[Queue]:
    """Every ClusterQueue that Kueue told of in the period, the fullest first. Works on a read-only connection."""
    since = period.end_ms - _RECENT_MS
    filters = {"clusters": list(clusters), "queues": list(names)}
    sqlfiles.run(con, "filters")
    run_stage(con, _PACKAGE, "10_runs", {"from_ms": min(since, period.start_ms), "to_ms": period.end_ms, **filters})
    con.execute(_EDGES)
    run_stage(con, _PACKAGE, "30_parts")
    span = {"from_ms": period.start_ms, "to_ms": period.end_ms}
    rows = answer_rows(con, _PACKAGE, "50_queues", span | {"since_ms": since, "half_life_ms": _HALF_LIFE_MS})
    limits = {_key(row): row for row in dicts(con.execute(_LIMITS, {"from_ms": period.start_ms}))}
    waits = _waits(answer_rows(con, _PACKAGE, "60_waits", span | filters))
    pending = {(row["cluster"], row["cluster_queue"]): row for row in rows if row["resource"] is None}
    told = [row for row in rows if row["resource"] is not None]
    bare = {*pending, *waits} - {(row["cluster"], row["cluster_queue"]) for row in told}
    told += [{"cluster": cluster, "cluster_queue": name, "resource": None} for cluster, name in sorted(bare)]
    found = [_queue(row, limits.get(_key(row), {}), pending, waits) for row in told]
    return sorted(_shared(found), key=lambda one: (-(one.used_average or 0), one.cluster, one.cluster_queue, one.resource or ""))


def _queue(row: Row, limit: Row, pending: Mapping[Name, Row], waits: Mapping[Name, Waits]) -> Queue:
    name = row["cluster"], row["cluster_queue"]
    waiting = pending.get(name, {})
    borrowing = limit.get("borrowing_limit")
    unlimited = borrowing is not None and math.isinf(borrowing)
    return Queue(
        cluster=row["cluster"],
        cluster_queue=row["cluster_queue"],
        cohort=limit.get("cohort"),
        resource=row["resource"],
        quota=_rounded(row.get("quota")),
        borrowing_limit=None if unlimited else _rounded(borrowing),
        is_borrowing_unlimited=unlimited,
        used_average=_rounded(row.get("used_average")),
        used_p95=_rounded(row.get("used_p95")),
        used_max=_rounded(row.get("used_max")),
        borrowed_average=_rounded(row.get("borrowed_average")),
        borrowed_max=_rounded(row.get("borrowed_max")),
        pending_average=_rounded(waiting.get("pending_average")),
        pending_max=_rounded(waiting.get("pending_max")),
        waits=waits.get(name, Waits(0.0, None, None, None)),
        recent_quota=_rounded(row.get("recent_quota")),
        recent_used=_rounded(row.get("recent_used")),
        share_of_quota=None,
        share_of_use=None,
    )


def _shared(found: Iterable[Queue]) -> list[Queue]:
    """The same, each with its share of what its cohort has and uses of the resource."""
    several = list(found)
    cohorts: dict[tuple[str, str, str | None], list[Queue]] = defaultdict(list)
    for one in several:
        cohorts[one.cluster, one.cohort or "", one.resource].append(one)
    shared = []
    for one in several:
        others = cohorts[one.cluster, one.cohort or "", one.resource]
        quota, used = (sum(getattr(other, f"recent_{what}") or 0 for other in others) for what in ("quota", "used"))
        shared.append(
            replace(
                one,
                share_of_quota=_part(one.recent_quota, quota),
                share_of_use=_part(one.recent_used, used),
            )
        )
    return shared


def _waits(rows: Iterable[Row]) -> dict[Name, Waits]:
    by_queue: dict[Name, list[Row]] = defaultdict(list)
    for row in rows:
        by_queue[row["cluster"], row["cluster_queue"]].append(row)
    found = {}
    for name, several in by_queue.items():
        count, total = (sum(row["rise"] for row in several if row["counter"] == what) for what in ("count", "sum"))
        buckets = sorted(
            (float(row["upper"].replace("Inf", "inf")), row["rise"]) for row in several if row["counter"] == "bucket"
        )
        mean = _rounded(total / count) if count else None
        found[name] = Waits(round(count, _DIGITS), mean, _rounded(quantile(buckets, 0.5)), _rounded(quantile(buckets, 0.95)))
    return found


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """The value below which `share` of the observations lie, of (upper bound, count up to it) in order; None without any.

    As Prometheus' histogram_quantile: observations lie evenly in their bucket, and those above the last bound at that bound.
    """
    total = buckets[-1][1] if buckets else 0.0
    if total <= 0:
        return None
    below = lower = 0.0
    for upper, count in buckets:
        if count >= share * total:
            if math.isinf(upper):
                return lower
            return lower + (upper - lower) * ((share * total - below) / (count - below) if count > below else 1.0)
        below, lower = count, upper
    return lower


def _part(part: float | None, whole: float) -> float | None:
    return None if part is None or not whole else round(part / whole, _DIGITS)


def _key(row: Row) -> tuple[str, str, str | None]:
    return row["cluster"], row["cluster_queue"], row["resource"]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), _DIGITS)
