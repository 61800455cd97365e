-- reads: progress_series, progress_values, unit_candidates; $to_ms the end of the period
-- writes: unit_levels, per run and moment the level that its live processes had reached; workload is null where none is known
-- invariant: ranks of a distributed run, replicas of a server and a target scraped twice are one run
CREATE OR REPLACE TEMP TABLE unit_levels AS
WITH points AS (
    SELECT v.series_id, v.at_ms, v.value,
        coalesce(lead(v.at_ms) OVER (PARTITION BY v.series_id ORDER BY v.at_ms), v.at_ms + 1) AS to_ms
    FROM progress_values AS v JOIN progress_series AS s USING (series_id)
    WHERE s.unit = 'epoch' AND s.kind <> 'event' AND NOT s.is_failure AND v.at_ms < $to_ms
),
places AS (
    SELECT p.series_id, p.at_ms, arg_min({'cluster': c.cluster, 'namespace': c.namespace, 'workload': c.workload},
        (greatest(c.held_from_ms - p.at_ms, p.at_ms - c.held_to_ms, 0), c.cluster, c.namespace, c.workload)) AS place
    FROM points AS p
    JOIN unit_candidates AS c ON c.series_id = p.series_id
        AND (NOT c.is_pod OR (c.held_from_ms - 900000 <= p.at_ms AND p.at_ms <= c.held_to_ms + 900000))
    GROUP BY ALL
),
placed AS (
    SELECT p.at_ms, p.to_ms, p.value, l.place.cluster AS cluster, l.place.namespace AS namespace, l.place.workload AS workload,
        CASE WHEN l.place IS NULL THEN coalesce(s.workload, s.namespace || '/' || s.pod, s.pod, s.mapping) END AS told,
        -- each Job of a CronJob is a run of its own; Kubernetes names it CronJob-minute, and its pods Job-letters
        coalesce(s.run_id, CASE WHEN starts_with(l.place.workload, 'CronJob/') THEN regexp_extract(s.pod, '^(.+-[0-9]{8,})-', 1) END, '') AS run_id,
        s.run_id IS NOT NULL AS is_tracked, s.source, s.mapping, s.kind, s.marks, s.resumes, s.pod
    FROM points AS p JOIN progress_series AS s USING (series_id) LEFT JOIN places AS l USING (series_id, at_ms)
),
chosen AS (
    -- a tracker's runs say more than a metric of the same workload; of two metrics one tells the epochs
    SELECT * FROM placed
    QUALIFY workload IS NULL OR (
        mapping = min(mapping) OVER (PARTITION BY cluster, namespace, workload, run_id)
        AND (is_tracked OR NOT bool_or(is_tracked) OVER (PARTITION BY cluster, namespace, workload)))
),
moments AS (
    SELECT DISTINCT cluster, namespace, workload, told, run_id, at_ms FROM chosen
    UNION
    SELECT DISTINCT cluster, namespace, workload, told, run_id, to_ms FROM chosen
)
SELECT m.cluster, m.namespace, m.workload, m.told, m.run_id, m.at_ms, max(c.value) AS level,
    any_value(c.source) AS source, any_value(c.mapping) AS mapping, any_value(c.kind) AS kind, any_value(c.marks) AS marks,
    bool_or(c.resumes) AS resumes, string_agg(DISTINCT c.pod, ',') AS pod
FROM moments AS m
JOIN chosen AS c ON c.cluster IS NOT DISTINCT FROM m.cluster AND c.namespace IS NOT DISTINCT FROM m.namespace
    AND c.workload IS NOT DISTINCT FROM m.workload AND c.told IS NOT DISTINCT FROM m.told AND c.run_id = m.run_id
    AND c.at_ms <= m.at_ms AND m.at_ms < c.to_ms
GROUP BY m.cluster, m.namespace, m.workload, m.told, m.run_id, m.at_ms;
