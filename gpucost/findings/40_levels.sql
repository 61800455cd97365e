-- reads: allocations, cost_hourly, activity_devices, blocks; $from_ms, $to_ms the period
-- writes: nothing; answers per workload how busy its GPUs were in the busiest hours, and how many GPUs of its pods of several were never used
-- invariant: p95 is of device-hours, 0-1; unused_gpu_ms is the part of the GPU time held, as the cost cells have it, of GPUs at 0 % all the while
WITH held AS (
    SELECT allocation_id, sum(allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms
    FROM cost_hourly
    WHERE allocation_id IS NOT NULL AND from_ms >= $from_ms AND to_ms <= $to_ms
    GROUP BY allocation_id
),
heard AS (
    SELECT a.cluster, a.namespace, a.workload, a.allocation_id, a.gpus, h.gpu_ms / a.gpus AS held_ms, d.device,
        b.value_sum, b.value_sum / b.samples * d.scale AS level
    FROM activity_devices AS d
    JOIN allocations AS a USING (allocation_id)
    JOIN held AS h USING (allocation_id)
    JOIN blocks AS b ON b.series_id = d.series_id AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
    WHERE d.kind = 'activity' AND a.gpus > 0
),
devices AS (
    SELECT cluster, namespace, workload, allocation_id, device, any_value(gpus) AS gpus, any_value(held_ms) AS held_ms, sum(value_sum) = 0 AS never
    FROM heard GROUP BY ALL
),
pods AS (
    SELECT cluster, namespace, workload, allocation_id, any_value(gpus) AS gpus, any_value(held_ms) AS held_ms,
        count(*) FILTER (never) AS unused, count(*) FILTER (NOT never) AS used
    FROM devices GROUP BY ALL
),
unused AS (
    SELECT cluster, namespace, workload, max(gpus) AS asked, max(used) AS most_used, sum(unused * held_ms) AS unused_gpu_ms
    FROM pods
    -- a pod that used no GPU at all is idle, and no question of how many
    WHERE gpus > 1 AND used > 0 AND unused > 0
    GROUP BY ALL
),
busy AS (
    SELECT cluster, namespace, workload, quantile_cont(level, 0.95) AS p95 FROM heard GROUP BY ALL
)
SELECT b.*, u.asked, u.most_used, coalesce(u.unused_gpu_ms, 0) AS unused_gpu_ms
FROM busy AS b LEFT JOIN unused AS u USING (cluster, namespace, workload)
ORDER BY ALL;
