-- reads: machine_hours, metric_lines
-- writes: bill_lines, what of the bill's cost metrics do not account for, by line, UTC day and node
-- invariant: with metric_lines, which are at the bill's prices, the lines of a billing period add up to its effective cost
CREATE OR REPLACE TEMP TABLE bill_lines AS
WITH priced AS (
    SELECT *, (price_per_hour * instance_hours)::DECIMAL(38, 9) AS billed_cost,
        (price_per_hour * (seen_ms / 3600000.0))::DECIMAL(38, 9) AS seen_cost,
        epoch_ms(from_ms)::DATE AS day
    FROM machine_hours
),
lines AS (
    SELECT CASE WHEN NOT has_node THEN 'instances_without_metrics' WHEN billed_cost >= seen_cost THEN 'outside_node_life' ELSE 'seen_beyond_billed_hours' END AS line,
        day, CASE WHEN has_node THEN node ELSE machine END AS node, billed_cost - seen_cost AS cost
    FROM priced
    WHERE price_per_hour IS NOT NULL
    UNION ALL
    -- a pool's price spreads its cost over its hours: over the pool nothing is left, unless another billing period corrects some of them
    SELECT CASE WHEN is_unexplained THEN 'billed_in_part' WHEN is_settled_elsewhere OR price_per_hour IS NULL THEN 'settled_in_other_periods' ELSE 'shared_in_pool' END, day, CASE WHEN has_node THEN node ELSE machine END, effective_cost - coalesce(billed_cost, 0)
    FROM priced
    UNION ALL
    -- of what metrics did not see, this is told apart
    SELECT 'outside_node_life', day, node, -cost FROM metric_lines WHERE line = 'not_collected'
)
SELECT line, day, node, sum(cost)::DECIMAL(38, 9) AS cost FROM lines GROUP BY ALL;
