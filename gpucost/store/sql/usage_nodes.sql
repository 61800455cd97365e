-- reads: nodes, collected, usage_pods; $from_ms, $to_ms the period, $all_nodes whether nodes count on which nothing asked for ran
-- writes: nothing; answers one row per (node, stretch of collected time in the period it was up)
-- invariant: stretches of a node do not overlap
SELECT n.node_id, n.cluster, n.node, n.gpu_count, greatest(n.up_from_ms, c.from_ms, $from_ms) AS from_ms, least(n.up_to_ms, c.to_ms, $to_ms) AS to_ms,
    n.capacity_type, n.provider, n.region, n.zone, lower(n.labels['label_topology_k8s_aws_zone_id']) AS zone_id, n.instance_type, n.gpu_model
FROM nodes AS n JOIN collected AS c USING (cluster)
WHERE greatest(n.up_from_ms, c.from_ms, $from_ms) < least(n.up_to_ms, c.to_ms, $to_ms)
    AND ($all_nodes OR n.node_id IN (SELECT node_id FROM usage_pods))
ORDER BY n.cluster, n.node, from_ms;
