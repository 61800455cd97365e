-- reads: progress_series, progress_values, allocations, allocation_traits; variables report_from_ms, report_to_ms bound the period
-- writes: waste_saved, one row per failed training or batch pod of which an epoch is known to have ended: when the last one did
-- invariant: held_from_ms <= saved_ms <= held_to_ms; what was done by then is kept, what came after it is lost
CREATE OR REPLACE TEMP TABLE waste_saved AS
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
told AS (
    -- a pod tells of its whole workload: of a distributed run it is often the first rank alone that counts
    SELECT DISTINCT s.series_id, p.cluster, p.namespace, p.workload, CASE WHEN s.is_pod THEN p.pod END AS pod
    FROM series AS s
    JOIN places AS p ON p.name = s.name AND p.cluster = coalesce(s.cluster, p.cluster) AND p.namespace = coalesce(s.namespace, p.namespace)
),
epochs AS (
    -- an epoch that ends lifts the level; where a level begins an epoch, the one before has ended; the first entry of a log is an end, too
    SELECT v.series_id, v.at_ms,
        CASE WHEN s.kind = 'event' THEN v.value > 0
            ELSE coalesce(v.value > lag(v.value) OVER (PARTITION BY v.series_id ORDER BY v.at_ms),
                s.mapping IN ('mlflow', 'file') AND s.kind = 'gauge' AND s.marks = 'end' AND v.value = floor(v.value)) END AS ends
    FROM progress_values AS v JOIN progress_series AS s USING (series_id)
    WHERE v.series_id IN (SELECT series_id FROM told)
),
heard AS (
    SELECT f.cluster, f.uid, coalesce(t.pod = f.pod, false) AS is_own, max(e.at_ms) FILTER (e.ends) AS saved_ms
    FROM failed AS f
    JOIN told AS t USING (cluster, namespace, workload)
    JOIN epochs AS e ON e.series_id = t.series_id AND e.at_ms BETWEEN f.held_from_ms AND f.held_to_ms
    GROUP BY ALL
)
SELECT cluster, uid, saved_ms
FROM heard
-- what a pod counts itself is what it knows to have done
QUALIFY saved_ms IS NOT NULL AND is_own = bool_or(is_own) OVER (PARTITION BY cluster, uid);
