-- reads: nodes, collected, allocations, series, states; $held_within_ms, $half_life_ms
-- writes: spot_evidence, one row per (provider, instance_type, zone) with weighted figures: node-hours of spot nodes, reclaims that a termination handler or Karpenter witnessed, hours with at least one node, and ends (ends within 15 minutes are one)
-- invariant: evidence counts whole at the end of collected time and half as much each $half_life_ms before; unexplained ends with unfinished pods are among ends, never among reclaims
CREATE OR REPLACE TEMP TABLE spot_evidence AS
WITH until AS (
    SELECT max(to_ms) AS now_ms, $half_life_ms / ln(2) AS life_ms FROM collected
),
done AS (
    SELECT DISTINCT s.cluster, coalesce(s.labels['exported_uid'], s.labels['uid']) AS uid
    FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'kube_pod_status_phase' AND s.labels['phase'] = 'Succeeded' AND t.value = 1
),
-- actions of a cluster's termination handler (with the node's name), and Karpenter's counts of disrupted nodes by NodePool
reported AS (
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
-- from its first report on a handler names every interruption in the cluster, Karpenter every one in its NodePools
handled AS (
    SELECT cluster, metric LIKE 'karpenter_%' AS is_karpenter, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM reported GROUP BY ALL
),
parts AS (
    SELECT n.node_id, n.cluster, n.node, n.labels['label_karpenter_sh_nodepool'] AS nodepool, n.up_from_ms, n.up_to_ms, n.provider,
        n.instance_type, coalesce(n.zone, '') AS zone, greatest(n.up_from_ms, c.from_ms) AS from_ms, least(n.up_to_ms, c.to_ms) AS to_ms,
        c.from_ms < n.up_to_ms AND n.up_to_ms < c.to_ms - $held_within_ms AS is_over
    FROM nodes AS n JOIN collected AS c USING (cluster)
    WHERE n.capacity_type = 'spot' AND n.instance_type IS NOT NULL AND greatest(n.up_from_ms, c.from_ms) < least(n.up_to_ms, c.to_ms)
),
lives AS (
    SELECT node_id, cluster, node, nodepool, up_from_ms, up_to_ms, provider, instance_type, zone, bool_or(is_over) AS is_over FROM parts GROUP BY ALL
),
handled_lives AS (
    SELECT l.node_id FROM lives AS l SEMI JOIN handled AS h ON h.cluster = l.cluster AND (NOT h.is_karpenter OR l.nodepool IS NOT NULL)
        AND h.first_ms <= l.up_to_ms AND l.up_to_ms <= h.last_ms + $held_within_ms
),
witnessed AS (
    -- Karpenter's counter has the NodePool, not the node: nodes of the pool that ended right after it rose
    SELECT l.node_id FROM lives AS l SEMI JOIN reported AS e ON e.cluster = l.cluster AND e.is_event
        AND l.up_from_ms <= e.first_ms AND e.first_ms <= l.up_to_ms + $held_within_ms
        AND (e.node = l.node OR e.nodepool = l.nodepool AND l.is_over AND l.up_to_ms - $held_within_ms <= e.first_ms)
),
unexplained AS (
    SELECT DISTINCT l.node_id
    FROM allocations AS a
    JOIN lives AS l USING (node_id)
    ANTI JOIN done AS d ON d.cluster = a.cluster AND d.uid = a.uid
    WHERE l.is_over AND l.node_id NOT IN (FROM handled_lives) AND a.gpus > 0 AND a.held_to_ms >= l.up_to_ms - $held_within_ms
),
ends AS (
    SELECT *, node_id IN (FROM witnessed) AS is_witnessed,
        up_to_ms - lag(up_to_ms, 1, -900001) OVER (PARTITION BY provider, instance_type, zone ORDER BY up_to_ms) > 900000 AS is_first
    FROM lives WHERE node_id IN (FROM witnessed UNION FROM unexplained)
),
ends_of AS (
    SELECT provider, instance_type, zone, sum(exp((up_to_ms - now_ms) / life_ms)) FILTER (is_witnessed) AS reclaims,
        sum(exp((up_to_ms - now_ms) / life_ms)) FILTER (is_first) AS ends
    FROM ends CROSS JOIN until GROUP BY ALL
),
-- a node that begins after all earlier nodes ended starts new hours of the pool
islands AS (
    SELECT *, count(*) FILTER (from_ms > latest_ms) OVER (PARTITION BY provider, instance_type, zone ORDER BY from_ms, to_ms) AS island
    FROM (
        SELECT *, max(to_ms) OVER (PARTITION BY provider, instance_type, zone ORDER BY from_ms, to_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS latest_ms
        FROM parts
    )
),
pools AS (
    SELECT provider, instance_type, zone, sum(life_ms * (exp((to_ms - now_ms) / life_ms) - exp((from_ms - now_ms) / life_ms))) / 3600000 AS hours
    FROM (SELECT provider, instance_type, zone, island, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM islands GROUP BY ALL) CROSS JOIN until
    GROUP BY ALL
),
hours AS (
    SELECT provider, instance_type, zone, sum(life_ms * (exp((to_ms - now_ms) / life_ms) - exp((from_ms - now_ms) / life_ms))) / 3600000 AS node_hours
    FROM parts CROSS JOIN until GROUP BY ALL
)
SELECT h.provider, h.instance_type, h.zone, h.node_hours, coalesce(e.reclaims, 0) AS reclaims, p.hours AS pool_hours, coalesce(e.ends, 0) AS ends
FROM hours AS h
JOIN pools AS p ON p.provider IS NOT DISTINCT FROM h.provider AND (p.instance_type, p.zone) = (h.instance_type, h.zone)
LEFT JOIN ends_of AS e ON e.provider IS NOT DISTINCT FROM h.provider AND (e.instance_type, e.zone) = (h.instance_type, h.zone);
