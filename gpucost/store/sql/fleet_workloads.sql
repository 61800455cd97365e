-- reads: cost_hourly, allocations
-- writes: nothing; answers cluster, namespace, workload and the cost of the GPUs each held
-- invariant: sums to the cost of held GPUs
SELECT a.cluster, a.namespace, a.workload, sum(c.cost)
FROM cost_hourly AS c JOIN allocations AS a USING (allocation_id)
GROUP BY ALL
ORDER BY ALL;
