-- reads: pods, pod_nodes, pod_units, pod_requests, owners
-- writes: allocated, one row per pod that held GPUs: where, from when to when, how many, for which workload; with 0 GPUs those that the cost basis charges for cores and memory alone
-- invariant: one row per (cluster, uid); gpus >= 0; held_from_ms < held_to_ms
CREATE OR REPLACE TEMP TABLE allocated AS
WITH held AS (
    SELECT cluster, uid, resource, units, gpus FROM pod_units
    UNION ALL
    SELECT DISTINCT cluster, uid, 'cpu_memory', 0, 0
    FROM pod_requests ANTI JOIN pod_units USING (cluster, uid)
    WHERE is_host_resource(resource)
)
SELECT
    hash(p.cluster, p.uid) AS allocation_id,
    p.cluster, p.namespace, p.pod, p.uid, n.node_id,
    CASE WHEN count(*) = 1 THEN any_value(u.resource) ELSE 'mixed' END AS resource,
    sum(u.units)::DOUBLE AS units,
    sum(u.gpus)::DOUBLE AS gpus,
    n.held_from_ms, n.held_to_ms,
    coalesce(o.workload_kind, 'Pod') AS workload_kind,
    coalesce(o.workload_kind || '/' || o.workload_name, 'Pod/' || p.pod) AS workload
FROM pods AS p
JOIN pod_nodes AS n USING (cluster, uid)
JOIN held AS u USING (cluster, uid)
LEFT JOIN owners AS o USING (cluster, uid)
GROUP BY ALL;
