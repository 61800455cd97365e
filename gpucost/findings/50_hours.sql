-- reads: cost_hourly, allocations, finding_workloads; $from_ms, $to_ms the period
-- writes: nothing; answers per hour how long each serving workload held GPUs, and how long they were active
-- invariant: one row per (cluster, namespace, workload, hour)
SELECT a.cluster, a.namespace, a.workload, c.from_ms // 3600000 AS hour, sum(c.active_gpu_ms::DECIMAL(38, 6))::DOUBLE AS active_gpu_ms, sum(c.idle_gpu_ms::DECIMAL(38, 6))::DOUBLE AS idle_gpu_ms
FROM cost_hourly AS c
JOIN allocations AS a USING (allocation_id)
JOIN finding_workloads AS w ON w.cluster = a.cluster AND w.namespace = a.namespace AND w.workload = a.workload
WHERE w.workload_type = 'inference' AND c.from_ms >= $from_ms AND c.to_ms <= $to_ms
GROUP BY ALL
ORDER BY ALL;
