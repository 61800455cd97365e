-- reads: cost_rows, report_cost_cells, report_node_cells, nodes
-- writes: nothing; returns one row per node of the selected pods, the most expensive first: their part of its cost, the part of others, unallocated and not collected cost
-- invariant: cost + others_cost + unallocated_cost + not_collected_cost = node_cost; the costs by price source add up to node_cost too
WITH held AS (
    SELECT node_id, sum(allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS allocated_gpu_ms, sum(cost) AS cost, sum(estimated_cost) AS estimated_cost
    FROM cost_rows
    WHERE kind = 'allocated'
    GROUP BY node_id
),
whole AS (
    SELECT node_id, sum(cost) AS cost, sum(unallocated_cost) AS unallocated_cost, sum(not_collected_cost) AS not_collected_cost
    FROM report_cost_cells SEMI JOIN held USING (node_id)
    GROUP BY node_id
),
by_source AS (
    SELECT node_id, price_source, sum(node_cost) AS cost FROM report_node_cells SEMI JOIN held USING (node_id) GROUP BY ALL
),
sources AS (
    SELECT node_id, sum(cost) AS node_cost, map_from_entries(list({'k': price_source, 'v': cost} ORDER BY cost DESC, price_source)) AS node_cost_by_price_source
    FROM by_source
    GROUP BY node_id
)
SELECT n.node_id, n.cluster, n.node, n.machine_id, n.instance_type, n.capacity_type, n.gpu_model, n.gpu_count,
    h.allocated_gpu_ms, h.cost, h.estimated_cost, w.cost - h.cost AS others_cost, w.unallocated_cost, w.not_collected_cost, s.node_cost, s.node_cost_by_price_source
FROM held AS h
JOIN whole AS w USING (node_id)
JOIN sources AS s USING (node_id)
JOIN nodes AS n USING (node_id)
ORDER BY h.cost DESC, n.cluster, n.node, n.node_id;
