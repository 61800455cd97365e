-- reads: waste_facts, finding_workloads
-- writes: nothing; answers the waste of each workload by bucket
-- invariant: sums are those of waste_facts of held GPU time
SELECT f.cluster, f.namespace, f.workload, f.bucket, sum(f.gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(f.cost)::DECIMAL(38, 9) AS cost
FROM waste_facts AS f SEMI JOIN finding_workloads AS w ON w.cluster = f.cluster AND w.namespace = f.namespace AND w.workload = f.workload
WHERE f.allocation_id IS NOT NULL
GROUP BY ALL
ORDER BY ALL;
