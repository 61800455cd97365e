-- reads: slurm_nodes, slurm_holdings, state_intervals
-- writes: slurm_hosts, one row per (node of Slurm that lives on a node of Kubernetes, pod that it is): where, and since when; pod_uid is null where slurmd runs beside the kubelet, under the node's own name
-- invariant: from_ms < to_ms; what is here is no machine of its own, and the pod holds no GPU: jobs do
-- Slinky's pods belong to a NodeSet, and end in the node's name; soperator's have it. Pods count that ask for GPUs.
INSERT INTO slurm_hosts BY NAME
WITH told AS (
    SELECT cluster, node FROM slurm_nodes UNION SELECT cluster, node FROM slurm_holdings
),
asking AS (
    SELECT DISTINCT cluster, uid FROM state_intervals WHERE metric = 'kube_pod_container_resource_requests' AND is_accelerator(resource)
),
sets AS (
    SELECT DISTINCT cluster, uid FROM state_intervals WHERE metric = 'kube_pod_owner' AND labels['owner_kind'] = 'NodeSet'
),
workers AS (
    SELECT f.cluster, f.uid, f.pod, f.node, s.uid IS NOT NULL AS in_set, min(f.begin_ms) AS from_ms, max(f.end_ms) AS to_ms
    FROM state_intervals AS f SEMI JOIN asking USING (cluster, uid) LEFT JOIN sets AS s USING (cluster, uid)
    WHERE f.metric = 'kube_pod_info' AND f.node IS NOT NULL
    GROUP BY ALL
),
as_pods AS (
    SELECT t.cluster, t.node, w.cluster AS kube_cluster, w.uid AS pod_uid, w.node AS kube_node, w.from_ms, w.to_ms
    FROM told AS t JOIN workers AS w ON w.pod = t.node OR (w.in_set AND ends_with(w.pod, '-' || t.node))
)
SELECT * FROM as_pods WHERE from_ms < to_ms
UNION ALL
SELECT t.cluster, t.node, f.cluster, NULL, f.node, min(f.begin_ms), max(f.end_ms)
FROM told AS t JOIN state_intervals AS f USING (node)
ANTI JOIN as_pods AS p ON p.cluster = t.cluster AND p.node = t.node
WHERE f.metric = 'kube_node_status_capacity' AND is_accelerator(f.resource) AND f.value > 0
GROUP BY t.cluster, t.node, f.cluster, f.node;
