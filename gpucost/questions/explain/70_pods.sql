-- reads: cost_rows, allocations, nodes, activity_devices; $from_ms, $to_ms bound the period
-- writes: nothing; returns one row per pod and node, the most expensive first: its GPUs and times in the period, the devices that metrics name, and its cost
-- invariant: cost adds up to the cost of cost_rows
WITH held AS (
    SELECT allocation_id, sum(allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS allocated_gpu_ms, sum(active_gpu_ms::DECIMAL(38, 6))::DOUBLE AS active_gpu_ms, sum(idle_gpu_ms::DECIMAL(38, 6))::DOUBLE AS idle_gpu_ms,
        sum(unmeasured_gpu_ms::DECIMAL(38, 6))::DOUBLE AS unmeasured_gpu_ms, sum(cost) AS cost
    FROM cost_rows
    WHERE kind = 'allocated'
    GROUP BY allocation_id
),
devices AS (
    SELECT allocation_id, list_sort(list(DISTINCT rtrim(device, '/'))) AS devices FROM activity_devices WHERE kind = 'activity' GROUP BY allocation_id
)
SELECT a.cluster, a.namespace, a.pod, a.uid, n.node, greatest(a.held_from_ms, $from_ms) AS from_ms, least(a.held_to_ms, $to_ms) AS to_ms,
    a.gpus, coalesce(d.devices, []) AS devices, h.* EXCLUDE (allocation_id)
FROM held AS h
JOIN allocations AS a USING (allocation_id)
JOIN nodes AS n USING (node_id)
LEFT JOIN devices AS d USING (allocation_id)
ORDER BY h.cost DESC, from_ms, a.cluster, a.namespace, a.pod, a.uid, n.node;
