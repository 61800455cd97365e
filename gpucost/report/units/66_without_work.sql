-- reads: unit_cells, unit_candidates, unit_known
-- writes: nothing; answers what workloads cost of which no work is known, and whether other work than asked for is
-- invariant: with the workloads in unit_known these are all that were asked for
SELECT c.cluster, c.namespace, c.workload, string_agg(DISTINCT c.team, ', ' ORDER BY c.team) AS team, sum(c.cost) AS cost, sum(c.idle_cost) AS idle_cost,
    sum(c.allocated_gpu_ms) / 3600000 AS allocated_gpu_hours,
    bool_or(o.workload IS NOT NULL) AS has_other_work
FROM unit_cells AS c
LEFT JOIN (SELECT DISTINCT cluster, namespace, workload FROM unit_candidates) AS o USING (cluster, namespace, workload)
WHERE c.is_asked AND NOT EXISTS (FROM unit_known AS k WHERE k.cluster = c.cluster AND k.namespace = c.namespace AND k.workload = c.workload)
GROUP BY c.cluster, c.namespace, c.workload
ORDER BY cost DESC, c.cluster, c.namespace, c.workload;
