-- reads: node_hourly, cost_hourly, nodes
-- writes: nothing; answers one row: node cost, cost, unallocated cost, GPU-ms offered, GPU-ms held, node-ms
-- invariant: cost + unallocated cost = node cost
SELECT
    (SELECT coalesce(sum(node_cost), 0) FROM node_hourly),
    coalesce(sum(cost), 0), coalesce(sum(unallocated_cost), 0),
    (SELECT coalesce(sum(capacity_gpu_ms), 0) FROM node_hourly),
    coalesce(sum(allocated_gpu_ms), 0),
    (SELECT coalesce(sum(up_to_ms - up_from_ms), 0) FROM nodes)
FROM cost_hourly;
