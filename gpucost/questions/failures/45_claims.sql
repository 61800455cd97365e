-- reads: incident_stops; $stops and $starts list stops and the moments since which epochs were lost
-- writes: unit_claims, one row per stopped pod with known progress: its lost time
-- invariant: epochs take precedence over requests and checkpoints
CREATE OR REPLACE TEMP TABLE unit_claims AS
SELECT s.stop_id AS claim_id, 0 AS depth, s.allocation_id, coalesce(c.start_ms, s.complete_ms) AS from_ms,
    s.stop_ms AS to_ms
FROM incident_stops AS s
LEFT JOIN (SELECT unnest($stops::BIGINT[]) AS stop_id, unnest($starts::BIGINT[]) AS start_ms) AS c USING (stop_id)
WHERE coalesce(c.start_ms, s.complete_ms) IS NOT NULL;
