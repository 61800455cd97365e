-- reads: pod_nodes, pod_requests, pod_parts, reservations, unit_shares
-- writes: pod_units, one row per (pod, resource): the physical GPUs it holds, and whether they are whole, slices or slots; claims are in claim_shares
-- invariant: gpus > 0
CREATE OR REPLACE TEMP TABLE pod_units AS
SELECT n.cluster, n.uid, r.resource, r.units, r.units * u.share AS gpus, u.profile IS NOT NULL AS sliced, u.shared
FROM pod_nodes AS n
JOIN pod_requests AS r USING (cluster, uid)
JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = r.resource
ANTI JOIN pod_parts AS q ON q.cluster = n.cluster AND q.uid = n.uid AND q.resource = r.resource
ANTI JOIN (FROM reservations WHERE gives_way) AS v ON v.cluster = n.cluster AND v.uid = n.uid
-- a unit's meaning at the pod's binding; otherwise the next one after it, otherwise the last one before it
QUALIFY row_number() OVER (PARTITION BY n.cluster, n.uid, r.resource
    ORDER BY u.to_ms <= n.held_from_ms, greatest(u.from_ms, n.held_from_ms), u.to_ms DESC) = 1
UNION ALL
SELECT cluster, uid, resource, units, gpus, false, true FROM pod_parts SEMI JOIN pod_nodes USING (cluster, uid);
