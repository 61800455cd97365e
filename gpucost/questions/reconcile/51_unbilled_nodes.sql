-- reads: hourly_costs, nodes; $from_ms, $to_ms the billing period's days in UTC
-- writes: nothing; returns the nodes with hours that no bill covers, with their estimated cost, the most expensive first
-- invariant: cost is the estimated part of the nodes' cost
SELECT n.node AS name, n.instance_type,
    coalesce(sum((c.allocated_gpu_ms + c.unallocated_gpu_ms + c.not_collected_gpu_ms) / n.gpu_count) FILTER (c.estimated_cost <> 0) / 3600000, 0) AS hours,
    sum(c.estimated_cost) AS cost
FROM hourly_costs($from_ms, $to_ms) AS c JOIN nodes AS n USING (node_id)
GROUP BY n.cluster, n.node, n.instance_type, n.machine_id
HAVING sum(c.estimated_cost) <> 0
ORDER BY cost DESC, n.cluster, n.node;
