-- reads: pod_nodes, pod_requests, pods, unit_shares, node_devices, node_facts
-- writes: pod_units, one row per (pod, resource): the physical GPUs it holds, and whether they are whole, slices or slots
-- invariant: gpus > 0
CREATE OR REPLACE TEMP TABLE pod_units AS
SELECT n.cluster, n.uid, r.resource, r.units, r.units * u.share AS gpus, u.profile IS NOT NULL AS sliced, u.shared
FROM pod_nodes AS n
JOIN pod_requests AS r USING (cluster, uid)
JOIN unit_shares AS u USING (node_id, resource)
UNION ALL
SELECT n.cluster, n.uid, 'claim', count(DISTINCT (d.uuid, d.gpu_instance_id)),
    sum(DISTINCT CASE WHEN d.profile IS NULL THEN 1 ELSE regexp_extract(d.profile, '^([0-9]+)g', 1)::DOUBLE / f.mig_slices END)
        * count(DISTINCT (d.uuid, d.gpu_instance_id)) / count(DISTINCT d.profile IS NULL),
    bool_or(d.profile IS NOT NULL), false
FROM pod_nodes AS n
JOIN pods AS p USING (cluster, uid)
JOIN node_facts AS f USING (node_id)
JOIN node_devices AS d ON d.node_id = n.node_id AND d.namespace = p.namespace AND d.pod = p.pod AND d.by_claim
WHERE NOT EXISTS (FROM pod_requests AS r WHERE r.cluster = n.cluster AND r.uid = n.uid)
GROUP BY ALL;
