-- reads: report_cost_cells, nodes, allocations
-- writes: nothing; answers every combination of team, namespace and cluster there is in the period
-- invariant: a filter value that is in no row of this answer would select nothing
SELECT DISTINCT c.team, a.namespace, n.cluster
FROM (SELECT DISTINCT node_id, allocation_id, team FROM report_cost_cells) AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id;
