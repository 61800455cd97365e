"""Waits, use and fair shares of Kueue's ClusterQueues (docs/kueue.md) and Slurm (docs/slurm.md)."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from gpucost.engine import answer_rows, run_stage
from gpucost.periods import MS_PER_DAY, Period
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.shapes import Shape
from gpucost.store import sqlfiles


@frozen_dataclass
class Queue:
    """One ClusterQueue and GPU resource, in units of the resource (GPUs, slices).

    Averages are over the time with known values. None: Kueue did not report it (quotas and use need
    `enableClusterQueueResources`). `borrowing_limit` is also None if borrowing is unlimited: then
    `is_borrowing_unlimited` is true. `recent_*` are for the last 7 days of the period, halved for every 2 days of
    age; shares (0-1) are of the queue's cohort, or of all queues without a cohort. Waits are from creation to
    admission; quantiles are from a histogram. Figures of the whole queue (pending, waits) are in each of its rows.
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
    admitted: float
    wait_mean_seconds: float | None
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None


@frozen_dataclass
class SlurmWait:
    """Jobs with GPUs of a partition, QOS or account (`by`); waits of jobs started in the period, in seconds.

    `wait_*` is from submission, `eligible_wait_*` from eligibility; None if no job started. `preempted_cost` is the
    cost of preempted runs.
    """

    cluster: str
    by: str
    name: str
    started: int
    wait_p50_seconds: float | None
    wait_p95_seconds: float | None
    eligible_wait_p50_seconds: float | None
    eligible_wait_p95_seconds: float | None
    gpu_hours: float
    cost: Decimal
    preempted: int
    preempted_cost: Decimal


@frozen_dataclass
class SlurmShare:
    """An account, or a user in it, from sshare, with the cost of its jobs; shares are 0-1.

    `cost_share` is the share of the cluster's cost, which counts half for every 7 days before the period's end; None
    without cost.
    """

    cluster: str
    account: str
    user: str | None
    norm_shares: float | None
    effective_usage: float | None
    fair_share: float | None
    cost: Decimal
    cost_share: float | None


@frozen_dataclass
class Queues(Shape):
    """The queues in a period, and Slurm's waits and shares if the store has them."""

    period: Period
    queues: list[Queue]
    slurm_waits: list[SlurmWait] | None = None
    slurm_shares: list[SlurmShare] | None = None


_RECENT_MS = 7 * MS_PER_DAY
_HALF_LIFE_MS = 2 * MS_PER_DAY
# Slurm's default, PriorityDecayHalfLife
_SLURM_HALF_LIFE_MS = 7 * MS_PER_DAY


# One row per (cluster, queue, resource, part) and moment at which one of its gauges begins or ends, and the next one.
# A table, like every left side of an ASOF join.
_EDGES = """
CREATE OR REPLACE TEMP TABLE queue_edges AS
SELECT *, lead(at_ms) OVER (PARTITION BY cluster, cluster_queue, resource, part ORDER BY at_ms) AS next_ms
FROM (
    SELECT cluster, cluster_queue, resource, part, from_ms AS at_ms FROM queue_runs
    UNION
    SELECT cluster, cluster_queue, resource, part, to_ms FROM queue_runs
)
QUALIFY next_ms IS NOT NULL"""


def queues(
    con: DuckDBPyConnection, period: Period, clusters: Sequence[str] = (), names: Sequence[str] = ()
) -> list[Queue]:
    """Every ClusterQueue with metrics in the period, the fullest first. Works on a read-only connection."""
    since = period.end_ms - _RECENT_MS
    span = period.bounds
    filters = {"clusters": list(clusters), "queues": list(names)}
    sqlfiles.run(con, "filters")
    run_stage(
        con, "gpucost.questions.queue", "10_runs", span | filters | {"from_ms": min(since, period.start_ms)}
    )
    con.execute(_EDGES)
    run_stage(con, "gpucost.questions.queue", "30_parts")
    run_stage(
        con, "gpucost.questions.queue", "50_sums", span | {"since_ms": since, "half_life_ms": _HALF_LIFE_MS}
    )
    rows = answer_rows(con, "gpucost.questions.queue", "60_queues", span | filters)
    return [Queue(**_rounded(_with_waits(row))) for row in rows]


def slurm(
    con: DuckDBPyConnection, period: Period, clusters: Sequence[str]
) -> tuple[list[SlurmWait], list[SlurmShare]]:
    """Waits and cost of Slurm jobs, and sshare's accounts and users with their cost.

    Needs attributed tables. Waits are by partition, QOS and account, each group's most expensive first.
    """
    sqlfiles.run(con, "filters")
    parameters = period.bounds | {"clusters": list(clusters)}
    waits = answer_rows(con, "gpucost.questions.queue", "70_slurm_waits", parameters)
    shares = answer_rows(
        con, "gpucost.questions.queue", "80_slurm_shares", parameters | {"half_life_ms": _SLURM_HALF_LIFE_MS}
    )
    return [SlurmWait(**_rounded(row)) for row in waits], [SlurmShare(**_rounded(row)) for row in shares]


def _with_waits(row: dict[str, Any]) -> dict[str, Any]:
    histogram = row.pop("buckets") or ()
    seconds = row.pop("waited_seconds") or 0.0
    admitted = row["admitted"] or 0.0
    buckets = [(bucket["upper"], bucket["count"]) for bucket in histogram]
    return row | {
        "admitted": admitted,
        "wait_mean_seconds": seconds / admitted if admitted else None,
        "wait_p50_seconds": quantile(buckets, 0.5),
        "wait_p95_seconds": quantile(buckets, 0.95),
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}


def quantile(buckets: Sequence[tuple[float, float]], share: float) -> float | None:
    """The value below which `share` of the observations are; None without observations.

    The buckets are (upper bound, count up to it) in order. Like Prometheus' histogram_quantile: observations are
    spread evenly in their bucket, and those above the last bound are at that bound.
    """
    wanted = share * buckets[-1][1] if buckets else 0.0
    if wanted <= 0:
        return None
    below = lower = 0.0
    for upper, count in buckets:
        if count >= wanted:
            if math.isinf(upper):
                return lower
            return lower + (upper - lower) * ((wanted - below) / (count - below) if count > below else 1.0)
        below = count
        lower = upper
    return lower
