-- reads: allocations, allocation_traits, waste_saved, waste_last_active; variables waste_from_ms, waste_to_ms bound the period; $forgotten_after_ms
-- writes: waste_pods, one row per allocation of the period: its type, when it began to run, since when its pod's work is lost, since when its pod is forgotten
-- invariant: held_from_ms <= started_ms; lost_from_ms is null but of failed training and batch pods, forgotten_from_ms but of development pods
CREATE OR REPLACE TEMP TABLE waste_pods AS
WITH starts AS (
    -- where a pod has several allocations, it may still have been Pending in the second
    SELECT a.cluster, a.uid, coalesce(max(t.started_ms) FILTER (t.started_ms > a.held_from_ms), min(a.held_from_ms)) AS started_ms
    FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.workload_type = 'development'
    GROUP BY ALL
)
SELECT a.allocation_id, a.cluster, a.namespace, a.workload, a.pod, a.uid, a.node_id, a.resource, a.gpus, a.held_from_ms, a.held_to_ms,
    coalesce(t.workload_type, 'other') AS workload_type,
    coalesce(t.started_ms, a.held_from_ms) AS started_ms,
    -- with no epoch known, nothing is known to have been kept
    CASE WHEN t.failed AND t.workload_type IN ('training', 'batch') THEN coalesce(s.saved_ms, a.held_from_ms) END AS lost_from_ms,
    CASE WHEN t.workload_type = 'development'
        THEN greatest(b.started_ms, coalesce(l.active_to_ms, 0)) + $forgotten_after_ms END AS forgotten_from_ms
FROM allocations AS a
LEFT JOIN allocation_traits AS t USING (allocation_id)
LEFT JOIN waste_saved AS s ON s.cluster = a.cluster AND s.uid = a.uid
LEFT JOIN waste_last_active AS l ON l.cluster = a.cluster AND l.uid = a.uid
LEFT JOIN starts AS b ON b.cluster = a.cluster AND b.uid = a.uid
WHERE a.held_from_ms < getvariable('waste_to_ms') AND getvariable('waste_from_ms') < a.held_to_ms;
