-- reads: facts, pods, pod_requests, unit_shares, node_facts
-- writes: waiting, one row per pod that asked for GPUs while it was on no node: how many, and when
-- invariant: one row per (cluster, uid); from_ms < to_ms; to_ms is no later than the moment it was bound
CREATE OR REPLACE TEMP TABLE waiting AS
WITH unbound AS (
    SELECT cluster, uid, any_value(namespace) AS namespace, any_value(pod) AS pod, min(first_ms) AS from_ms, max(end_ms) AS to_ms
    FROM facts
    WHERE metric SIMILAR TO 'kube_pod_(init_)?container_resource_(requests|limits)' AND is_accelerator(resource)
        AND uid IS NOT NULL AND coalesce(node, '') = ''
    GROUP BY ALL
),
worth AS (
    SELECT n.cluster, u.resource, min(u.share) AS share FROM unit_shares AS u JOIN node_facts AS n USING (node_id) GROUP BY ALL
),
asked AS (
    SELECT r.cluster, r.uid, sum(r.units * coalesce(w.share, 1))::DOUBLE AS gpus
    FROM pod_requests AS r LEFT JOIN worth AS w USING (cluster, resource)
    WHERE is_accelerator(r.resource)
    GROUP BY ALL
)
SELECT u.cluster, u.namespace, u.pod, u.uid, a.gpus, u.from_ms, least(u.to_ms, coalesce(p.held_from_ms, u.to_ms)) AS to_ms
FROM unbound AS u
JOIN asked AS a USING (cluster, uid)
LEFT JOIN pods AS p ON p.cluster = u.cluster AND p.uid = u.uid
WHERE u.from_ms < least(u.to_ms, coalesce(p.held_from_ms, u.to_ms));
