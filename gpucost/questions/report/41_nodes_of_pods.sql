-- reads: report_cost_cells, report_node_cells, nodes, allocations, label_spans; variable filters; `part` names the team in a report on each team
-- writes: nothing; returns one row per price source of the nodes of the selected pods, weighted by the cost of those pods
-- invariant: node_cost over all sources is cost over cost_rows; capacity is the allocated GPU time, the weight without a cost
SELECT
    part_of(c.team) AS part,
    h.price_source          AS source,
    total_ms(c.allocated_gpu_ms) AS capacity_gpu_ms,
    0                       AS over_allocated_gpu_ms,
    sum(c.cost)             AS node_cost,
    min(h.price_as_of)      AS as_of
FROM report_cost_cells AS c
JOIN (
    -- on a day with several sources, the one with most of the cost counts
    SELECT node_id, from_ms, arg_max(price_source, node_cost) AS price_source, min(price_as_of) AS price_as_of
    FROM report_node_cells
    GROUP BY ALL
) AS h USING (node_id, from_ms)
JOIN nodes AS n USING (node_id)
JOIN allocations AS a ON a.allocation_id = c.allocation_id
LEFT JOIN label_spans AS l ON l.node_id = c.node_id AND l.allocation_id IS NOT DISTINCT FROM c.allocation_id
    AND l.from_ms <= c.from_ms AND c.from_ms < l.to_ms
WHERE is_selected(n.cluster, a.namespace, c.team, a.workload, a."user", l.is_selected)
GROUP BY part, h.price_source
ORDER BY part, h.price_source;
