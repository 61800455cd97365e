-- reads: hourly_costs, nodes, billed_nodes; $from_ms, $to_ms the billing period's days in UTC
-- writes: nothing; returns the nodes with hours that no bill covers, with their cost at estimated and at final prices, the most expensive first
-- invariant: the cost of a node on no bill is its estimated and its final part
SELECT n.node AS name, n.instance_type,
    coalesce(sum((c.allocated_gpu_ms + c.unallocated_gpu_ms + c.not_collected_gpu_ms) / n.gpu_count) / 3600000, 0) AS hours,
    sum(c.part) AS cost, c.is_final
FROM (
    SELECT *, unnest([
        {'is_final': false, 'part': estimated_cost},
        {'is_final': true, 'part': cost + unallocated_cost + not_collected_cost - estimated_cost}
    ], recursive := true)
    FROM hourly_costs($from_ms, $to_ms)
) AS c
JOIN nodes AS n USING (node_id)
WHERE c.part <> 0 AND NOT (c.is_final AND n.node_id IN (SELECT node_id FROM billed_nodes))
GROUP BY n.cluster, n.node, n.instance_type, n.machine_id, c.is_final
ORDER BY cost DESC, n.cluster, n.node;
