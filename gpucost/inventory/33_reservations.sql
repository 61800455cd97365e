-- reads: pods, pod_nodes, pod_requests, pod_parts, slurm_hosts, gpu_groups
-- writes: reservations, pods that hold a device for pods that request a part of it (KAI, Run:ai, Slurm inside Kubernetes), and whether those are known
-- invariant: one row per (cluster, uid); a reservation that gives way holds nothing: the rest of its device is unallocated. Without labels that tie pods to reservations, as many give way as the pods share devices
-- only with: slurm_hosts, reserving_pods
-- otherwise: reservations (cluster VARCHAR, uid VARCHAR, namespace VARCHAR, pod VARCHAR, node_id UBIGINT, held_from_ms BIGINT, held_to_ms BIGINT, gives_way BOOLEAN)
CREATE OR REPLACE TEMP TABLE reservations AS
WITH holders AS (
    SELECT p.cluster, p.uid, p.namespace, p.pod, n.node_id, n.held_from_ms, n.held_to_ms, g.gpu_group,
        (p.cluster, p.uid) IN (SELECT (kube_cluster, pod_uid) FROM slurm_hosts) AS is_slurm
    FROM pods AS p
    JOIN pod_nodes AS n USING (cluster, uid)
    SEMI JOIN (FROM pod_requests WHERE is_accelerator(resource)) AS r ON r.cluster = p.cluster AND r.uid = p.uid
    LEFT JOIN gpu_groups AS g USING (cluster, uid)
    WHERE p.namespace IN ('kai-resource-reservation', 'runai-reservation') OR is_slurm
),
placed AS (
    SELECT h.*, count(*) AS place
    FROM holders AS h
    JOIN holders AS o ON o.node_id = h.node_id AND (o.held_from_ms, o.uid) <= (h.held_from_ms, h.uid) AND h.held_from_ms < o.held_to_ms
    GROUP BY ALL
),
sharing AS (
    SELECT n.node_id, n.held_from_ms, n.held_to_ms, s.units, g.gpu_group
    FROM pod_parts AS s JOIN pod_nodes AS n USING (cluster, uid) LEFT JOIN gpu_groups AS g USING (cluster, uid)
    WHERE s.resource = 'gpu_fraction'
)
SELECT h.* EXCLUDE (is_slurm, place, gpu_group),
    any_value(h.is_slurm) OR coalesce(bool_or(s.gpu_group = h.gpu_group), false)
        OR coalesce(sum(s.units) FILTER ((s.gpu_group = h.gpu_group) IS NULL), 0) >= any_value(h.place) AS gives_way
FROM placed AS h
LEFT JOIN sharing AS s ON s.node_id = h.node_id AND s.held_from_ms < h.held_to_ms AND h.held_from_ms < s.held_to_ms
GROUP BY ALL;
