-- reads: report_cost_cells, report_node_cells, nodes, allocations; $teams, $namespaces, $clusters filter (empty: all)
-- writes: nothing; answers the GPU models and capacity types of which pods held GPU time on nodes without a price
-- invariant: each combination at most once
SELECT DISTINCT n.gpu_model, n.capacity_type
FROM report_cost_cells AS c
JOIN report_node_cells AS h USING (node_id, from_ms)
JOIN nodes AS n USING (node_id)
JOIN allocations AS a ON a.allocation_id = c.allocation_id
WHERE h.price_source = 'none' AND c.allocated_gpu_ms > 0
  AND (len($clusters::VARCHAR[]) = 0 OR list_contains($clusters::VARCHAR[], n.cluster))
  AND (len($namespaces::VARCHAR[]) = 0 OR list_contains($namespaces::VARCHAR[], a.namespace))
  AND (len($teams::VARCHAR[]) = 0 OR list_contains($teams::VARCHAR[], c.team));
