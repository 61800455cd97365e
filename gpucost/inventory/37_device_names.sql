-- reads: pods, pod_nodes, pod_parts, reservations, facts
-- writes: device_names, the pods under whose names exporters measure what a pod holds: its own, and of those who share a device its reservation's
-- invariant: one row per (cluster, uid, namespace, pod)
CREATE OR REPLACE TEMP TABLE device_names AS
WITH groups AS (
    SELECT DISTINCT cluster, uid, labels['label_runai_gpu_group'] AS gpu_group FROM facts
    WHERE metric = 'kube_pod_labels' AND labels['label_runai_gpu_group'] IS NOT NULL
),
near AS (
    SELECT n.cluster, n.uid, r.namespace, r.pod, g.gpu_group = o.gpu_group AS is_same, count(*) OVER (PARTITION BY n.cluster, n.uid) AS candidates
    FROM pod_parts AS s
    JOIN pod_nodes AS n USING (cluster, uid)
    JOIN reservations AS r ON r.node_id = n.node_id AND r.held_from_ms < n.held_to_ms AND n.held_from_ms < r.held_to_ms
    LEFT JOIN groups AS g ON g.cluster = n.cluster AND g.uid = n.uid
    LEFT JOIN groups AS o ON o.cluster = r.cluster AND o.uid = r.uid
    WHERE s.resource = 'gpu_fraction'
)
SELECT cluster, uid, namespace, pod FROM pods
UNION
SELECT cluster, uid, namespace, pod FROM near WHERE coalesce(is_same, candidates = 1);
