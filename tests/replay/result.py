"""Reads a fleet's stored figures as the oracle's types."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

from gpucost.store.connection import Store
from tests.oracle import Figures
from tests.oracle.calculation import MS_PER_HOUR, PodKey

_PODS = """
    SELECT a.cluster, a.namespace, a.pod, a.uid, n.capacity_type = 'spot' AS spot,
        sum(allocated_gpu_ms), sum(active_gpu_ms), sum(idle_gpu_ms), sum(unmeasured_gpu_ms), sum(cost), sum(idle_cost)
    FROM cost_hourly AS c JOIN allocations AS a USING (allocation_id) JOIN nodes AS n ON n.node_id = c.node_id
    WHERE c.kind = 'allocated' AND c.from_ms >= $from_ms AND c.to_ms <= $to_ms AND a.cluster SIMILAR TO $cluster
    GROUP BY ALL
"""
_TOTAL = """
    WITH free AS (
        SELECT sum(unallocated_gpu_ms) AS unallocated, sum(unavailable_gpu_ms) AS unavailable, sum(unallocated_cost) AS cost
        FROM cost_hourly JOIN nodes USING (node_id)
        WHERE from_ms >= $from_ms AND to_ms <= $to_ms AND cluster SIMILAR TO $cluster
    )
    SELECT any_value(unallocated), any_value(unavailable), any_value(cost),
        sum(capacity_gpu_ms), sum(over_allocated_gpu_ms), sum(node_cost)
    FROM node_hourly JOIN nodes USING (node_id), free
    WHERE from_ms >= $from_ms AND to_ms <= $to_ms AND cluster SIMILAR TO $cluster
"""
_BROKEN = """
    SELECT n.from_ms, n.node_id, n.node_cost, coalesce(sum(c.cost + c.unallocated_cost + c.not_collected_cost), 0) AS paid
    FROM node_hourly AS n LEFT JOIN cost_hourly AS c USING (from_ms, to_ms, node_id)
    GROUP BY ALL HAVING n.node_cost IS DISTINCT FROM paid
"""


def by_pod(store: Store, from_ms: int, to_ms: int, cluster: str = ".*") -> dict[PodKey, Figures]:
    """Return the figures of every pod in the period, by (cluster, namespace, pod, uid)."""
    found = defaultdict(Figures)
    with store.read() as con:
        rows = con.execute(_PODS, {"from_ms": from_ms, "to_ms": to_ms, "cluster": cluster}).fetchall()
        for *key, spot, allocated, active, idle, unmeasured, cost, idle_cost in rows:
            found[tuple(key)] += Figures(
                allocated_gpu_hours=_hours(allocated),
                active_gpu_hours=_hours(active),
                idle_gpu_hours=_hours(idle),
                unmeasured_gpu_hours=_hours(unmeasured),
                spot_gpu_hours=_hours(allocated) if spot else Fraction(0),
                cost=Fraction(cost),
                idle_cost=Fraction(idle_cost),
            )
    return found


def total(store: Store, from_ms: int, to_ms: int, cluster: str = ".*") -> Figures:
    """Return the total figures of the period, or of the clusters whose names match."""
    with store.read() as con:
        (row,) = con.execute(_TOTAL, {"from_ms": from_ms, "to_ms": to_ms, "cluster": cluster}).fetchall()
    unallocated, unavailable, unallocated_cost, capacity, over, node_cost = row
    nodes = Figures(
        unallocated_gpu_hours=_hours(unallocated),
        unavailable_gpu_hours=_hours(unavailable),
        unallocated_cost=Fraction(unallocated_cost or 0),
        capacity_gpu_hours=_hours(capacity),
        over_allocated_gpu_hours=_hours(over),
        node_cost=Fraction(node_cost or 0),
    )
    return sum(by_pod(store, from_ms, to_ms, cluster).values(), nodes)


def unpaid(store: Store) -> list[tuple[int, int, Decimal, Decimal]]:
    """Return the node-hours whose cost differs from the sum of allocated and unallocated costs; there must be none."""
    with store.read() as con:
        return con.execute(_BROKEN).fetchall()


def _hours(gpu_ms: Any) -> Fraction:
    return Fraction(gpu_ms or 0) / MS_PER_HOUR
