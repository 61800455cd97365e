-- reads: node_runs, nodes
-- writes: warnings (stored), one row per node that held more than it has, over all of the store
-- invariant: names the node and the time
INSERT INTO warnings BY NAME
SELECT 'over_allocated' AS code, n.cluster, n.node AS subject, min(h.from_ms) AS from_ms, max(h.to_ms + (h.hours - 1) * 3600000) AS to_ms,
    'pods held more GPUs than node ' || n.node || ' has between ' || strftime(epoch_ms(min(h.from_ms)), '%Y-%m-%dT%H:%M') || 'Z and '
        || strftime(epoch_ms(max(h.to_ms + (h.hours - 1) * 3600000)), '%Y-%m-%dT%H:%M') || 'Z: their cost is scaled to what the node costs' AS message,
    NULL AS fix
FROM node_runs AS h JOIN nodes AS n USING (node_id)
WHERE h.over_allocated_gpu_ms > 0
GROUP BY n.cluster, n.node;
