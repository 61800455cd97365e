-- reads: unbound_requests, pods, pod_requests, pod_parts, unit_shares, node_facts, resource_kinds
-- writes: pending_pods (stored), one row per pod that requested GPUs while it had no node: how many, and when
-- invariant: one row per (cluster, uid); from_ms < to_ms; to_ms is not after its binding
-- only with: unbound_requests
INSERT INTO pending_pods BY NAME
WITH unbound AS (
    SELECT cluster, uid, any_value(namespace) AS namespace, any_value(pod) AS pod, min(first_ms) AS from_ms, max(end_ms) AS to_ms
    FROM unbound_requests
    WHERE is_accelerator(resource)
    GROUP BY ALL
),
worth AS (
    SELECT n.cluster, u.resource, min(u.share) AS share FROM unit_shares AS u JOIN node_facts AS n USING (node_id) GROUP BY ALL
),
requested AS (
    SELECT cluster, uid, sum(gpus)::DOUBLE AS gpus
    FROM (
        SELECT cluster, uid, gpus FROM pod_parts
        UNION ALL
        SELECT r.cluster, r.uid, r.units * coalesce(w.share, 1)
        FROM pod_requests AS r
        JOIN resource_kinds AS k USING (resource)
        LEFT JOIN worth AS w USING (cluster, resource)
        ANTI JOIN pod_parts AS q ON q.cluster = r.cluster AND q.uid = r.uid AND q.resource = r.resource
        -- memory and cores are parts of a device, never devices
        WHERE is_accelerator(r.resource) AND k.devices IS NULL AND k.kind <> 'unsplit_part'
    )
    GROUP BY ALL
)
SELECT u.cluster, u.namespace, u.pod, u.uid, a.gpus, u.from_ms, least(u.to_ms, coalesce(p.held_from_ms, u.to_ms)) AS to_ms
FROM unbound AS u
JOIN requested AS a USING (cluster, uid)
LEFT JOIN pods AS p ON p.cluster = u.cluster AND p.uid = u.uid
WHERE u.from_ms < least(u.to_ms, coalesce(p.held_from_ms, u.to_ms));
