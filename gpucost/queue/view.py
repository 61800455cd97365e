"""A ClusterQueue in numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waits:
    """How long workloads waited from creation to admission, in seconds; quantiles are read off a histogram, None without any."""

    admitted: float
    mean_seconds: float | None
    p50_seconds: float | None
    p95_seconds: float | None


@dataclass(frozen=True, slots=True)
class Queue:
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
    waits: Waits
    recent_quota: float | None
    recent_used: float | None
    share_of_quota: float | None
    share_of_use: float | None
