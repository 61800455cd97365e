-- reads: cost_hourly, cost_daily, node_daily, nodes, allocations, allocation_traits
-- writes: costs, daily_costs, daily_node_costs: views of the attributed result, for queries of the store (docs/store.md)
-- invariant: sums over costs equal sums over cost_hourly, sums over daily_costs equal sums over cost_daily; the views
-- store no data

CREATE VIEW costs AS
SELECT
    epoch_ms(c.from_ms) AS from_time, epoch_ms(c.to_ms) AS to_time, c.kind, c.team, n.cluster, a.namespace, a.workload, t.workload_type, a.pod, a.uid,
    n.node, n.provider, n.region, n.zone, n.instance_type, n.gpu_model, n.capacity_type,
    c.allocated_gpu_ms / 3600000 AS allocated_gpu_hours, c.active_gpu_ms / 3600000 AS active_gpu_hours, c.idle_gpu_ms / 3600000 AS idle_gpu_hours,
    c.unmeasured_gpu_ms / 3600000 AS unmeasured_gpu_hours, c.unallocated_gpu_ms / 3600000 AS unallocated_gpu_hours,
    c.unavailable_gpu_ms / 3600000 AS unavailable_gpu_hours,
    c.cost, c.idle_cost, c.unallocated_cost, c.estimated_cost
FROM cost_hourly AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN allocation_traits AS t ON t.allocation_id = c.allocation_id;

CREATE VIEW daily_costs AS
SELECT
    epoch_ms(c.from_ms) AS from_time, epoch_ms(c.to_ms) AS to_time, c.kind, c.team, n.cluster, a.namespace, a.workload, t.workload_type, a.pod, a.uid,
    n.node, n.provider, n.region, n.zone, n.instance_type, n.gpu_model, n.capacity_type,
    c.allocated_gpu_ms / 3600000 AS allocated_gpu_hours, c.active_gpu_ms / 3600000 AS active_gpu_hours, c.idle_gpu_ms / 3600000 AS idle_gpu_hours,
    c.unmeasured_gpu_ms / 3600000 AS unmeasured_gpu_hours, c.unallocated_gpu_ms / 3600000 AS unallocated_gpu_hours,
    c.unavailable_gpu_ms / 3600000 AS unavailable_gpu_hours,
    c.cost, c.idle_cost, c.unallocated_cost, c.estimated_cost
FROM cost_daily AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN allocation_traits AS t ON t.allocation_id = c.allocation_id;

CREATE VIEW daily_node_costs AS
SELECT
    epoch_ms(c.from_ms) AS from_time, epoch_ms(c.to_ms) AS to_time, n.cluster, n.node, n.provider, n.region, n.zone, n.instance_type, n.gpu_model, n.capacity_type,
    c.capacity_gpu_ms / 3600000 AS capacity_gpu_hours, c.over_allocated_gpu_ms / 3600000 AS over_allocated_gpu_hours,
    c.node_cost, c.price_source, c.price_as_of
FROM node_daily AS c JOIN nodes AS n USING (node_id);
