-- reads: allocations, unit_candidates, progress_series, progress_values, loads; $from_ms, $to_ms the period
-- writes: nothing; answers the epoch hours of workloads in which no request came: their counters were collected and stood still
-- invariant: in a quiet hour the counters of every pod of the workload are known from begin to end
WITH points AS (
    SELECT v.series_id, s.source, v.at_ms, v.value IS DISTINCT FROM lag(v.value) OVER (PARTITION BY v.series_id ORDER BY v.at_ms) AS moves
    FROM progress_values AS v JOIN progress_series AS s USING (series_id)
    WHERE s.kind = 'counter' AND s.unit IN ('request', 'prompt_token', 'generation_token')
),
lives AS (
    SELECT series_id, source, min(at_ms) AS first_ms, max(at_ms) AS last_ms FROM points GROUP BY ALL
),
counted AS (
    SELECT DISTINCT c.allocation_id,
        unnest(range((greatest(l.first_ms, o.from_ms) + 3599999) // 3600000, least(l.last_ms, o.to_ms) // 3600000)) AS hour
    FROM lives AS l JOIN unit_candidates AS c USING (series_id) JOIN loads AS o ON o.kind = 'progress' AND o.source = l.source
),
served AS (
    -- a sample counts requests that came before it
    SELECT DISTINCT c.cluster, c.namespace, c.workload, unnest([p.at_ms, p.at_ms - 300000]) // 3600000 AS hour
    FROM points AS p JOIN unit_candidates AS c USING (series_id)
    WHERE p.moves
),
held AS (
    SELECT a.cluster, a.namespace, a.workload, a.allocation_id,
        unnest(range(greatest(a.held_from_ms, $from_ms) // 3600000, (least(a.held_to_ms, $to_ms) + 3599999) // 3600000)) AS hour
    FROM allocations AS a SEMI JOIN unit_candidates AS c USING (cluster, namespace, workload)
    WHERE a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms
)
SELECT h.cluster, h.namespace, h.workload, h.hour
FROM held AS h
LEFT JOIN counted AS c USING (allocation_id, hour)
ANTI JOIN served AS s USING (cluster, namespace, workload, hour)
GROUP BY h.cluster, h.namespace, h.workload, h.hour
HAVING bool_and(c.allocation_id IS NOT NULL)
ORDER BY ALL;
