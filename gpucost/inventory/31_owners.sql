-- reads: facts
-- writes: owners, one row per pod (cluster, uid) with an owner: the topmost one that metrics show
-- invariant: one row per (cluster, uid)
CREATE OR REPLACE TEMP TABLE owners AS
WITH controllers AS (
    SELECT cluster, namespace, uid,
        arg_max(labels['owner_kind'], (labels['owner_is_controller'] = 'true', last_ms)) AS kind,
        arg_max(labels['owner_name'], (labels['owner_is_controller'] = 'true', last_ms)) AS name
    FROM facts
    WHERE metric = 'kube_pod_owner' AND uid IS NOT NULL AND coalesce(labels['owner_kind'], '<none>') <> '<none>'
    GROUP BY ALL
),
above AS (
    SELECT cluster, namespace, 'ReplicaSet' AS kind, labels['replicaset'] AS name, labels['owner_kind'] AS owner_kind,
        labels['owner_name'] AS owner_name, last_ms
    FROM facts WHERE metric = 'kube_replicaset_owner'
    UNION ALL
    SELECT cluster, namespace, 'Job', labels['job_name'], labels['owner_kind'], labels['owner_name'], last_ms
    FROM facts WHERE metric = 'kube_job_owner'
),
parents AS (
    SELECT cluster, namespace, kind, name, arg_max(owner_kind, last_ms) AS owner_kind, arg_max(owner_name, last_ms) AS owner_name
    FROM above
    WHERE coalesce(owner_kind, '<none>') <> '<none>'
    GROUP BY ALL
)
SELECT c.cluster, c.uid, coalesce(p.owner_kind, c.kind) AS workload_kind, coalesce(p.owner_name, c.name) AS workload_name
FROM controllers AS c LEFT JOIN parents AS p USING (cluster, namespace, kind, name);
