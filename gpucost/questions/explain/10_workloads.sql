-- reads: cost_rows, report_cost_cells, report_node_cells, nodes
-- writes: nothing; returns one row per workload and node, the most expensive first, with the sources of the node's prices
-- invariant: cost adds up to the cost of cost_rows
WITH sources AS (
    SELECT c.node_id, c.allocation_id, list_distinct(list(h.price_source)) AS sources
    FROM report_cost_cells AS c JOIN report_node_cells AS h USING (node_id, from_ms)
    WHERE c.allocation_id IN (SELECT allocation_id FROM cost_rows)
    GROUP BY ALL
)
SELECT f.cluster, f.namespace, f.workload, n.node,
    sum(f.allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS allocated_gpu_ms, sum(f.cost) AS cost, sum(f.estimated_cost) AS estimated_cost,
    coalesce(list_sort(list_distinct(flatten(list(s.sources)))), []) AS price_sources
FROM cost_rows AS f
JOIN nodes AS n USING (node_id)
LEFT JOIN sources AS s USING (node_id, allocation_id)
WHERE f.kind = 'allocated'
GROUP BY f.cluster, f.namespace, f.workload, n.node, n.node_id
ORDER BY cost DESC, f.cluster, f.namespace, f.workload, n.node, n.node_id;
