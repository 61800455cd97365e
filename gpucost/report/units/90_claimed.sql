-- reads: unit_pieces
-- writes: nothing; answers per claim (null: what nothing claims) and workload its cost and hours
-- invariant: sums over the answer are the sums over the claimed pods' cells
SELECT claim_id, cluster, namespace, workload, string_agg(DISTINCT team, ', ' ORDER BY team) AS team, sum(cost) AS cost, sum(idle_cost) AS idle_cost,
    sum(allocated_gpu_ms) AS allocated_gpu_ms, sum(active_gpu_ms) AS active_gpu_ms
FROM unit_pieces
GROUP BY claim_id, cluster, namespace, workload;
