-- reads: pods, pod_nodes, pod_units, node_facts
-- writes: pod_nodes: pods whose end is an estimate (the last sample plus one scrape interval) end when a successor was bound
-- invariant: held_from_ms < held_to_ms; an end moves only if the node would hold more than it has, and never before the last sample
UPDATE pod_nodes SET held_to_ms = contested.at_ms
FROM (
    WITH tails AS MATERIALIZED (
        SELECT n.cluster, n.uid, n.node_id, n.held_from_ms, greatest(p.sure_to_ms, n.held_from_ms + 1) AS sure_to_ms, n.held_to_ms
        FROM pod_nodes AS n JOIN pods AS p USING (cluster, uid)
        WHERE p.sure_to_ms < n.held_to_ms
    ),
    minutes AS (
        -- join by minute, not by comparing intervals
        SELECT *, unnest(range(sure_to_ms // 60000, held_to_ms // 60000 + 1)) AS minute FROM tails
    ),
    moments AS MATERIALIZED (
        SELECT DISTINCT t.node_id, s.held_from_ms AS at_ms
        FROM minutes AS t JOIN pod_nodes AS s ON s.node_id = t.node_id AND s.held_from_ms // 60000 = t.minute
        WHERE t.sure_to_ms <= s.held_from_ms AND s.held_from_ms < t.held_to_ms
    ),
    held AS MATERIALIZED (
        SELECT n.cluster, n.uid, n.node_id, n.held_from_ms, n.held_to_ms, sum(u.gpus) AS gpus
        FROM pod_nodes AS n JOIN pod_units AS u USING (cluster, uid)
        WHERE n.node_id IN (SELECT node_id FROM moments)
        GROUP BY ALL
    ),
    changes AS (
        SELECT node_id, at_ms, sum(gpus) AS gpus
        FROM (SELECT node_id, held_from_ms AS at_ms, gpus FROM held UNION ALL SELECT node_id, held_to_ms, -gpus FROM held)
        GROUP BY ALL
    ),
    levels AS (
        SELECT node_id, at_ms, sum(gpus) OVER (PARTITION BY node_id ORDER BY at_ms) AS gpus FROM changes
    ),
    excess AS (
        -- sevenths of a GPU do not add up exactly in binary
        SELECT m.node_id, m.at_ms, l.gpus - f.gpu_count - 1e-6 AS gpus
        FROM moments AS m JOIN levels AS l USING (node_id, at_ms) JOIN node_facts AS f USING (node_id)
        WHERE l.gpus - f.gpu_count > 1e-6
    ),
    in_order AS (
        -- the pod with the oldest last sample ends first, until the rest fits
        SELECT t.cluster, t.uid, e.at_ms, e.gpus - coalesce(sum(h.gpus) OVER (PARTITION BY e.node_id, e.at_ms
            ORDER BY t.sure_to_ms, t.uid ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS excess
        FROM excess AS e
        JOIN tails AS t ON t.node_id = e.node_id AND t.sure_to_ms <= e.at_ms AND e.at_ms < t.held_to_ms
        JOIN held AS h ON h.cluster = t.cluster AND h.uid = t.uid
    )
    SELECT cluster, uid, min(at_ms) AS at_ms FROM in_order WHERE excess > 0 GROUP BY ALL
) AS contested
WHERE contested.cluster = pod_nodes.cluster AND contested.uid = pod_nodes.uid;
