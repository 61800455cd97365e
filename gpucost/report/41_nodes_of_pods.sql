-- reads: cost_hourly, node_hourly, nodes, allocations; $from, $to bound the period, $teams, $namespaces, $clusters filter (empty: all)
-- writes: nothing; answers one row per price source of the nodes that the pods asked for ran on, weighed by what those pods cost
-- invariant: node_cost over all sources is cost over report_facts; capacity is the GPU time held, for want of a cost to weigh by
SELECT
    h.price_source,
    sum(c.allocated_gpu_ms) AS capacity,
    0                       AS over_allocated,
    sum(c.cost)             AS node_cost,
    min(h.price_as_of)      AS price_as_of
FROM cost_hourly AS c
JOIN node_hourly AS h USING (node_id, from_ms, to_ms)
JOIN nodes AS n USING (node_id)
JOIN allocations AS a ON a.allocation_id = c.allocation_id
WHERE c.from_ms >= $from AND c.to_ms <= $to
  AND (len($clusters::VARCHAR[]) = 0 OR list_contains($clusters::VARCHAR[], n.cluster))
  AND (len($namespaces::VARCHAR[]) = 0 OR list_contains($namespaces::VARCHAR[], a.namespace))
  AND (len($teams::VARCHAR[]) = 0 OR list_contains($teams::VARCHAR[], c.team))
GROUP BY h.price_source
ORDER BY h.price_source;
