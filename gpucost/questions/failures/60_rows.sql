-- reads: incidents, incident_losses, incident_stops, unit_claims, unit_pieces
-- writes: nothing; returns one row per incident, by time: with its unavailable and lost cost, and the longest time until a stopped workload ran again
-- invariant: cost = unavailable_cost + lost_cost; lost_cost is null if the progress of all stopped pods is unknown
WITH pieces AS (
    SELECT claim_id, sum(cost) AS cost FROM unit_pieces WHERE claim_id IS NOT NULL GROUP BY claim_id
),
stops AS (
    SELECT s.incident_id, max(s.again_ms - s.stop_ms) / 1000 AS restart_seconds,
        CASE WHEN count(c.claim_id) > 0 THEN coalesce(sum(p.cost), 0) END AS lost_cost,
        count(*) FILTER (c.claim_id IS NULL) AS stops_of_unknown_progress
    FROM incident_stops AS s
    LEFT JOIN unit_claims AS c ON c.claim_id = s.stop_id
    LEFT JOIN pieces AS p ON p.claim_id = s.stop_id
    GROUP BY s.incident_id
)
SELECT i.*, coalesce(l.unavailable_gpu_ms, 0) AS unavailable_gpu_ms,
    coalesce(l.unavailable_cost, 0)::DECIMAL(38, 9) AS unavailable_cost,
    s.lost_cost::DECIMAL(38, 9) AS lost_cost, coalesce(s.stops_of_unknown_progress, 0) AS stops_of_unknown_progress,
        s.restart_seconds, (coalesce(l.unavailable_cost, 0) + coalesce(s.lost_cost, 0))::DECIMAL(38, 9) AS cost
FROM incidents AS i
LEFT JOIN incident_losses AS l USING (incident_id)
LEFT JOIN stops AS s USING (incident_id)
ORDER BY i.incident_id;
