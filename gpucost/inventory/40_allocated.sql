-- reads: pods, pod_nodes, pod_units, claim_shares, pod_requests, owners
-- writes: allocated, one row per pod that held GPUs: where, from when to when, how many, for which workload; with 0 GPUs those that the cost basis charges for cores and memory alone
-- invariant: one row per (cluster, uid), and one more each time that others join or leave a claim that it shares; gpus >= 0; held_from_ms < held_to_ms
CREATE OR REPLACE TEMP TABLE allocated AS
WITH held AS (
    SELECT u.cluster, u.uid, u.resource, u.units, u.gpus, n.held_from_ms, n.held_to_ms
    FROM pod_units AS u JOIN pod_nodes AS n USING (cluster, uid)
    UNION ALL
    SELECT cluster, uid, 'claim', units, gpus, from_ms, to_ms FROM claim_shares
    UNION ALL
    SELECT DISTINCT r.cluster, r.uid, 'cpu_memory', 0, 0, n.held_from_ms, n.held_to_ms
    FROM pod_requests AS r
    JOIN pod_nodes AS n USING (cluster, uid)
    ANTI JOIN pod_units AS u ON u.cluster = r.cluster AND u.uid = r.uid
    ANTI JOIN claim_shares AS c ON c.cluster = r.cluster AND c.uid = r.uid
    WHERE is_host_resource(r.resource)
)
SELECT
    CASE WHEN u.held_from_ms = n.held_from_ms THEN hash(p.cluster, p.uid) ELSE hash(p.cluster, p.uid, u.held_from_ms) END AS allocation_id,
    p.cluster, p.namespace, p.pod, p.uid, n.node_id,
    CASE WHEN count(DISTINCT u.resource) = 1 THEN any_value(u.resource) ELSE 'mixed' END AS resource,
    sum(u.units)::DOUBLE AS units,
    sum(u.gpus)::DOUBLE AS gpus,
    u.held_from_ms, u.held_to_ms,
    coalesce(o.workload_kind, 'Pod') AS workload_kind,
    coalesce(o.workload_kind || '/' || o.workload_name, 'Pod/' || p.pod) AS workload
FROM pods AS p
JOIN pod_nodes AS n USING (cluster, uid)
JOIN held AS u USING (cluster, uid)
LEFT JOIN owners AS o USING (cluster, uid)
GROUP BY ALL;
