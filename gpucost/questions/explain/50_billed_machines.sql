-- reads: explained_bill_rows, billed_hours, billed_nodes, machine_riders, discount_rates; $from_ms, $to_ms bound the period, $most limits the listed rows of each machine
-- writes: nothing; returns one row per node and machine of a bill: its charges with their hours and cost, the number and cost of charges that are not listed, its discounts and their rows, and the cost of its hours at the price of its pool
-- invariant: cost is the sum of the machine's explained_bill_rows and its discounts; more_cost is null if any part of it is unknown
WITH charged AS (
    SELECT instance_key, count(*) AS rows, coalesce(sum(instance_hours), 0) AS instance_hours, sum(cost) AS cost,
        count(*) FILTER (number > $most) AS more_rows, arg_max(machine, number) FILTER (number <= $most) AS machine,
        CASE WHEN count(*) FILTER (number <= $most AND cost IS NULL) = 0 AND sum(cost) IS NOT NULL
            THEN sum(cost) - coalesce(sum(cost) FILTER (number <= $most), 0) END AS more_cost
    FROM explained_bill_rows
    GROUP BY instance_key
),
periods AS (
    SELECT * FROM billed_hours WHERE from_ms < $to_ms AND $from_ms < to_ms
),
priced AS (
    SELECT instance_key, sum(((price_per_hour * rate)::DECIMAL(38, 12) * instance_hours)::DECIMAL(38, 9)) FILTER (price_per_hour IS NOT NULL) AS cost,
        sum((discount_cost * rate)::DECIMAL(38, 9)) AS discount_cost
    FROM periods
    GROUP BY instance_key
),
discounts AS (
    SELECT DISTINCT p.instance_key, d.rate_id::VARCHAR AS discount, d.rows, d.first_rows
    FROM (SELECT instance_key, unnest(discount_rates) AS rate_id FROM periods) AS p JOIN discount_rates AS d USING (rate_id)
    UNION
    SELECT p.instance_key, r.source_file || ':' || r.source_row, 1, [r.source_file || ':' || r.source_row]
    FROM machine_riders AS r
    JOIN (SELECT instance_key, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM periods WHERE discount_cost <> 0 GROUP BY instance_key) AS p
        ON p.instance_key = r.instance_key AND epoch_ms(r.charge_period_start) < p.to_ms AND p.from_ms < epoch_ms(r.charge_period_end)
    WHERE r.kind = 'discount' AND r.effective_cost <> 0
),
discounted AS (
    SELECT instance_key, sum(rows) AS rows, flatten(list(first_rows ORDER BY discount))[:5] AS first_rows FROM discounts GROUP BY instance_key
)
SELECT n.node_id, n.is_scale_set, c.instance_key, c.machine, c.rows, c.more_rows, c.more_cost, round(c.instance_hours, 9) AS instance_hours, c.cost + coalesce(p.discount_cost, 0) AS cost, coalesce(p.cost, 0) AS pooled_cost,
    coalesce(p.discount_cost, 0) AS discount_cost, coalesce(t.rows, 0) AS discount_rows, coalesce(t.first_rows, []) AS first_discount_rows
FROM charged AS c
JOIN billed_nodes AS n USING (instance_key)
LEFT JOIN priced AS p USING (instance_key)
LEFT JOIN discounted AS t USING (instance_key)
ORDER BY n.node_id, c.instance_key;
