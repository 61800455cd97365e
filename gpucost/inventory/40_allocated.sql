-- reads: pods, pod_nodes, pod_units, owners
-- writes: allocated, one row per pod that held GPUs: where, from when to when, how many, and for which workload
-- invariant: one row per (cluster, uid); gpus > 0; held_from_ms < held_to_ms
CREATE OR REPLACE TEMP TABLE allocated AS
SELECT
    hash(p.cluster, p.uid) AS allocation_id,
    p.cluster, p.namespace, p.pod, p.uid, n.node_id,
    CASE WHEN count(*) = 1 THEN any_value(u.resource) ELSE 'mixed' END AS resource,
    sum(u.units)::DOUBLE AS units,
    sum(u.gpus)::DOUBLE AS gpus,
    n.held_from_ms, n.held_to_ms,
    coalesce(o.workload_type, 'Pod') AS workload_type,
    coalesce(o.workload_type || '/' || o.workload_name, 'Pod/' || p.pod) AS workload
FROM pods AS p
JOIN pod_nodes AS n USING (cluster, uid)
JOIN pod_units AS u USING (cluster, uid)
LEFT JOIN owners AS o USING (cluster, uid)
GROUP BY ALL;
