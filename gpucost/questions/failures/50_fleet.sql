-- reads: hourly_node_costs, hourly_costs, nodes; $from_ms, $to_ms the period; $clusters filters (empty: all)
-- writes: nothing; returns one row per node, named with its cluster: its GPU time delivered, reserved by pods and in use
-- invariant: in_use_gpu_ms <= reserved_gpu_ms
SELECT n.cluster || '/' || n.node AS node, n.provider, n.gpu_model, total_ms(u.capacity_gpu_ms) AS delivered_gpu_ms,
    coalesce(total_ms(h.reserved_gpu_ms), 0) AS reserved_gpu_ms, coalesce(total_ms(h.in_use_gpu_ms), 0) AS in_use_gpu_ms
FROM (SELECT node_id, sum(capacity_gpu_ms) AS capacity_gpu_ms FROM hourly_node_costs($from_ms, $to_ms)
    GROUP BY ALL) AS u
JOIN nodes AS n USING (node_id)
LEFT JOIN (
    SELECT node_id, sum(allocated_gpu_ms) AS reserved_gpu_ms, sum(active_gpu_ms) AS in_use_gpu_ms
        FROM hourly_costs($from_ms, $to_ms) GROUP BY ALL
) AS h USING (node_id)
WHERE passes($clusters, n.cluster)
GROUP BY ALL;
