"""Waits, use, cost and fair shares of queues: Kueue, KAI and Volcano (docs/kueue.md), and Slurm (docs/slurm.md)."""

import math
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from gpucost.collect.prometheus.queries import queue_metrics
from gpucost.engine import answer_rows, run_stage
from gpucost.periods import MS_PER_DAY, Period
from gpucost.records import DuckDBPyConnection, frozen_dataclass, grouped
from gpucost.shapes import Shape
from gpucost.store import sqlfiles

T = TypeVar("T")


@frozen_dataclass
class Queue:
    """One queue and GPU resource, in units of the resource (GPUs, slices).

    `scheduler` is Kueue, LocalQueue (of Kueue, named namespace/name), KAI or Volcano. Averages are over the time with
    known values. None: the scheduler did not report it (Kueue's quotas and use need `enableClusterQueueResources`).
    `borrowing_limit` is also None if borrowing is unlimited: then `is_borrowing_unlimited` is true. `recent_*` are
    for the last 7 days of the period, halved for every 2 days of age; shares (0-1) are of the queue's cohort, or of
    all ClusterQueues without a cohort. Waits are from creation to admission; quantiles are from a histogram.

    `pending_gpu_hours` are from the scheduler (`pending_source` "metrics") or from pods with the queue's label
    ("pods"). `waiting_cost` is the cost of unallocated and of borrowed GPUs; if it is None, `waiting_missing` has
    the reason. Figures of the whole queue (pending, waits and their cost) are in each of its rows.
    """

    cluster: str
    scheduler: str
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
    pending_gpu_hours: float | None
    pending_source: str | None
    waiting_unallocated_cost: Decimal | None
    waiting_borrowed_cost: Decimal | None
    waiting_cost: Decimal | None
    waiting_missing: str | None


@frozen_dataclass
class Eviction:
    """Workloads that Kueue evicted from a queue, by reason."""

    cluster: str
    scheduler: str
    cluster_queue: str
    reason: str
    workloads: float


@frozen_dataclass
class QueuePair:
    """A queue that waited while another queue of its cohort had idle or borrowed quota (`quota`)."""

    cluster: str
    scheduler: str
    cluster_queue: str
    other_queue: str
    quota: str
    gpu_hours: float
    cost: Decimal


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
    evictions: list[Eviction]
    pairs: list[QueuePair]
    missing: list[str]
    slurm_waits: list[SlurmWait] | None = None
    slurm_shares: list[SlurmShare] | None = None


_RECENT_MS = 7 * MS_PER_DAY
_HALF_LIFE_MS = 2 * MS_PER_DAY
# Slurm's default, PriorityDecayHalfLife
_SLURM_HALF_LIFE_MS = 7 * MS_PER_DAY


_PACKAGE = "gpucost.questions.queue"
# One row per (queue, resource, part) and moment at which one of its gauges begins or ends, and the next one.
# A table, like every left side of an ASOF join.
_EDGES = """
CREATE OR REPLACE TEMP TABLE queue_edges AS
SELECT *, lead(at_ms) OVER (PARTITION BY queue, resource, part ORDER BY at_ms) AS next_ms
FROM (
    SELECT queue, resource, part, from_ms AS at_ms FROM queue_runs
    UNION
    SELECT queue, resource, part, to_ms FROM queue_runs
)
QUALIFY next_ms IS NOT NULL"""


def queues(
    con: DuckDBPyConnection, period: Period, clusters: Sequence[str] = (), names: Sequence[str] = ()
) -> tuple[list[Queue], list[Eviction], list[QueuePair], list[str]]:
    """Every queue with metrics or pending pods in the period, the fullest first; evictions; pairs of queues; metrics
    that are not exported, and the figures that are unknown.

    Works on a read-only connection. Costs need attributed tables.
    """
    since = period.end_ms - _RECENT_MS
    span = period.bounds
    in_clusters, filters = {"clusters": list(clusters)}, {"queues": list(names)}
    sqlfiles.run(con, "filters")
    run = partial(run_stage, con, _PACKAGE)
    run("05_series", {"metrics": queue_metrics()} | in_clusters)
    run("10_runs", span | {"from_ms": min(since, period.start_ms)})
    con.execute(_EDGES)
    run("30_parts")
    run("40_rises", span)
    run("42_queue_pods")
    run("44_free_gpus", span)
    run("46_levels", span | in_clusters)
    run("48_waiting")
    run("50_sums", span | {"since_ms": since, "half_life_ms": _HALF_LIFE_MS})
    pairs = _rows(con, QueuePair, "67_pairs", filters)
    borrowed: defaultdict[tuple[str, str, str], Decimal] = defaultdict(Decimal)
    for pair in pairs:
        if pair.quota == "borrowed":
            borrowed[pair.cluster, pair.scheduler, pair.cluster_queue] += pair.cost
    rows = answer_rows(con, _PACKAGE, "60_queues", filters | {"from_ms": period.start_ms})
    found = []
    for row in rows:
        borrowed_cost = borrowed[row["cluster"], row["scheduler"], row["cluster_queue"]]
        found.append(Queue(**_rounded(_with_waits(_with_cost(row, borrowed_cost)))))
    return (
        found,
        _rows(con, Eviction, "65_evictions", filters),
        pairs,
        [*_not_exported(con), *_unknown(found)],
    )


