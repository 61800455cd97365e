-- reads: unit_increases, unit_candidates, unit_processes, progress_series, progress_values, unit_days; $from_ms the begin of the period; $mappings and $weights, the weight per unit, otherwise $unit_weights by $units
-- writes: unit_work, the amount of work, its weight, and failures per workload, model, tenant, unit and local day; workload is null if unknown
-- invariant: sum(amount + failed) is the sum of the increases in the period
CREATE OR REPLACE TEMP TABLE unit_work AS
WITH quarters AS (
    SELECT series_id, at_ms // 900000 AS quarter, min(at_ms) AS at_ms, sum(amount) AS amount
    FROM unit_increases WHERE at_ms >= $from_ms GROUP BY ALL
    UNION ALL
    -- collected without any work all day: values are stored when they change
    SELECT l.series_id, greatest(l.first_ms, d.from_ms) // 900000, greatest(l.first_ms, d.from_ms), 0
    FROM (SELECT v.series_id, min(v.at_ms) AS first_ms, max(v.at_ms) AS last_ms FROM progress_values AS v JOIN progress_series AS s USING (series_id)
        WHERE list_contains($units::VARCHAR[], s.unit) AND s.kind <> 'gauge'
            AND s.identity NOT IN (SELECT identity FROM unit_processes WHERE process IS NULL)
        GROUP BY v.series_id) AS l
    JOIN unit_days AS d ON l.first_ms < d.to_ms AND l.last_ms >= d.from_ms
),
distances AS (
    SELECT q.*, c.cluster, c.namespace, c.workload, greatest(c.held_from_ms - q.at_ms, q.at_ms - c.held_to_ms, 0) AS distance_ms
    FROM quarters AS q
    -- pod names are reused: only the pod of that time matches
    LEFT JOIN unit_candidates AS c ON c.series_id = q.series_id
        AND (NOT c.is_pod OR (c.held_from_ms - 900000 <= q.at_ms AND q.at_ms <= c.held_to_ms + 900000))
),
placed AS (
    SELECT series_id, quarter, at_ms, amount, arg_min({'cluster': cluster, 'namespace': namespace, 'workload': workload}, (distance_ms, cluster, namespace, workload)) FILTER (workload IS NOT NULL) AS place
    FROM distances GROUP BY ALL
)
SELECT p.place.cluster AS cluster, p.place.namespace AS namespace, p.place.workload AS workload, coalesce(s.model, '') AS model, s.tenant, s.unit, d.day,
    CASE WHEN p.place IS NULL THEN coalesce(s.workload, s.namespace || '/' || s.pod, s.pod, s.mapping) END AS label,
    CASE WHEN p.place IS NULL THEN s.source END AS source,
    sum(CASE WHEN s.is_failure THEN 0 ELSE p.amount END) AS amount,
    sum(CASE WHEN s.is_failure THEN 0 ELSE p.amount * coalesce(
        list_extract($weights::DOUBLE[], list_position($mappings::VARCHAR[], s.mapping)),
        list_extract($unit_weights::DOUBLE[], list_position($units::VARCHAR[], s.unit))) END) AS weight,
    sum(CASE WHEN s.is_failure THEN p.amount ELSE 0 END) AS failed
FROM placed AS p
JOIN progress_series AS s USING (series_id)
JOIN unit_days AS d ON p.at_ms >= d.from_ms AND p.at_ms < d.to_ms
GROUP BY ALL;
