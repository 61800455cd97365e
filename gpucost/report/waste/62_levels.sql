-- reads: waste_workloads, waste_facts, waste_pods, nodes, gpu_models, activity_devices, blocks
-- writes: nothing; answers waste_workloads with what is measured of their GPUs: how many were asked for, heard, never used; how busy in the middle and in the busiest hours; memory
-- invariant: never_used counts GPUs of pods of several at 0 % for as long as they were held in the period; percentiles are of device-hours, 0-1; null where nothing was heard
WITH pods AS (
    SELECT w.cluster, w.namespace, w.workload, p.allocation_id, p.gpus,
        -- a slice has a part of its GPU's memory
        CASE WHEN NOT contains(p.resource, '_mig_') THEN m.memory_mib END AS memory_mib
    FROM waste_workloads AS w JOIN waste_pods AS p USING (cluster, namespace, workload)
    JOIN nodes AS n USING (node_id)
    LEFT JOIN gpu_models AS m USING (gpu_model)
    SEMI JOIN waste_facts AS f ON f.allocation_id = p.allocation_id
),
heard AS (
    SELECT p.cluster, p.namespace, p.workload, p.allocation_id, p.gpus, d.device, d.kind, b.samples, b.value_sum,
        b.value_sum / b.samples * d.scale AS level
    FROM pods AS p
    JOIN activity_devices AS d USING (allocation_id)
    JOIN blocks AS b ON b.series_id = d.series_id AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
),
devices AS (
    SELECT cluster, namespace, workload, allocation_id, device, any_value(gpus) AS gpus, sum(value_sum) = 0 AS never
    FROM heard
    WHERE kind = 'activity'
    GROUP BY ALL
),
used AS (
    SELECT cluster, namespace, workload, count(*) AS gpus_measured, count(*) FILTER (never AND gpus > 1) AS gpus_never_used
    FROM devices
    GROUP BY ALL
),
levels AS (
    SELECT cluster, namespace, workload,
        quantile_cont(level, 0.5) FILTER (kind = 'activity') AS p50,
        quantile_cont(level, 0.95) FILTER (kind = 'activity') AS p95,
        quantile_cont(level, 0.95) FILTER (kind = 'memory') AS memory_mib_p95
    FROM heard
    GROUP BY ALL
),
asked AS (
    SELECT cluster, namespace, workload, sum(gpus) AS gpus_requested, max(memory_mib) AS gpu_memory_mib FROM pods GROUP BY ALL
)
SELECT w.*, a.gpus_requested, a.gpu_memory_mib, coalesce(u.gpus_measured, 0) AS gpus_measured, u.gpus_never_used, l.p50, l.p95, l.memory_mib_p95
FROM waste_workloads AS w
LEFT JOIN asked AS a USING (cluster, namespace, workload)
LEFT JOIN used AS u USING (cluster, namespace, workload)
LEFT JOIN levels AS l USING (cluster, namespace, workload)
ORDER BY wasted_cost DESC, wasted_gpu_ms DESC, cluster, namespace, workload;
