-- reads: allocations, allocation_traits, cost_runs, activity_hours, progress_series, progress_values; variables report_from_ms, report_to_ms bound the period; $forgotten_after_ms
-- writes: waste_pods, one row per allocation of the period: its type, its start, and the times from which its pod's work is lost or its pod is forgotten
-- invariant: held_from_ms <= started_ms; lost_from_ms is null except for failed training and batch pods, forgotten_from_ms except for development pods
-- The work of a failed training or batch pod is saved up to the end of its last known epoch; later work is lost.
CREATE OR REPLACE TEMP TABLE waste_pods AS
WITH failed AS (
    -- one pod may have several allocations: its share of a claim changed
    SELECT a.cluster, a.uid, a.namespace, a.pod, a.workload, min(a.held_from_ms) AS held_from_ms, max(a.held_to_ms) AS held_to_ms
    FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.failed AND t.workload_type IN ('training', 'batch')
    GROUP BY ALL
    HAVING min(a.held_from_ms) < getvariable('report_to_ms') AND getvariable('report_from_ms') < max(a.held_to_ms)
),
places AS (
    SELECT DISTINCT cluster, namespace, workload, pod, unnest(list_distinct([workload, split_part(workload, '/', 2), pod])) AS name
    FROM allocations SEMI JOIN failed USING (cluster, namespace, workload)
),
series AS (
    SELECT series_id, cluster, namespace, workload IS NULL AS is_pod,
        trim(unnest(CASE WHEN workload IS NULL THEN string_split(pod, ',') ELSE [workload] END)) AS name
    FROM progress_series
    WHERE unit = 'epoch' AND NOT is_failure
),
series_of AS (
    -- a pod reports for its whole workload: in a distributed run often only the first rank counts
    SELECT DISTINCT s.series_id, p.cluster, p.namespace, p.workload, CASE WHEN s.is_pod THEN p.pod END AS pod
    FROM series AS s
    JOIN places AS p ON p.name = s.name AND p.cluster = coalesce(s.cluster, p.cluster) AND p.namespace = coalesce(s.namespace, p.namespace)
),
epochs AS (
    -- the end of an epoch raises the level; if a level marks the begin of an epoch, the previous one has ended; the
    -- first entry of a log is an end too
    SELECT v.series_id, v.at_ms,
        CASE WHEN s.kind = 'event' THEN v.value > 0
            ELSE coalesce(v.value > lag(v.value) OVER (PARTITION BY v.series_id ORDER BY v.at_ms),
                s.mapping IN ('mlflow', 'file') AND s.kind = 'gauge' AND s.marks = 'end' AND v.value = floor(v.value)) END AS ends
    FROM progress_values AS v JOIN progress_series AS s USING (series_id)
    WHERE v.series_id IN (SELECT series_id FROM series_of)
),
heard AS (
    SELECT f.cluster, f.uid, coalesce(t.pod = f.pod, false) AS is_own, max(e.at_ms) FILTER (e.ends) AS saved_ms
    FROM failed AS f
    JOIN series_of AS t USING (cluster, namespace, workload)
    JOIN epochs AS e ON e.series_id = t.series_id AND e.at_ms BETWEEN f.held_from_ms AND f.held_to_ms
    GROUP BY ALL
),
saved AS (
    SELECT cluster, uid, saved_ms
    FROM heard
    -- a pod's own counts take precedence
    QUALIFY saved_ms IS NOT NULL AND is_own = bool_or(is_own) OVER (PARTITION BY cluster, uid)
),
pods AS (
    SELECT a.allocation_id, a.cluster, a.uid FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.workload_type = 'development'
    QUALIFY bool_or(a.held_from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < a.held_to_ms) OVER (PARTITION BY a.cluster, a.uid)
),
-- end of the last active hour of each development pod that was ever active, over the whole store; a pod may have
-- several allocations
last_active AS (
    SELECT p.cluster, p.uid, max(h.from_ms + r.to_ms - r.from_ms) AS active_to_ms
    FROM pods AS p
    JOIN activity_hours AS h USING (allocation_id)
    JOIN cost_runs AS r ON r.allocation_id = h.allocation_id AND r.from_ms = h.run_from_ms
    WHERE h.measured_gpu_ms > h.idle_gpu_ms
    GROUP BY ALL
),
starts AS (
    -- a pod with several allocations may still have been Pending in the second
    SELECT a.cluster, a.uid, coalesce(max(t.started_ms) FILTER (t.started_ms > a.held_from_ms), min(a.held_from_ms)) AS started_ms
    FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.workload_type = 'development'
    GROUP BY ALL
)
SELECT a.allocation_id, a.cluster, a.namespace, a.workload, a.pod, a.uid, a.node_id, a.resource, a.gpus, a.held_from_ms, a.held_to_ms,
    coalesce(t.workload_type, 'other') AS workload_type,
    coalesce(t.started_ms, a.held_from_ms) AS started_ms,
    -- without a known epoch, all work is lost
    CASE WHEN t.failed AND t.workload_type IN ('training', 'batch') THEN coalesce(s.saved_ms, a.held_from_ms) END AS lost_from_ms,
    CASE WHEN t.workload_type = 'development'
        THEN greatest(b.started_ms, coalesce(l.active_to_ms, 0)) + $forgotten_after_ms END AS forgotten_from_ms
FROM allocations AS a
LEFT JOIN allocation_traits AS t USING (allocation_id)
LEFT JOIN saved AS s ON s.cluster = a.cluster AND s.uid = a.uid
LEFT JOIN last_active AS l ON l.cluster = a.cluster AND l.uid = a.uid
LEFT JOIN starts AS b ON b.cluster = a.cluster AND b.uid = a.uid
WHERE a.held_from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < a.held_to_ms;
