-- reads: allocations, unit_candidates, progress_series, progress_values, loads, collected; $from_ms, $to_ms the period
-- writes: nothing; returns the epoch hours of workloads without requests: their counters were collected and did not change
-- invariant: in a quiet hour the counters of every pod of the workload are known from begin to end
WITH points AS (
    SELECT series_id, source, at_ms, coalesce(lag(at_ms) OVER series, at_ms - 300000) AS before_ms,
        value IS DISTINCT FROM lag(value) OVER series AS moves
    FROM progress_values JOIN progress_series USING (series_id)
    WHERE kind = 'counter' AND unit IN ('request', 'prompt_token', 'generation_token')
    WINDOW series AS (PARTITION BY series_id ORDER BY at_ms)
),
lives AS (
    SELECT series_id, source, min(at_ms) AS first_ms, max(at_ms) AS last_ms FROM points GROUP BY ALL
),
counted AS (
    SELECT DISTINCT allocation_id,
        unnest(range((greatest(first_ms, from_ms) + 3599999) // 3600000, least(last_ms, to_ms) // 3600000)) AS hour
    FROM lives JOIN unit_candidates USING (series_id) JOIN loads USING (source)
    WHERE kind = 'progress'
),
served AS (
    -- requests can have come at any time between the two values: the counter may not have been read for hours
    SELECT DISTINCT cluster, namespace, workload, unnest(range(before_ms // 3600000, at_ms // 3600000 + 1)) AS hour
    FROM points JOIN unit_candidates USING (series_id)
    WHERE moves
),
held AS (
    SELECT cluster, namespace, workload, allocation_id,
        unnest(range(greatest(held_from_ms, $from_ms) // 3600000, (least(held_to_ms, $to_ms) + 3599999) // 3600000)) AS hour
    FROM allocations SEMI JOIN unit_candidates USING (cluster, namespace, workload)
    WHERE held_from_ms < $to_ms AND $from_ms < held_to_ms
)
SELECT held.cluster, namespace, workload, hour
FROM held LEFT JOIN counted AS c USING (allocation_id, hour)
LEFT JOIN collected AS s ON s.cluster = held.cluster AND s.from_ms <= hour * 3600000 AND (hour + 1) * 3600000 <= s.to_ms
ANTI JOIN served ON (served.cluster, served.namespace, served.workload, served.hour) = (held.cluster, held.namespace, held.workload, held.hour)
GROUP BY ALL
HAVING bool_and(c.allocation_id IS NOT NULL AND s.cluster IS NOT NULL)
ORDER BY ALL;
