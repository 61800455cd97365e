-- reads: waste_held, waste_free, waste_cells, waste_pods, allocations, nodes, time_buckets, label_spans; variable filters
-- writes: waste_rows, one row per (bucket, node, allocation, team, time_bucket): its GPU time and cost, and every dimension
-- invariant: without filters the costs of a node add up to its cost, exactly; docs/waste.md defines each bucket
CREATE OR REPLACE TEMP TABLE waste_rows AS
WITH parts AS (
    SELECT h.node_id, h.allocation_id, h.allocation_id AS of_id, h.team, h.time_bucket, p.workload_type, unnest([
        {'bucket': 'starting', 'gpu_ms': h.starting_gpu_ms, 'cost': h.starting_cost},
        {'bucket': CASE p.workload_type WHEN 'inference' THEN 'over_provisioned' ELSE 'forgotten' END,
            'gpu_ms': h.beyond_gpu_ms, 'cost': h.beyond_cost},
        {'bucket': CASE p.workload_type WHEN 'training' THEN 'data_stall' WHEN 'batch' THEN 'data_stall' WHEN 'inference' THEN 'off_peak_idle'
            WHEN 'development' THEN 'user_away' ELSE CASE p.resource WHEN 'reservation' THEN 'reserved' ELSE 'idle' END END, 'gpu_ms': h.idle_gpu_ms, 'cost': h.idle_cost},
        {'bucket': 'unmeasured', 'gpu_ms': h.unmeasured_gpu_ms, 'cost': h.unmeasured_cost},
        {'bucket': 'over_provisioned', 'gpu_ms': h.surplus_gpu_ms, 'cost': h.surplus_cost},
        {'bucket': 'failed_restarted', 'gpu_ms': h.lost_gpu_ms, 'cost': h.lost_cost},
        {'bucket': 'active', 'gpu_ms': h.work_gpu_ms, 'cost': h.work_cost},
        {'bucket': 'cpu_memory', 'gpu_ms': 0.0, 'cost': h.host_cost}
    ]) AS part
    FROM waste_held AS h JOIN waste_pods AS p USING (allocation_id)
    UNION ALL
    SELECT node_id, NULL, NULL, NULL, time_bucket, NULL, unnest([
        {'bucket': 'unavailable', 'gpu_ms': unavailable_gpu_ms, 'cost': unavailable_cost},
        {'bucket': 'fragmentation', 'gpu_ms': fragmentation_gpu_ms, 'cost': fragmentation_cost},
        {'bucket': 'empty_node', 'gpu_ms': empty_node_gpu_ms, 'cost': empty_node_cost},
        {'bucket': 'between_jobs', 'gpu_ms': between_jobs_gpu_ms, 'cost': between_jobs_cost},
        {'bucket': 'cpu_memory', 'gpu_ms': 0.0, 'cost': host_cost}
    ])
    FROM waste_free
    UNION ALL
    SELECT node_id, NULL, allocation_id, NULL, time_bucket, NULL, {'bucket': 'reserved', 'gpu_ms': unallocated_gpu_ms, 'cost': unallocated_cost}
    FROM waste_cells
    WHERE kind = 'unallocated' AND allocation_id IS NOT NULL
)
SELECT f.part.bucket AS bucket, f.part.gpu_ms AS gpu_ms, f.part.cost AS cost,
    f.allocation_id, n.cluster, p.namespace, f.team, p.workload, f.workload_type, p.pod, p.uid,
    a.account, a."user", a.partition, a.qos, CASE WHEN a.resource = 'reservation' THEN a.pod END AS reservation,
    n.node, n.gpu_model, n.capacity_type, n.region, n.zone, s.month, s.day, s.hour, l.labels
FROM parts AS f
JOIN nodes AS n USING (node_id)
JOIN time_buckets AS s ON s.from_ms = f.time_bucket
LEFT JOIN waste_pods AS p USING (allocation_id)
LEFT JOIN allocations AS a ON a.allocation_id = f.of_id
LEFT JOIN label_spans AS l ON l.node_id = f.node_id AND l.allocation_id IS NOT DISTINCT FROM f.allocation_id
    AND l.from_ms <= f.time_bucket AND f.time_bucket < l.to_ms
-- sums of binary fractions may leave a millisecond; money is never left out
WHERE (f.part.gpu_ms >= 1 OR f.part.cost <> 0)
    AND is_selected(n.cluster, p.namespace, f.team, p.workload, a."user", l.is_selected);
