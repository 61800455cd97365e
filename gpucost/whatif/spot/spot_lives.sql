-- reads: nodes, collected, allocations, series, states; $from_ms, $to_ms, $held_within_ms
-- writes: spot_lives, how long spot nodes were up in the period, and how many were taken in it: as AWS' termination handler or Karpenter names them while one is heard (is_named: all along), else those that ended within so long of a GPU pod that was not done
-- invariant: one row per (provider, instance_type, zone), which are never NULL but for the provider; ends that were not collected do not count
CREATE OR REPLACE TEMP TABLE spot_lives AS
WITH done AS (
    SELECT DISTINCT s.cluster, coalesce(s.labels['exported_uid'], s.labels['uid']) AS uid
    FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'kube_pod_status_phase' AND s.labels['phase'] = 'Succeeded' AND t.value = 1
),
-- what a cluster's termination handler did (with the node's name), and how many nodes of a NodePool Karpenter gave up
told AS (
    SELECT s.cluster, s.metric, s.labels['node_name'] AS node, s.labels['nodepool'] AS nodepool, t.first_ms, t.last_ms,
        CASE
            WHEN s.metric = 'actions_node_total' THEN t.value > 0 AND starts_with(s.labels['node_event_id'], 'spot-itn')
            -- a counter appears with its first event
            WHEN lag(t.value) OVER runs IS NULL THEN t.value > 0 AND c.from_ms < t.first_ms - $held_within_ms
            ELSE t.value <> lag(t.value) OVER runs AND t.value > 0
        END AS is_event
    FROM series AS s JOIN states AS t USING (series_id) JOIN (SELECT cluster, min(from_ms) AS from_ms FROM collected GROUP BY ALL) AS c USING (cluster)
    WHERE s.metric IN ('actions_node_total', 'karpenter_nodeclaims_disrupted_total', 'karpenter_nodeclaims_terminated')
    WINDOW runs AS (PARTITION BY s.series_id ORDER BY t.first_ms)
),
-- from its first word on a handler names every interruption of the cluster, Karpenter those of its NodePools
handled AS (
    SELECT cluster, metric LIKE 'karpenter_%' AS is_karpenter, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM told GROUP BY ALL
),
lives AS (
    SELECT n.node_id, n.cluster, n.node, n.labels['label_karpenter_sh_nodepool'] AS nodepool, n.up_from_ms, n.up_to_ms, n.provider,
        n.instance_type, coalesce(n.zone, '') AS zone,
        sum(least(n.up_to_ms, c.to_ms, $to_ms) - greatest(n.up_from_ms, c.from_ms, $from_ms)) AS up_ms,
        bool_or(c.from_ms < n.up_to_ms AND n.up_to_ms < least(c.to_ms - $held_within_ms, $to_ms)) AS is_over
    FROM nodes AS n JOIN collected AS c USING (cluster)
    WHERE n.capacity_type = 'spot' AND n.instance_type IS NOT NULL
        AND greatest(n.up_from_ms, c.from_ms, $from_ms) < least(n.up_to_ms, c.to_ms, $to_ms)
    GROUP BY ALL
),
named AS (
    SELECT l.node_id FROM lives AS l SEMI JOIN handled AS h ON h.cluster = l.cluster AND (NOT h.is_karpenter OR l.nodepool IS NOT NULL)
        AND h.first_ms <= l.up_to_ms AND l.up_to_ms <= h.last_ms + $held_within_ms
),
taken AS (
    -- Karpenter's counter knows the NodePool, not the node: those that ended right after it rose
    SELECT l.node_id FROM lives AS l SEMI JOIN told AS e ON e.cluster = l.cluster AND e.is_event AND $from_ms <= e.first_ms AND e.first_ms < $to_ms
        AND l.up_from_ms <= e.first_ms AND e.first_ms <= l.up_to_ms + $held_within_ms
        AND (e.node = l.node OR e.nodepool = l.nodepool AND l.is_over AND l.up_to_ms - $held_within_ms <= e.first_ms)
    UNION
    SELECT a.node_id
    FROM allocations AS a
    JOIN lives AS l USING (node_id)
    ANTI JOIN done AS d ON d.cluster = a.cluster AND d.uid = a.uid
    WHERE l.is_over AND l.node_id NOT IN (FROM named) AND a.gpus > 0 AND a.held_to_ms >= l.up_to_ms - $held_within_ms
)
SELECT provider, instance_type, zone, sum(up_ms)::BIGINT AS up_ms, count(*) FILTER (node_id IN (FROM taken)) AS ends,
    bool_and(node_id IN (FROM named)) AS is_named
FROM lives
GROUP BY ALL;
