-- reads: allocations, allocation_traits, cost_daily, cost_hourly, waste_saved; variables report_from_ms, report_to_ms bound the period; $forgotten_after_ms
-- writes: waste_pods, one row per allocation of the period: its type, when it began to run, since when its pod's work is lost, since when its pod is forgotten
-- invariant: held_from_ms <= started_ms; lost_from_ms is null but of failed training and batch pods, forgotten_from_ms but of development pods
CREATE OR REPLACE TEMP TABLE waste_pods AS
WITH pods AS (
    SELECT a.allocation_id, a.cluster, a.uid FROM allocations AS a JOIN allocation_traits AS t USING (allocation_id)
    WHERE t.workload_type = 'development'
    QUALIFY bool_or(a.held_from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < a.held_to_ms) OVER (PARTITION BY a.cluster, a.uid)
),
days AS (
    SELECT allocation_id, max(from_ms) AS from_ms, max(to_ms) AS to_ms
    FROM cost_daily SEMI JOIN pods USING (allocation_id)
    WHERE active_gpu_ms > 0
    GROUP BY ALL
),
-- of development pods that were ever active the end of the last active hour, in all of the store; a pod may have several allocations
last_active AS (
    SELECT p.cluster, p.uid, max(h.to_ms) AS active_to_ms
    FROM cost_hourly AS h JOIN pods AS p USING (allocation_id) JOIN days AS d ON d.allocation_id = h.allocation_id AND h.from_ms >= d.from_ms AND h.to_ms <= d.to_ms
    WHERE h.active_gpu_ms > 0
    GROUP BY ALL
),
starts AS (
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
LEFT JOIN last_active AS l ON l.cluster = a.cluster AND l.uid = a.uid
LEFT JOIN starts AS b ON b.cluster = a.cluster AND b.uid = a.uid
WHERE a.held_from_ms < getvariable('report_to_ms') AND getvariable('report_from_ms') < a.held_to_ms;
