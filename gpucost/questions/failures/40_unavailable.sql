-- reads: incidents, hourly_costs; $from_ms, $to_ms the period
-- writes: incident_losses, one row per incident: unavailable GPU time and its cost
-- invariant: the cost of all incidents is the unavailable time's part of the nodes' unallocated cost, exactly
CREATE OR REPLACE TEMP TABLE incident_losses AS
WITH cells AS (
    SELECT node_id, from_ms, to_ms, unavailable_gpu_ms, least(unallocated_cost, (unallocated_cost * (unavailable_gpu_ms / unallocated_gpu_ms))::DECIMAL(38, 9)) AS cost
    FROM hourly_costs($from_ms, $to_ms)
    WHERE kind = 'unallocated' AND allocation_id IS NULL AND unavailable_gpu_ms > 0
),
parts AS (
    SELECT i.incident_id, c.*, least(c.to_ms, i.absent_to_ms) - greatest(c.from_ms, i.absent_from_ms) AS ms,
        sum(ms) OVER (PARTITION BY c.node_id, c.from_ms) AS all_ms, sum(ms) OVER (PARTITION BY c.node_id, c.from_ms ORDER BY i.incident_id) AS up_to_ms
    FROM cells AS c JOIN incidents AS i ON i.node_id = c.node_id AND i.absent_from_ms < c.to_ms AND c.from_ms < i.absent_to_ms
)
SELECT incident_id, sum((unavailable_gpu_ms * (ms / all_ms))::DECIMAL(38, 6))::DOUBLE AS unavailable_gpu_ms,
    sum((cost * (up_to_ms / all_ms))::DECIMAL(38, 9) - (cost * ((up_to_ms - ms) / all_ms))::DECIMAL(38, 9)) AS unavailable_cost
FROM parts GROUP BY incident_id;
