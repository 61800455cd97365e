-- reads: report_node_cells, nodes; $clusters filters (empty: all)
-- writes: nothing; answers one row per price source: capacity, excess, node cost, and the oldest day its prices are of
-- invariant: node_cost over all sources is cost + unallocated_cost + not_collected_cost over report_facts, where no pod is filtered out
SELECT
    h.price_source,
    sum(h.capacity_gpu_ms::DECIMAL(38, 6))::DOUBLE       AS capacity,
    sum(h.over_allocated_gpu_ms::DECIMAL(38, 6))::DOUBLE AS over_allocated,
    sum(h.node_cost)                                     AS node_cost,
    min(h.price_as_of)                                   AS price_as_of
FROM report_node_cells AS h JOIN nodes AS n USING (node_id)
WHERE (len($clusters::VARCHAR[]) = 0 OR list_contains($clusters::VARCHAR[], n.cluster))
GROUP BY h.price_source
ORDER BY h.price_source;
