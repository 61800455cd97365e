-- reads: pods, node_facts
-- writes: pod_nodes, one row per pod with the node life it ran on; its held time is clipped to that life
-- invariant: one row per (cluster, uid); held_from_ms < held_to_ms within the node's life
CREATE OR REPLACE TEMP TABLE pod_nodes AS
WITH lives AS (
    SELECT p.cluster, p.uid, n.node_id,
        greatest(p.held_from_ms, n.up_from_ms) AS held_from_ms,
        least(p.held_to_ms, n.up_to_ms) AS held_to_ms
    FROM pods AS p
    JOIN node_facts AS n ON n.cluster = p.cluster AND n.node = p.node
        -- a pod bound before the node began was bound to another node of that name, with or without samples
        AND coalesce(n.created_ms <= p.held_from_ms + 120000, true)
)
SELECT cluster, uid,
    -- a pod never moves: of several nodes with one name, it ran on the first
    arg_min(node_id, held_from_ms) AS node_id,
    min(held_from_ms) AS held_from_ms,
    arg_min(held_to_ms, held_from_ms) AS held_to_ms
FROM lives
WHERE held_from_ms < held_to_ms
GROUP BY ALL;
