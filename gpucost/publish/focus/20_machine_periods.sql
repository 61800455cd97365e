-- reads: focus_charges, billed_hours, billed_nodes, nodes, collected
-- writes: focus_machine_periods, one row per (machine, charge period) that is charged: how long it was billed, and how much of that metrics saw, 0 to 1
-- invariant: a machine that is no node was not seen
CREATE OR REPLACE TEMP TABLE focus_machine_periods AS
WITH charged AS (
    SELECT DISTINCT instance_key, from_ms, to_ms FROM focus_charges
),
billed AS (
    -- of all bills: a correction that a later billing period brings repeats no hours
    SELECT c.instance_key, c.from_ms, c.to_ms, sum(h.instance_hours::DECIMAL(38, 12))::DOUBLE * 3600000 AS billed_ms
    FROM charged AS c JOIN billed_hours AS h USING (instance_key, from_ms, to_ms)
    GROUP BY ALL
    UNION ALL
    -- the period of a discount or fee: its part of the hours that it touches
    SELECT c.instance_key, c.from_ms, c.to_ms,
        sum((h.instance_hours * ((least(h.to_ms, c.to_ms) - greatest(h.from_ms, c.from_ms)) / (h.to_ms - h.from_ms)))::DECIMAL(38, 12))::DOUBLE * 3600000
    FROM (FROM charged ANTI JOIN billed_hours USING (instance_key, from_ms, to_ms)) AS c
    JOIN billed_hours AS h ON h.instance_key = c.instance_key AND h.from_ms < c.to_ms AND c.from_ms < h.to_ms
    GROUP BY ALL
),
seen AS (
    SELECT b.instance_key, b.from_ms, b.to_ms, count(n.node_id) > 0 AS has_node,
        coalesce(sum(greatest(0, least(n.up_to_ms, k.to_ms, b.to_ms) - greatest(n.up_from_ms, k.from_ms, b.from_ms))) FILTER (k.cluster IS NOT NULL), 0) AS seen_ms
    FROM billed AS b
    LEFT JOIN billed_nodes AS m USING (instance_key)
    LEFT JOIN nodes AS n USING (node_id)
    LEFT JOIN collected AS k ON k.cluster = n.cluster AND k.from_ms < b.to_ms AND b.from_ms < k.to_ms
    GROUP BY ALL
)
SELECT instance_key, from_ms, to_ms, has_node, billed_ms,
    CASE WHEN billed_ms > 0 THEN least(1, seen_ms / billed_ms) WHEN seen_ms > 0 THEN 1 ELSE 0 END AS seen_ratio
FROM billed JOIN seen USING (instance_key, from_ms, to_ms);
