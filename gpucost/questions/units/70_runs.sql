-- reads: progress_series, progress_values, unit_candidates, unit_run_places, allocations, allocation_traits, collected, loads; $from_ms, $to_ms the period
-- writes: nothing; returns one row per run: the levels that its live processes reached and their times, the tracker's data, its start and end, and its place if it had no cost; workload is null if unknown
-- invariant: ranks of a distributed run, replicas of a server and a target scraped twice are one run
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
        CASE WHEN l.place IS NULL THEN coalesce(s.workload, s.namespace || '/' || s.pod, s.pod, s.mapping) END AS label,
        -- each Job of a CronJob is a run of its own; Kubernetes names it CronJob-minute, and its pods Job-letters
        coalesce(s.run_id, CASE WHEN starts_with(l.place.workload, 'CronJob/') THEN regexp_extract(s.pod, '^(.+-[0-9]{8,})-', 1) END, '') AS run_id,
        s.run_id IS NOT NULL AS is_tracked, s.source, s.mapping, s.kind, s.marks, s.resumes, s.pod
    FROM points AS p JOIN progress_series AS s USING (series_id) LEFT JOIN places AS l USING (series_id, at_ms)
),
chosen AS (
    -- a tracker's runs take precedence over a metric of the same workload; if two metrics exist, one gives the epochs
    SELECT * FROM placed
    QUALIFY workload IS NULL OR (
        mapping = min(mapping) OVER (PARTITION BY cluster, namespace, workload, run_id)
        AND (is_tracked OR NOT bool_or(is_tracked) OVER (PARTITION BY cluster, namespace, workload)))
),
moments AS (
    SELECT DISTINCT cluster, namespace, workload, label, run_id, at_ms FROM chosen
    UNION
    SELECT DISTINCT cluster, namespace, workload, label, run_id, to_ms FROM chosen
),
levels AS (
    SELECT m.cluster, m.namespace, m.workload, m.label, m.run_id, m.at_ms, max(c.value) AS level,
        any_value(c.source) AS source, any_value(c.mapping) AS mapping, any_value(c.kind) AS kind, any_value(c.marks) AS marks,
        bool_or(c.resumes) AS resumes, string_agg(DISTINCT c.pod, ',') AS pod
    FROM moments AS m
    JOIN chosen AS c ON c.cluster IS NOT DISTINCT FROM m.cluster AND c.namespace IS NOT DISTINCT FROM m.namespace
        AND c.workload IS NOT DISTINCT FROM m.workload AND c.label IS NOT DISTINCT FROM m.label AND c.run_id = m.run_id
        AND c.at_ms <= m.at_ms AND m.at_ms < c.to_ms
    GROUP BY m.cluster, m.namespace, m.workload, m.label, m.run_id, m.at_ms
),
runs AS (
    SELECT cluster, namespace, workload, label, run_id, min(at_ms) AS first_ms, max(at_ms) AS last_ms, max(level) AS highest,
        list(at_ms ORDER BY at_ms) AS moments, list(level ORDER BY at_ms) AS levels,
        arg_min(source, at_ms) AS source, arg_min(mapping, at_ms) AS mapping, arg_min(kind, at_ms) AS kind,
        arg_min(marks, at_ms) AS marks, arg_min(resumes, at_ms) AS resumes,
        CASE WHEN run_id = '' THEN '' ELSE array_to_string(list_sort(list_distinct(flatten(list(string_split(pod, ',')) FILTER (pod <> '')))), ',') END AS pods
    FROM levels
    GROUP BY cluster, namespace, workload, label, run_id
),
held AS (
    SELECT a.cluster, a.namespace, a.workload, min(a.held_from_ms) AS held_from_ms, max(a.held_to_ms) AS held_to_ms,
        coalesce(arg_max(t.failed, a.held_to_ms), false) AS failed
    FROM allocations AS a LEFT JOIN allocation_traits AS t USING (allocation_id)
    GROUP BY ALL
),
known AS (
    SELECT r.*, coalesce(p.name, nullif(r.run_id, ''), r.workload) AS name, p.parent_id, p.planned_epochs,
        CASE WHEN p.run_id IS NOT NULL THEN 'tracked' WHEN r.run_id <> '' THEN 'named' ELSE 'workload' END AS origin,
        p.started_ms, p.ended_ms, p.status, h.held_from_ms, h.held_to_ms, h.failed AS pods_failed,
        coalesce((SELECT max(c.to_ms) FROM collected AS c WHERE c.cluster = r.cluster), $to_ms) AS collected_to_ms,
        coalesce((SELECT min(l.from_ms) FROM loads AS l WHERE l.kind = 'progress' AND l.source = r.source), 0) AS progress_from_ms
    FROM runs AS r
    LEFT JOIN (FROM unit_run_places QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY source) = 1) AS p USING (run_id)
    LEFT JOIN held AS h ON h.cluster = r.cluster AND h.namespace = r.namespace AND h.workload = r.workload
),
spans AS (
    SELECT *,
        CASE origin WHEN 'tracked' THEN started_ms WHEN 'named' THEN first_ms ELSE held_from_ms END AS from_ms,
        CASE origin WHEN 'tracked' THEN coalesce(ended_ms, collected_to_ms) WHEN 'named' THEN last_ms ELSE held_to_ms END AS until_ms,
        CASE origin WHEN 'tracked' THEN ended_ms IS NOT NULL WHEN 'named' THEN true ELSE held_to_ms < least(collected_to_ms, $to_ms) END AS is_over,
        -- a file is complete; metrics are known only for collected time
        CASE origin WHEN 'tracked' THEN true WHEN 'named' THEN false ELSE mapping = 'file' OR progress_from_ms <= held_from_ms END AS from_zero
    FROM known
)
SELECT cluster, namespace, workload, run_id, name, parent_id, planned_epochs, pods, moments, levels, marks, from_ms,
    greatest(until_ms, from_ms) AS to_ms, is_over, from_zero, resumes AND kind = 'counter' AS resumes,
    is_over AND CASE origin WHEN 'tracked' THEN status IS DISTINCT FROM 'FINISHED' WHEN 'named' THEN false ELSE pods_failed END AS failed,
    -- the values are log entries of the run, one per epoch
    mapping IN ('mlflow', 'file') AND kind = 'gauge' AS is_log,
    -- clocks and scrapes differ
    workload IS NOT NULL AND (origin <> 'workload' OR (first_ms <= held_to_ms + 900000 AND held_from_ms - 900000 <= last_ms)) AS has_place,
    last_ms >= $from_ms AS is_new,
    {
        'workload': coalesce(workload, label), 'namespace': NULL, 'model': NULL, 'unit': 'epoch', 'amount': trunc(highest)::BIGINT, 'failed': 0,
        'since': first_ms, 'source': source,
        'why': CASE WHEN workload IS NULL THEN 'no GPU pod has this name' ELSE 'its pods had no cost then' END
    } AS without_cost
FROM spans
ORDER BY cluster, namespace, workload, label, run_id;
