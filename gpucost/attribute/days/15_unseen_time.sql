-- reads: node_prices, nodes, coverage_gaps, collected, billed_hours, billed_nodes
-- writes: unseen_time, one row per (node, charge period) that nobody saw and its bill tells of: at which price, and which part of it the machine ran
-- invariant: a node's rows do not overlap, and lie in time that was not collected; 0 < up_ratio <= 1
CREATE OR REPLACE TEMP TABLE unseen_time AS
WITH missed AS (
    SELECT p.node_id, p.price_per_hour, p.price_as_of, greatest(p.from_ms, g.from_ms) AS from_ms, least(p.to_ms, g.to_ms) AS to_ms
    FROM node_prices AS p
    JOIN nodes AS n USING (node_id)
    JOIN coverage_gaps AS g ON g.cluster = n.cluster AND g.kind = 'not_collected' AND g.from_ms < p.to_ms AND p.from_ms < g.to_ms
    WHERE p.price_source = 'bill'
),
billed AS (
    SELECT b.node_id, h.from_ms, h.to_ms, b.is_scale_set, sum(h.instance_hours) * 3600000 AS billed_ms
    FROM billed_hours AS h JOIN billed_nodes AS b USING (instance_key)
    WHERE b.node_id IN (SELECT node_id FROM missed)
    GROUP BY ALL
),
seen AS (
    SELECT b.node_id, b.from_ms,
        sum(greatest(0, least(n.up_to_ms, c.to_ms, b.to_ms) - greatest(n.up_from_ms, c.from_ms, b.from_ms))) AS seen_ms
    FROM billed AS b
    JOIN nodes AS n USING (node_id)
    JOIN collected AS c ON c.cluster = n.cluster AND c.from_ms < b.to_ms AND b.from_ms < c.to_ms
    GROUP BY ALL
),
parts AS (
    SELECT m.node_id, m.price_per_hour, m.price_as_of, greatest(m.from_ms, b.from_ms) AS from_ms, least(m.to_ms, b.to_ms) AS to_ms,
        b.from_ms AS period_ms, b.billed_ms, b.is_scale_set
    FROM missed AS m JOIN billed AS b ON b.node_id = m.node_id AND b.from_ms < m.to_ms AND m.from_ms < b.to_ms
),
rated AS (
    SELECT p.node_id, p.from_ms, p.to_ms, p.price_per_hour, p.price_as_of,
        -- a scale set's hours are those of several nodes
        CASE WHEN p.is_scale_set THEN 1
            ELSE least(1, greatest(0, p.billed_ms - coalesce(s.seen_ms, 0)) / sum(p.to_ms - p.from_ms) OVER (PARTITION BY p.node_id, p.period_ms)) END
            AS up_ratio
    FROM parts AS p LEFT JOIN seen AS s ON s.node_id = p.node_id AND s.from_ms = p.period_ms
)
FROM rated WHERE up_ratio > 0;
