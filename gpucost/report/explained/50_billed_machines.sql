-- reads: explained_bill_rows, billed_hours, billed_nodes; $from_ms, $to_ms bound the period
-- writes: nothing; answers one row per node and machine of a bill: how many charges, their hours and cost, and what its hours come to at the price of its pool
-- invariant: cost is the sum of explained_bill_rows of that machine
WITH charged AS (
    SELECT instance_key, count(*) AS rows, coalesce(sum(instance_hours), 0) AS instance_hours, sum(cost) AS cost
    FROM explained_bill_rows
    GROUP BY instance_key
),
priced AS (
    SELECT instance_key, sum(((price_per_hour * rate)::DECIMAL(38, 12) * instance_hours)::DECIMAL(38, 9)) AS cost
    FROM billed_hours
    WHERE from_ms < $to_ms AND $from_ms < to_ms AND price_per_hour IS NOT NULL
    GROUP BY instance_key
)
SELECT n.node_id, n.is_scale_set, c.instance_key, c.rows, c.instance_hours, c.cost, coalesce(p.cost, 0) AS pooled_cost
FROM charged AS c
JOIN billed_nodes AS n USING (instance_key)
LEFT JOIN priced AS p USING (instance_key)
ORDER BY n.node_id, c.instance_key;
