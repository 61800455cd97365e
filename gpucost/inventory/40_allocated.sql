-- reads: pods, pod_nodes, pod_units, claim_shares, pod_requests, state_intervals
-- writes: allocated, one row per pod that held GPUs: node, time, GPUs and workload; with 0 GPUs pods that the cost basis charges for cores and memory only; allocation_hosts, one row per (allocation, 'cpu' or 'memory'): the cores or bytes that it requests
-- invariant: one row per (cluster, uid), and one more each time that others join or leave a shared claim; gpus >= 0; held_from_ms < held_to_ms; allocation_hosts has units > 0, and is empty with the cost basis `node`
CREATE OR REPLACE TEMP TABLE allocated AS
WITH controllers AS (
    SELECT cluster, namespace, uid,
        arg_max(labels['owner_kind'], (labels['owner_is_controller'] = 'true', last_ms)) AS kind,
        arg_max(labels['owner_name'], (labels['owner_is_controller'] = 'true', last_ms)) AS name
    FROM state_intervals
    WHERE metric = 'kube_pod_owner' AND uid IS NOT NULL AND coalesce(labels['owner_kind'], '<none>') <> '<none>'
    GROUP BY ALL
),
above AS (
    SELECT cluster, namespace, 'ReplicaSet' AS kind, labels['replicaset'] AS name, labels['owner_kind'] AS owner_kind,
        labels['owner_name'] AS owner_name, last_ms
    FROM state_intervals WHERE metric = 'kube_replicaset_owner'
    UNION ALL
    SELECT cluster, namespace, 'Job', labels['job_name'], labels['owner_kind'], labels['owner_name'], last_ms
    FROM state_intervals WHERE metric = 'kube_job_owner'
),
parents AS (
    SELECT cluster, namespace, kind, name, arg_max(owner_kind, last_ms) AS owner_kind, arg_max(owner_name, last_ms) AS owner_name
    FROM above
    WHERE coalesce(owner_kind, '<none>') <> '<none>'
    GROUP BY ALL
),
owners AS (
    -- one row per pod (cluster, uid) with an owner: the topmost one in the metrics
    SELECT c.cluster, c.uid, coalesce(p.owner_kind, c.kind) AS workload_kind, coalesce(p.owner_name, c.name) AS workload_name
    FROM controllers AS c LEFT JOIN parents AS p USING (cluster, namespace, kind, name)
),
held AS (
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

INSERT INTO allocation_hosts BY NAME
SELECT a.allocation_id, r.resource AS part, r.units
FROM allocated AS a JOIN pod_requests AS r USING (cluster, uid)
WHERE is_host_resource(r.resource);
