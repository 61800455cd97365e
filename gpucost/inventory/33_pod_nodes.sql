-- reads: pods, node_facts
-- writes: pod_nodes, one row per pod with the node life it ran on; what it held is clipped to that life
-- invariant: one row per (cluster, uid); held_from_ms < held_to_ms within the node's life
CREATE OR REPLACE TEMP TABLE pod_nodes AS
WITH lives AS (
    SELECT p.cluster, p.uid, n.node_id,
        greatest(p.held_from_ms, n.up_from_ms) AS held_from_ms,
        least(p.held_to_ms, n.up_to_ms) AS held_to_ms
    FROM pods AS p JOIN node_facts AS n ON n.cluster = p.cluster AND n.node = p.node
)
SELECT cluster, uid,
    arg_max(node_id, held_to_ms - held_from_ms) AS node_id,
    arg_max(held_from_ms, held_to_ms - held_from_ms) AS held_from_ms,
    arg_max(held_to_ms, held_to_ms - held_from_ms) AS held_to_ms
FROM lives
WHERE held_from_ms < held_to_ms
GROUP BY ALL;
