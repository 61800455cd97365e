"""What findings and what-ifs of the demo should say, worked out in plain Python."""

from __future__ import annotations

import math

import duckdb

_SAFE_JOBS = """
SELECT n.instance_type, a.workload, sum(c.cost) AS cost, sum(c.allocated_gpu_ms) / 3600000 / any_value(n.gpu_count) AS node_hours,
    any_value((a.held_to_ms - a.held_from_ms) / 3600000) AS length, count(DISTINCT a.allocation_id) AS pods
FROM cost_daily AS c JOIN allocations AS a USING (allocation_id) JOIN nodes AS n ON n.node_id = a.node_id
WHERE n.cluster = 'demo' AND n.capacity_type = 'on_demand'
    AND regexp_matches(a.workload, '^(Cron)?Job/.*(sweep|ablation|eval|quanti|test|batch|score)')
GROUP BY ALL"""
_SPOT_PRICES = """
SELECT n.instance_type, sum(p.price_per_hour * (p.to_ms - p.from_ms)) / sum(p.to_ms - p.from_ms)
FROM nodes AS n JOIN node_prices AS p USING (node_id) WHERE n.capacity_type = 'spot' GROUP BY ALL"""


def spot_savings(con: duckdb.DuckDBPyConnection) -> tuple[float, float]:
    """What jobs of the cluster `demo` that run again if they are lost save on spot, and what others could with checkpoints."""
    spot = {name: float(price) for name, price in con.execute(_SPOT_PRICES).fetchall()}
    jobs = con.execute(_SAFE_JOBS).fetchall()
    rates = {name: _own_rate(con, name) for name in ("g4dn.12xlarge", "p4d.24xlarge")}
    saving, could = 0.0, 0.0
    for name, _, cost, hours, length, pods in jobs:
        assert pods == 1
        # no checkpoint is known: an interruption costs all of the run, and 12 minutes until it goes on
        restart, rate = 0.2, rates[name]
        again = math.exp(rate * restart) * math.expm1(rate * length) / (rate * length)
        # else a checkpoint of 2.5 minutes every 30
        goes_on = math.exp(rate * restart) * math.expm1(rate * (0.5 + 2.5 / 60)) / (rate * 0.5)
        if spot[name] * hours * again < float(cost):
            saving += float(cost) - spot[name] * hours * again
        else:
            could += float(cost) - spot[name] * hours * goes_on
    return saving, could


# The Advisor's band of the type in us-east-1: mean, 5 and 95 % ends (pricing/interruptions.csv).
_PRIORS = dict.fromkeys(("p4d.24xlarge", "g4dn.12xlarge"), (0.068, 0.025, 0.147))
_SPOT_LIVES = """
SELECT greatest(n.up_from_ms, c.from_ms), least(n.up_to_ms, c.to_ms), (SELECT max(to_ms) FROM collected)
FROM nodes AS n JOIN collected AS c USING (cluster)
WHERE n.capacity_type = 'spot' AND split_part(n.instance_type, '.', 1) = split_part($1, '.', 1)"""

_RECLAIMS = """
SELECT DISTINCT n.up_to_ms, (SELECT max(to_ms) FROM collected)
FROM series AS s JOIN nodes AS n ON n.node = s.labels['node_name']
WHERE s.metric = 'actions_node_total' AND split_part(n.instance_type, '.', 1) = split_part($1, '.', 1)"""


def _own_rate(con: duckdb.DuckDBPyConnection, name: str) -> float:
    """Interruptions of own spot nodes after the prior: each hour, and each reclaim, halves in 90 days."""
    mean, low, high = _PRIORS[name]
    shape = 1 / math.expm1((math.log(high / low) / (2 * 1.6449)) ** 2)
    hours = 0.0
    for start, end, until in con.execute(_SPOT_LIVES, [name]).fetchall():
        days = [(until - at) / 86_400_000 / 90 for at in (start, end)]
        hours += 90 * 24 / math.log(2) * (2 ** -days[1] - 2 ** -days[0])
    reclaims = sum(
        2 ** -((until - at) / 86_400_000 / 90) for at, until in con.execute(_RECLAIMS, [name]).fetchall()
    )
    return (shape + reclaims) / (shape / mean + hours)
