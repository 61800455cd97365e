"""Checks of the anatomy of waste that hold for any fleet."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import pytest

from gpucost.config.model import Config
from gpucost.periods import MS_PER_HOUR, Period, time_buckets
from gpucost.questions.report.query import Query
from gpucost.questions.waste import anatomy as waste
from gpucost.store.connection import Store

IDLE = ("data_stall", "off_peak_idle", "user_away", "forgotten", "idle")
_NODE_HOURS = """
    SELECT n.cluster, n.node, h.from_ms, sum(h.node_cost) FROM node_hourly AS h JOIN nodes AS n USING (node_id)
    WHERE h.from_ms >= $from_ms AND h.to_ms <= $to_ms GROUP BY ALL
"""
_HOURS = """
    SELECT sum(allocated_gpu_ms + unallocated_gpu_ms), sum(idle_gpu_ms), sum(unmeasured_gpu_ms), sum(unavailable_gpu_ms)
    FROM cost_hourly WHERE from_ms >= $from_ms AND to_ms <= $to_ms
"""


def anatomy(config: Config, store: Store, period: Period, *by: str) -> waste.Waste:
    """Return the anatomy of waste of an attributed store."""
    with store.read() as con:
        return waste.build(con, config, Query(period, str(period)), by)


def check_waste(config: Config, store: Store, period: Period) -> None:
    """Check that buckets add up exactly to each node's cost in each hour and to all GPU time, and that days match hours."""
    span = {"from_ms": period.start_ms, "to_ms": period.end_ms}
    with store.read() as con:
        node_cost = {
            (cluster, node, at): cost
            for cluster, node, at, cost in con.execute(_NODE_HOURS, span).fetchall()
            if cost
        }
        gpu_ms, idle_ms, unmeasured_ms, unavailable_ms = con.execute(_HOURS, span).fetchall()[0]
    whole, by_hour = anatomy(config, store, period), anatomy(config, store, period, "cluster", "node", "hour")
    paid = defaultdict(Decimal)
    starts = {slot.hour: slot.from_ms for slot in time_buckets(period, config.tz, ("hour",))}
    for row in by_hour.rows:
        assert row.cost >= 0 and row.gpu_hours > -1e-9
        paid[row.keys["cluster"], row.keys["node"], starts[row.keys["hour"]]] += row.cost
    assert {key: cost for key, cost in paid.items() if cost} == node_cost
    assert [row.cost for row in whole.buckets] == [row.cost for row in by_hour.buckets]
    hours = {row.bucket: row.gpu_hours for row in whole.buckets}
    assert hours == pytest.approx({row.bucket: row.gpu_hours for row in by_hour.buckets}, abs=1e-6)
    # amounts under a millisecond are left out
    assert whole.totals.gpu_hours == pytest.approx((gpu_ms or 0) / MS_PER_HOUR, abs=1e-4)
    assert hours["unavailable"] == pytest.approx((unavailable_ms or 0) / MS_PER_HOUR, abs=1e-4)
    assert sum(hours[name] for name in IDLE) <= (idle_ms or 0) / MS_PER_HOUR + 1e-6
    assert hours["unmeasured"] <= (unmeasured_ms or 0) / MS_PER_HOUR + 1e-6
    assert sum((work.cost for work in whole.workloads), Decimal(0)) <= whole.totals.cost
