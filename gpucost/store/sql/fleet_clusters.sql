-- reads: node_daily, cost_daily, nodes
-- writes: nothing; answers one row per cluster: its name, node cost, cost, unallocated cost, GPU-ms offered, GPU-ms held, node-ms
-- invariant: cost + unallocated cost = node cost
WITH offered AS (
    SELECT n.cluster, sum(h.node_cost) AS node_cost, sum(h.capacity_gpu_ms::DECIMAL(38, 6)) AS offered_ms
    FROM node_daily AS h JOIN nodes AS n USING (node_id) GROUP BY ALL
),
held AS (
    SELECT n.cluster, sum(c.cost) AS cost, sum(c.unallocated_cost) AS unallocated_cost, sum(c.allocated_gpu_ms::DECIMAL(38, 6)) AS held_ms
    FROM cost_daily AS c JOIN nodes AS n USING (node_id) GROUP BY ALL
)
SELECT n.cluster, coalesce(any_value(o.node_cost), 0), coalesce(any_value(h.cost), 0), coalesce(any_value(h.unallocated_cost), 0),
    coalesce(any_value(o.offered_ms), 0)::DOUBLE, coalesce(any_value(h.held_ms), 0)::DOUBLE, sum(n.up_to_ms - n.up_from_ms)
FROM nodes AS n
LEFT JOIN offered AS o USING (cluster)
LEFT JOIN held AS h USING (cluster)
GROUP BY n.cluster
ORDER BY n.cluster;
