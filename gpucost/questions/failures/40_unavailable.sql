-- reads: incidents, incident_signs, hourly_costs; $from_ms, $to_ms the period
-- writes: incident_losses, one row per incident: unavailable GPU time and its cost
-- invariant: the cost of all incidents is the unavailable time's part of the nodes' unallocated cost, exactly; an hour of several incidents is divided by their GPU time without available GPUs
CREATE OR REPLACE TEMP TABLE incident_losses AS
WITH cells AS (
    SELECT node_id, from_ms, to_ms, unavailable_gpu_ms,
        least(unallocated_cost, (unallocated_cost * (unavailable_gpu_ms / unallocated_gpu_ms))::DECIMAL(38, 9)) AS cost
    FROM hourly_costs($from_ms, $to_ms)
    WHERE kind = 'unallocated' AND allocation_id IS NULL AND unavailable_gpu_ms > 0
),
spans AS (
    SELECT DISTINCT i.incident_id, s.node_id, s.cause, s.from_ms, s.to_ms, s.gpus
    FROM (SELECT incident_id, node_id, unnest(sessions) AS session FROM incidents) AS i
    JOIN incident_signs AS s ON s.node_id = i.node_id AND s.kind = i.session.kind AND s.number = i.session.number
),
weights AS (
    SELECT s.incident_id, c.node_id, c.from_ms, c.unavailable_gpu_ms, c.cost,
        sum((least(c.to_ms, s.to_ms) - greatest(c.from_ms, s.from_ms)) * s.gpus) AS weight
    FROM cells AS c JOIN spans AS s ON s.node_id = c.node_id AND s.from_ms < c.to_ms AND c.from_ms < s.to_ms
    GROUP BY ALL
),
parts AS (
    SELECT *, sum(weight) OVER (PARTITION BY node_id, from_ms) AS whole, sum(weight)
        OVER (PARTITION BY node_id, from_ms ORDER BY incident_id) AS up_to FROM weights
)
SELECT incident_id, total_ms(unavailable_gpu_ms * (weight / whole)) AS unavailable_gpu_ms,
    sum((cost * (up_to / whole))::DECIMAL(38,
        9) - (cost * ((up_to - weight) / whole))::DECIMAL(38, 9)) AS unavailable_cost
FROM parts GROUP BY incident_id;
