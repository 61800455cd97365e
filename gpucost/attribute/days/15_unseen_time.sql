-- reads: node_prices, nodes, coverage_gaps, collected, billed_hours, billed_nodes
-- writes: unseen_time, one row per (node, charge period, gap, price) that was billed but not collected: the price, and the fraction of the time that the machine ran
-- invariant: a node's rows do not overlap, each within one gap; 0 < up_ratio <= 1; per (machine, charge period) rows x up_ratio plus the collected time of all its nodes are at most the billed hours, unless the collected time alone exceeds them
-- only with: billed_hours
-- otherwise: unseen_time (node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(38, 9), price_as_of DATE, up_ratio DOUBLE)
CREATE OR REPLACE TEMP TABLE unseen_time AS
WITH bill_prices AS (
    SELECT node_id, from_ms, to_ms, price_per_hour, price_as_of FROM node_prices WHERE price_source = 'bill'
),
-- A scale set is several nodes, and so is a machine that was registered again. Numbers compare faster than their keys.
machines AS (
    SELECT instance_key, min(node_id) AS machine FROM billed_nodes GROUP BY instance_key
),
lives AS (
    SELECT m.machine, n.node_id, n.cluster, n.up_from_ms, n.up_to_ms, coalesce(n.gpu_count / n.machine_gpus, 1) AS machine_share
    FROM machines AS m JOIN billed_nodes AS b USING (instance_key) JOIN nodes AS n USING (node_id)
),
periods AS (
    SELECT m.machine, h.from_ms AS period_ms, h.to_ms AS period_to_ms, sum(h.instance_hours) * 3600000 AS billed_ms
    FROM billed_hours AS h JOIN machines AS m USING (instance_key)
    GROUP BY ALL
),
-- most periods belong to many machines, and few touch a gap
told AS (
    SELECT DISTINCT l.cluster, p.period_ms, p.period_to_ms FROM periods AS p JOIN lives AS l USING (machine)
),
missed AS (
    SELECT t.*, greatest(t.period_ms, g.from_ms) AS from_ms, least(t.period_to_ms, g.to_ms) AS to_ms
    FROM told AS t
    JOIN coverage_gaps AS g ON g.cluster = t.cluster AND g.kind IN ('not_collected', 'off') AND g.from_ms < t.period_to_ms AND t.period_ms < g.to_ms
),
known AS (
    SELECT t.*, greatest(t.period_ms, c.from_ms) AS from_ms, least(t.period_to_ms, c.to_ms) AS to_ms
    FROM told AS t
    JOIN collected AS c ON c.cluster = t.cluster AND c.from_ms < t.period_to_ms AND t.period_ms < c.to_ms
    WHERE (t.period_ms, t.period_to_ms) IN (SELECT (period_ms, period_to_ms) FROM missed)
),
seen AS (
    SELECT p.machine, p.period_ms, sum((least(l.up_to_ms, k.to_ms) - greatest(l.up_from_ms, k.from_ms)) * l.machine_share) AS seen_ms
    FROM known AS k
    JOIN periods AS p USING (period_ms, period_to_ms)
    JOIN lives AS l ON l.machine = p.machine AND l.cluster = k.cluster AND l.up_from_ms < k.to_ms AND k.from_ms < l.up_to_ms
    GROUP BY ALL
),
priced AS (
    SELECT node_id, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM bill_prices GROUP BY node_id
),
stretches AS (
    SELECT l.node_id, l.machine_share, p.machine, p.period_ms, p.billed_ms, m.from_ms, m.to_ms
    FROM missed AS m
    JOIN periods AS p USING (period_ms, period_to_ms)
    JOIN lives AS l ON l.machine = p.machine AND l.cluster = m.cluster
    JOIN priced AS b ON b.node_id = l.node_id AND b.from_ms < m.to_ms AND m.from_ms < b.to_ms
),
-- neither spans nor prices of a node overlap: of an overlapping pair, one begins within the other
parts AS (
    SELECT s.* REPLACE (least(s.to_ms, b.to_ms) AS to_ms), b.price_per_hour, b.price_as_of
    FROM stretches AS s ASOF JOIN bill_prices AS b ON b.node_id = s.node_id AND s.from_ms >= b.from_ms
    WHERE s.from_ms < b.to_ms
    UNION ALL
    SELECT s.* REPLACE (b.from_ms AS from_ms, least(s.to_ms, b.to_ms) AS to_ms), b.price_per_hour, b.price_as_of
    FROM bill_prices AS b ASOF JOIN stretches AS s ON s.node_id = b.node_id AND b.from_ms > s.from_ms
    WHERE b.from_ms < s.to_ms
),
rated AS (
    SELECT p.node_id, p.from_ms, p.to_ms, p.price_per_hour, p.price_as_of,
        least(1, greatest(0, p.billed_ms - coalesce(s.seen_ms, 0)) / sum((p.to_ms - p.from_ms) * p.machine_share) OVER (PARTITION BY p.machine, p.period_ms)) AS up_ratio
    FROM parts AS p LEFT JOIN seen AS s USING (machine, period_ms)
)
FROM rated WHERE up_ratio > 0;
