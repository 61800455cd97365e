-- reads: slurm_nodes, slurm_holdings, state_intervals, device_series, settings
-- writes: slurm_hosts, one row per (Slurm node that provably runs on a Kubernetes node, its pod): the node, and when; pod_uid is null if slurmd runs next to the kubelet, under the node's own name
-- invariant: from_ms < to_ms; such a Slurm node is not a machine of its own, and jobs hold its GPUs, not the pod; a name alone is not proof
-- only with: slurm_loads
-- Slinky's pods belong to a NodeSet, and their names end in the node's name; soperator's pods have the node's name.
-- Pods count if they request GPUs.
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
named AS (
    SELECT t.cluster, t.node, w.cluster AS kube_cluster, w.uid AS pod_uid, w.node AS kube_node, w.in_set AS is_proven, w.from_ms, w.to_ms
    FROM told AS t JOIN workers AS w ON w.pod = t.node OR (w.in_set AND ends_with(w.pod, '-' || t.node))
    UNION ALL
    SELECT t.cluster, t.node, f.cluster, NULL, f.node, false, min(f.begin_ms), max(f.end_ms)
    FROM told AS t JOIN state_intervals AS f USING (node)
    WHERE f.metric = 'kube_node_status_capacity' AND is_accelerator(f.resource) AND f.value > 0
    GROUP BY t.cluster, t.node, f.cluster, f.node
),
-- exporters name the host or its node
places AS (
    SELECT *, unnest(list_distinct([host, node_label])) AS place FROM device_series
),
gpus AS (
    SELECT n.cluster, n.node, n.kube_cluster, n.kube_node, bool_or(s.uuid = k.uuid) FILTER (NOT contains(s.uuid, '/')) AS is_same
    FROM (SELECT DISTINCT cluster, node, kube_cluster, kube_node FROM named WHERE cluster <> kube_cluster) AS n
    JOIN places AS s ON s.cluster = n.cluster AND s.place = n.node
    JOIN places AS k ON k.cluster = n.kube_cluster AND k.place = n.kube_node
        AND k.first_ms <= s.last_ms AND s.first_ms <= k.last_ms
    GROUP BY ALL
),
tied AS (
    SELECT DISTINCT n.cluster, n.node, n.kube_cluster, n.kube_node
    FROM named AS n
    JOIN places AS k ON k.cluster = n.kube_cluster AND k.place = n.kube_node AND k.namespace = ''
    JOIN slurm_holdings AS h ON h.cluster = n.cluster AND h.node = n.node AND h.job_id::VARCHAR = k.pod AND h.from_ms <= k.last_ms AND k.first_ms <= h.to_ms
),
proven AS (
    SELECT n.*
    FROM named AS n
    CROSS JOIN settings AS c
    LEFT JOIN gpus AS g USING (cluster, node, kube_cluster, kube_node)
    LEFT JOIN tied AS t USING (cluster, node, kube_cluster, kube_node)
    WHERE coalesce(g.is_same, n.is_proven OR t.node IS NOT NULL OR len(list_filter(c.slurm_in_kubernetes, lambda p: n.node GLOB p)) > 0)
)
SELECT cluster, node, kube_cluster, pod_uid, kube_node, from_ms, to_ms
FROM proven
-- a pod that is the Slurm node is more specific than the Kubernetes node under it
QUALIFY pod_uid IS NOT NULL OR count(pod_uid) OVER (PARTITION BY cluster, node) = 0;
