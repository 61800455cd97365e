-- reads: nodes, collected, allocations, series, states; $from_ms, $to_ms, $held_within_ms
-- writes: spot_lives, how long spot nodes were up in the period, and how many were taken in it: as AWS' termination handler names them while it is heard (is_named: all along), else those that ended within so long of a GPU pod that was not done
-- invariant: one row per (provider, instance_type, zone), which are never NULL but for the provider; ends that were not collected do not count
CREATE OR REPLACE TEMP TABLE spot_lives AS
WITH done AS (
    SELECT DISTINCT s.cluster, coalesce(s.labels['exported_uid'], s.labels['uid']) AS uid
    FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'kube_pod_status_phase' AND s.labels['phase'] = 'Succeeded' AND t.value = 1
),
-- while its handler exports metrics a cluster names every interruption, by the node and an event
handled AS (
    SELECT s.cluster, min(t.first_ms) AS first_ms, max(t.last_ms) AS last_ms FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'actions_node_total'
    GROUP BY ALL
),
named AS (
    SELECT DISTINCT s.cluster, s.labels['node_name'] AS node, t.first_ms AS at_ms FROM series AS s JOIN states AS t USING (series_id)
    WHERE s.metric = 'actions_node_total' AND starts_with(s.labels['node_event_id'], 'spot-itn') AND t.value > 0
        AND $from_ms <= t.first_ms AND t.first_ms < $to_ms
),
lives AS (
    SELECT n.node_id, n.cluster, n.node, n.up_from_ms, n.provider, n.instance_type, coalesce(n.zone, '') AS zone, n.up_to_ms,
        sum(least(n.up_to_ms, c.to_ms, $to_ms) - greatest(n.up_from_ms, c.from_ms, $from_ms)) AS up_ms,
        bool_or(c.from_ms < n.up_to_ms AND n.up_to_ms < least(c.to_ms - $held_within_ms, $to_ms)) AS is_over,
        bool_or(h.first_ms <= n.up_to_ms AND n.up_to_ms <= h.last_ms + $held_within_ms) IS TRUE AS is_named
    FROM nodes AS n JOIN collected AS c USING (cluster) LEFT JOIN handled AS h USING (cluster)
    WHERE n.capacity_type = 'spot' AND n.instance_type IS NOT NULL
        AND greatest(n.up_from_ms, c.from_ms, $from_ms) < least(n.up_to_ms, c.to_ms, $to_ms)
    GROUP BY ALL
),
taken AS (
    SELECT DISTINCT l.node_id FROM lives AS l JOIN named AS e ON e.cluster = l.cluster AND e.node = l.node
        AND l.up_from_ms <= e.at_ms AND e.at_ms <= l.up_to_ms + $held_within_ms
    UNION
    SELECT a.node_id
    FROM allocations AS a
    JOIN lives AS l USING (node_id)
    ANTI JOIN done AS d ON d.cluster = a.cluster AND d.uid = a.uid
    WHERE l.is_over AND NOT l.is_named AND a.gpus > 0 AND a.held_to_ms >= l.up_to_ms - $held_within_ms
)
SELECT provider, instance_type, zone, sum(up_ms)::BIGINT AS up_ms, count(*) FILTER (node_id IN (FROM taken)) AS ends,
    bool_and(is_named) AS is_named
FROM lives
GROUP BY ALL;
