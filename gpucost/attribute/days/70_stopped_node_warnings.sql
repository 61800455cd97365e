-- reads: node_stops, nodes
-- writes: warnings (stored), one row per node and stretch of bridged time in which it did not run
-- invariant: stretches of one node and reason do not touch
INSERT INTO warnings BY NAME
WITH marked AS (
    SELECT s.*, coalesce(s.from_ms > lag(s.to_ms) OVER (PARTITION BY s.node_id, s.reason ORDER BY s.from_ms), true) AS begins
    FROM node_stops AS s
),
numbered AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY node_id, reason ORDER BY from_ms) AS number FROM marked
)
SELECT 'stopped_node' AS code, n.cluster, n.node AS subject, min(s.from_ms) AS from_ms, max(s.to_ms) AS to_ms,
    format('{:.1f} h of node {} are not charged: {}', (max(s.to_ms) - min(s.from_ms)) / 3600000, n.node,
        CASE s.reason WHEN 'boot' THEN 'it was started again while nothing was collected, and nothing shows that it ran before'
            ELSE 'nothing was collected then, and its bill has no such hours' END) AS message,
    NULL AS fix
FROM numbered AS s JOIN nodes AS n USING (node_id)
GROUP BY n.cluster, n.node, s.node_id, s.reason, s.number;
