-- reads: unit_cells
-- writes: nothing; answers per workload that was asked for what it cost, and how many pods it had
-- invariant: sum(cost) is what was asked for cost
SELECT cluster, namespace, workload, any_value(workload_type) AS workload_type, string_agg(DISTINCT team, ', ' ORDER BY team) AS team,
    count(DISTINCT allocation_id) AS pods, min(held_from_ms) AS from_ms, max(held_to_ms) AS to_ms, sum(cost) AS cost, sum(idle_cost) AS idle_cost,
    sum(allocated_gpu_ms) AS allocated_gpu_ms, sum(active_gpu_ms) AS active_gpu_ms
FROM unit_cells
WHERE is_asked
GROUP BY cluster, namespace, workload
ORDER BY cluster, namespace, workload;
