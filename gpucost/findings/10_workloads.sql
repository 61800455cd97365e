-- reads: cost_hourly, allocations, allocation_traits, nodes; $from_ms, $to_ms the period
-- writes: finding_workloads, one row per workload of the period: whose it is, what it held and how busy it was, and until when
-- invariant: one row per (cluster, namespace, workload); costs are those of cost_hourly
CREATE OR REPLACE TEMP TABLE finding_workloads AS
SELECT a.cluster, a.namespace, a.workload,
    arg_max(c.team, c.from_ms) AS team,
    arg_max(coalesce(t.workload_type, 'other'), c.allocated_gpu_ms) AS workload_type,
    max(a.gpus) AS gpus_per_pod,
    count(DISTINCT a.allocation_id) AS pods,
    greatest(min(a.held_from_ms), $from_ms) AS from_ms,
    least(max(a.held_to_ms), $to_ms) AS to_ms,
    sum(c.allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS held_gpu_ms,
    sum(c.active_gpu_ms::DECIMAL(38, 6))::DOUBLE AS active_gpu_ms,
    sum(c.idle_gpu_ms::DECIMAL(38, 6))::DOUBLE AS idle_gpu_ms,
    sum(c.utilization_gpu_ms::DECIMAL(38, 6))::DOUBLE AS utilization_gpu_ms,
    max(c.to_ms) FILTER (c.active_gpu_ms > 0) AS active_to_ms,
    sum(c.cost)::DECIMAL(38, 9) AS cost,
    sum(c.idle_cost)::DECIMAL(38, 9) AS idle_cost,
    coalesce(sum(c.cost) FILTER (n.capacity_type = 'on_demand'), 0)::DECIMAL(38, 9) AS on_demand_cost,
    coalesce(sum(c.allocated_gpu_ms::DECIMAL(38, 6)) FILTER (n.capacity_type = 'on_demand'), 0)::DOUBLE AS on_demand_gpu_ms
FROM cost_hourly AS c
JOIN allocations AS a USING (allocation_id)
JOIN nodes AS n ON n.node_id = c.node_id
LEFT JOIN allocation_traits AS t USING (allocation_id)
WHERE c.from_ms >= $from_ms AND c.to_ms <= $to_ms AND a.gpus > 0
GROUP BY a.cluster, a.namespace, a.workload;
