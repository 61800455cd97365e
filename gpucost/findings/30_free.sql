-- reads: waste_facts
-- writes: nothing; answers what nobody held by cluster, GPU model, capacity type and bucket, and on how many nodes
-- invariant: sums are those of waste_facts of free GPU time
SELECT cluster, coalesce(gpu_model, '') AS gpu_model, capacity_type, bucket,
    count(DISTINCT node) AS nodes, sum(gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost,
    arg_max(node, cost) AS dearest
FROM waste_facts
WHERE allocation_id IS NULL
GROUP BY ALL
ORDER BY ALL;
