-- reads: cost_hourly, nodes, billed_nodes, machine_hours
-- writes: metric_lines, what was attributed to teams, left unallocated or not collected at the prices of the billing period's bill, by UTC day, node and team
-- invariant: estimates are no part of it
CREATE OR REPLACE TEMP TABLE metric_lines AS
WITH covered AS (
    SELECT b.node_id, m.from_ms, m.to_ms
    FROM machine_hours AS m JOIN billed_nodes AS b USING (instance_key)
    WHERE m.is_first AND m.price_per_hour IS NOT NULL
),
cells AS (
    SELECT c.kind, c.team, n.node, epoch_ms(c.from_ms)::DATE AS day, c.cost + c.unallocated_cost + c.not_collected_cost - c.estimated_cost AS cost
    FROM cost_hourly AS c
    JOIN nodes AS n USING (node_id)
    JOIN covered AS h ON h.node_id = c.node_id AND h.from_ms < c.to_ms AND c.from_ms < h.to_ms
)
SELECT CASE kind WHEN 'allocated' THEN 'attributed' ELSE kind END AS line, day, node, team, sum(cost)::DECIMAL(38, 9) AS cost
FROM cells
GROUP BY ALL;
