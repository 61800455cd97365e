-- reads: waste_rows, waste_pods, activity_use; $wasted lists the buckets that are waste; $most limits the rows
-- writes: nothing; returns the workloads with the highest cost of waste: their totals, the waste and its most expensive kind, and the numbers of GPUs requested, measured, never used
-- invariant: one row per (cluster, namespace, workload); never_used counts GPUs that were never in use in the period, for pods with several GPUs; null without measurements
WITH buckets AS (
    SELECT cluster, namespace, workload, bucket, total_ms(gpu_ms) AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost,
        list_contains($wasted::VARCHAR[], bucket) AS is_waste
    FROM waste_rows
    WHERE allocation_id IS NOT NULL
    GROUP BY ALL
),
types AS (
    SELECT cluster, namespace, workload, arg_max(workload_type, gpu_ms) AS workload_type, count(DISTINCT allocation_id) AS pods
    FROM waste_rows WHERE allocation_id IS NOT NULL GROUP BY ALL
),
workloads AS MATERIALIZED (
    SELECT cluster, namespace, workload, any_value(t.workload_type) AS workload_type, any_value(t.pods) AS pods,
        total_ms(b.gpu_ms) AS gpu_ms, sum(b.cost)::DECIMAL(38, 9) AS cost,
        coalesce(sum(b.gpu_ms::DECIMAL(38, 6)) FILTER (b.is_waste), 0)::DOUBLE AS wasted_gpu_ms,
        coalesce(sum(b.cost) FILTER (b.is_waste), 0)::DECIMAL(38, 9) AS wasted_cost,
        arg_max(b.bucket, (b.cost, b.gpu_ms)) FILTER (b.is_waste) AS bucket
    FROM buckets AS b JOIN types AS t USING (cluster, namespace, workload)
    GROUP BY ALL
    ORDER BY wasted_cost DESC, wasted_gpu_ms DESC, cluster, namespace, workload
    LIMIT $most::BIGINT
),
pods AS (
    SELECT w.cluster, w.namespace, w.workload, p.allocation_id, p.gpus
    FROM workloads AS w JOIN waste_pods AS p USING (cluster, namespace, workload)
    SEMI JOIN waste_rows AS f ON f.allocation_id = p.allocation_id
),
used AS (
    SELECT p.cluster, p.namespace, p.workload, count(*) AS gpus_measured, count(*) FILTER (p.gpus > 1 AND NOT u.is_used) AS gpus_never_used
    FROM pods AS p JOIN activity_use AS u USING (allocation_id)
    GROUP BY ALL
),
requested AS (
    SELECT cluster, namespace, workload, round(sum(gpus), 6) AS gpus_requested FROM pods GROUP BY ALL
)
SELECT w.*, a.gpus_requested, coalesce(u.gpus_measured, 0) AS gpus_measured, u.gpus_never_used
FROM workloads AS w
LEFT JOIN requested AS a USING (cluster, namespace, workload)
LEFT JOIN used AS u USING (cluster, namespace, workload)
ORDER BY wasted_cost DESC, wasted_gpu_ms DESC, cluster, namespace, workload;