_SEEN = "SELECT DISTINCT queue.scheduler, coalesce(gauge, counter) FROM queue_series"
_NEEDED = {
    (
        "Kueue",
        "quota",
    ): "Kueue: quotas and use; set metrics.enableClusterQueueResources: true in its configuration",
    ("Kueue", "wanted"): "Kueue: GPUs of pending workloads; versions from 0.18 export them",
    ("Kueue", "evicted"): "Kueue: evictions; the counter appears with the first one",
    ("KAI", "wanted"): "KAI: pending workloads and evictions by queue",
    ("Volcano", "evicted"): "Volcano: evictions by queue",
}


def _not_exported(con: DuckDBPyConnection) -> list[str]:
    seen = set(con.execute(_SEEN).fetchall())
    schedulers = {scheduler for scheduler, _ in seen}
    return [
        text for (name, gauge), text in _NEEDED.items() if name in schedulers and (name, gauge) not in seen
    ]


def _unknown(found: list[Queue]) -> list[str]:
    """The queues without a waiting cost, by reason."""
    names = grouped(
        (row.waiting_missing, row.cluster_queue) for row in found if row.pending_gpu_hours or row.pending_max
    )
    return [
        f"waiting cost of {', '.join(dict.fromkeys(each))}: {reason}"
        for reason, each in names.items()
        if reason not in (None, _LOCAL)
    ]


def slurm(
    con: DuckDBPyConnection, period: Period, clusters: Sequence[str]
) -> tuple[list[SlurmWait], list[SlurmShare]]:
    """Waits and cost of Slurm jobs, and sshare's accounts and users with their cost.

    Needs attributed tables. Waits are by partition, QOS and account, each group's most expensive first.
    """
    sqlfiles.run(con, "filters")
    parameters = period.bounds | {"clusters": list(clusters)}
    half_life = {"half_life_ms": _SLURM_HALF_LIFE_MS}
    shares = _rows(con, SlurmShare, "80_slurm_shares", parameters | half_life)
    return _rows(con, SlurmWait, "70_slurm_waits", parameters), shares


# Reasons why the waiting cost of a queue is unknown.
_NO_REQUESTS = "no metric and no pending pod with the queue's label has the requested GPUs"
_NO_MODEL = "no pod with the queue's label held GPUs, so their model and price are unknown"
_NO_QUOTA = "neither quota nor use is exported, so borrowed GPUs are unknown"
_LOCAL = "a LocalQueue has no quota; its ClusterQueue has the cost"


def _with_cost(row: dict[str, Any], borrowed: Decimal) -> dict[str, Any]:
    """The row with its waiting cost, or with the reason why it is unknown."""
    hours = row["pending_gpu_hours"]
    source = "metrics" if row.pop("is_exported") and hours is not None else "pods"
    unallocated = row.pop("unallocated_cost")
    has_models, has_quota = row.pop("has_models"), row.pop("has_quota")
    is_none_pending = row["pending_max"] == 0 or (
        row["pending_max"] is None and row["scheduler"] in ("KAI", "Volcano")
    )
    if hours is None and has_models and is_none_pending:
        hours = 0.0
    missing = None
    if hours is None:
        missing = _NO_REQUESTS
    elif hours and not has_models:
        missing = _NO_MODEL
    elif hours and not has_quota:
        missing = _LOCAL if row["scheduler"] == "LocalQueue" else _NO_QUOTA
    is_priced = missing not in (_NO_REQUESTS, _NO_MODEL)
    free = (unallocated or Decimal(0)) if is_priced else None
    return row | {
        "pending_gpu_hours": hours,
        "pending_source": None if hours is None else source,
        "waiting_unallocated_cost": free,
        "waiting_borrowed_cost": None if missing else borrowed,
        "waiting_cost": None if missing or free is None else free + borrowed,
        "waiting_missing": missing,
    }


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


def _rows(con: DuckDBPyConnection, kind: type[T], stage: str, parameters: dict[str, Any]) -> list[T]:
    return [kind(**_rounded(row)) for row in answer_rows(con, _PACKAGE, stage, parameters)]


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
