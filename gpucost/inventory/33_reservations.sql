-- reads: pods, pod_nodes, pod_requests, pod_parts, slurm_hosts
-- writes: reservations, the pods that hold a device for those who ask for a part of it (KAI, Run:ai, Slurm inside Kubernetes), and whether those are known
-- invariant: one row per (cluster, uid); a reservation that gives way holds nothing: what its pods leave over is unallocated
CREATE OR REPLACE TEMP TABLE reservations AS
SELECT p.cluster, p.uid, p.namespace, p.pod, n.node_id, n.held_from_ms, n.held_to_ms,
    (p.cluster, p.uid) IN (SELECT (kube_cluster, pod_uid) FROM slurm_hosts) OR EXISTS (
        FROM pod_parts AS s JOIN pod_nodes AS o USING (cluster, uid)
        WHERE s.resource = 'gpu_fraction' AND o.node_id = n.node_id AND o.held_from_ms < n.held_to_ms AND n.held_from_ms < o.held_to_ms
    ) AS gives_way
FROM pods AS p
JOIN pod_nodes AS n USING (cluster, uid)
SEMI JOIN (FROM pod_requests WHERE is_accelerator(resource)) AS r ON r.cluster = p.cluster AND r.uid = p.uid
WHERE p.namespace IN ('kai-resource-reservation', 'runai-reservation')
    OR (p.cluster, p.uid) IN (SELECT (kube_cluster, pod_uid) FROM slurm_hosts);
