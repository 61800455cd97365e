-- reads: pod_nodes, pod_requests, pods, unit_shares, node_devices, node_facts
-- writes: pod_units, one row per (pod, resource): the physical GPUs it holds, and whether they are whole, slices or slots
-- invariant: gpus > 0
CREATE OR REPLACE TEMP TABLE pod_units AS
SELECT n.cluster, n.uid, r.resource, r.units, r.units * u.share AS gpus, u.profile IS NOT NULL AS sliced, u.shared
FROM pod_nodes AS n
JOIN pod_requests AS r USING (cluster, uid)
JOIN unit_shares AS u ON u.node_id = n.node_id AND u.resource = r.resource
-- what a unit meant when the pod was bound; where that is not known, what it meant next, else what it had meant
QUALIFY row_number() OVER (PARTITION BY n.cluster, n.uid, r.resource
    ORDER BY u.to_ms <= n.held_from_ms, greatest(u.from_ms, n.held_from_ms), u.to_ms DESC) = 1
UNION ALL
SELECT cluster, uid, 'claim', count(*), sum(part), bool_or(sliced), false
FROM (
    SELECT DISTINCT n.cluster, n.uid, d.device_id, d.profile IS NOT NULL AS sliced,
        CASE WHEN d.profile IS NULL THEN 1 ELSE regexp_extract(d.profile, '^([0-9]+)g', 1)::DOUBLE / f.mig_slices END AS part
    FROM pod_nodes AS n
    JOIN pods AS p USING (cluster, uid)
    JOIN node_facts AS f USING (node_id)
    JOIN node_devices AS d ON d.node_id = n.node_id AND d.namespace = p.namespace AND d.pod = p.pod AND d.by_claim
        AND d.first_ms < n.held_to_ms AND n.held_from_ms <= d.last_ms
    ANTI JOIN pod_requests AS r ON r.cluster = n.cluster AND r.uid = n.uid AND is_accelerator(r.resource)
)
GROUP BY ALL;
