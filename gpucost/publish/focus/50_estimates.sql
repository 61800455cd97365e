-- reads: cost_hourly, nodes, allocations; $from_ms, $to_ms the billing period in UTC
-- writes: focus_estimates, what no bill covers, by UTC day, node and holder
-- invariant: the costs add up to estimated_cost of the period
CREATE OR REPLACE TEMP TABLE focus_estimates AS
SELECT c.from_ms // 86400000 * 86400000 AS from_ms, c.kind AS holder, c.team, n.cluster, n.node, coalesce(n.machine_id, n.cluster || '/' || n.node) AS machine,
    n.provider, n.region, n.zone, n.instance_type, n.gpu_model, n.capacity_type, a.namespace, a.workload,
    sum(c.estimated_cost)::DECIMAL(38, 12) AS cost,
    -- of a cell that a bill covers in part, the part that it does not
    sum(((c.allocated_gpu_ms + c.unallocated_gpu_ms + c.not_collected_gpu_ms) * (c.estimated_cost / (c.cost + c.unallocated_cost + c.not_collected_cost)))::DECIMAL(38, 6)) / 3600000 AS gpu_hours
FROM cost_hourly AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
WHERE c.from_ms >= $from_ms AND c.from_ms < $to_ms AND c.estimated_cost <> 0
GROUP BY ALL;
