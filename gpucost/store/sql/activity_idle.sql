-- reads: activity_runs, allocations; $at_least_ms
-- writes: nothing; answers rows (cluster, uid, from_ms, to_ms): stretches of at least $at_least_ms in which every device of a pod was idle
-- invariant: stretches of a pod do not meet; a pod of which a device is not measured has none
WITH pods AS (
    SELECT a.allocation_id, a.cluster, a.uid, count(DISTINCT r.device) AS devices
    FROM activity_runs AS r JOIN allocations AS a USING (allocation_id)
    GROUP BY ALL
    HAVING devices >= any_value(CASE WHEN contains(a.resource, '_mig_') THEN a.units WHEN a.gpus >= 1 THEN ceil(a.gpus - 1e-6) ELSE 1 END)
),
islands AS (
    SELECT allocation_id, device, min(from_ms) AS from_ms, max(until_ms) AS until_ms
    FROM (
        SELECT *, sum(starts) OVER (PARTITION BY allocation_id, device ORDER BY from_ms, until_ms) AS island
        FROM (
            SELECT *, (from_ms > coalesce(max(until_ms) OVER (PARTITION BY allocation_id, device ORDER BY from_ms, until_ms
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1))::INTEGER AS starts
            FROM activity_runs WHERE idle AND from_ms < until_ms
        )
    )
    GROUP BY allocation_id, device, island
),
events AS (
    SELECT allocation_id, at_ms, sum(step) AS step
    FROM (
        SELECT allocation_id, from_ms AS at_ms, 1 AS step FROM islands
        UNION ALL
        SELECT allocation_id, until_ms, -1 FROM islands
    )
    GROUP BY ALL
),
depths AS (
    SELECT allocation_id, at_ms, sum(step) OVER w AS depth, lead(at_ms) OVER w AS next_ms
    FROM events WINDOW w AS (PARTITION BY allocation_id ORDER BY at_ms)
)
SELECT p.cluster, p.uid, d.at_ms AS from_ms, d.next_ms AS to_ms
FROM depths AS d JOIN pods AS p USING (allocation_id)
WHERE d.depth >= p.devices AND d.next_ms - d.at_ms >= $at_least_ms
ORDER BY ALL;
