-- reads: waste_facts; $wasted lists the buckets that are waste; $most limits the rows
-- writes: waste_workloads, the workloads that waste most money: what they held, what of it was waste, and the dearest kind of waste
-- invariant: one row per (cluster, namespace, workload)
CREATE OR REPLACE TEMP TABLE waste_workloads AS
WITH buckets AS (
    SELECT cluster, namespace, workload, bucket, sum(gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost,
        list_contains($wasted::VARCHAR[], bucket) AS is_waste
    FROM waste_facts
    WHERE allocation_id IS NOT NULL
    GROUP BY ALL
),
types AS (
    SELECT cluster, namespace, workload, arg_max(workload_type, gpu_ms) AS workload_type, count(DISTINCT allocation_id) AS pods
    FROM waste_facts WHERE allocation_id IS NOT NULL GROUP BY ALL
)
SELECT cluster, namespace, workload, any_value(t.workload_type) AS workload_type, any_value(t.pods) AS pods,
    sum(b.gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(b.cost)::DECIMAL(38, 9) AS cost,
    coalesce(sum(b.gpu_ms::DECIMAL(38, 6)) FILTER (b.is_waste), 0)::DOUBLE AS wasted_gpu_ms,
    coalesce(sum(b.cost) FILTER (b.is_waste), 0)::DECIMAL(38, 9) AS wasted_cost,
    arg_max(b.bucket, (b.cost, b.gpu_ms)) FILTER (b.is_waste) AS bucket
FROM buckets AS b JOIN types AS t USING (cluster, namespace, workload)
GROUP BY ALL
ORDER BY wasted_cost DESC, wasted_gpu_ms DESC, cluster, namespace, workload
LIMIT $most::BIGINT;
