-- reads: cost_hourly, nodes, allocations; $from, $to bound the period
-- writes: nothing; answers every combination of team, namespace and cluster there is in the period
-- invariant: a filter value that is in no row of this answer would select nothing
SELECT DISTINCT c.team, a.namespace, n.cluster
FROM (SELECT DISTINCT node_id, allocation_id, team FROM cost_hourly WHERE from_ms >= $from AND to_ms <= $to) AS c
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = c.allocation_id;
