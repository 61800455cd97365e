-- reads: series, states, nodes; $from_ms, $to_ms, $accelerators, $other_resources
-- writes: nothing; answers rows (kind, cluster, name): what metrics told in the period of quotas, limits, NodePools and priority classes, and of which clusters they told anything
-- invariant: each row once; a name is a namespace, a NodePool, a pod's uid, a node's id with its NodePool; '' where the row is of the cluster
WITH told AS (
    SELECT DISTINCT s.cluster, s.metric, s.labels, coalesce(s.labels['exported_namespace'], s.labels['namespace'], '') AS namespace,
        regexp_replace(lower(coalesce(s.labels['resource'], s.labels['resource_type'])), '[^a-z0-9]', '_', 'g') AS resource
    FROM series AS s JOIN states AS t USING (series_id)
    WHERE (s.metric SIMILAR TO 'kube_(resourcequota|limitrange|pod_info)' OR starts_with(s.metric, 'karpenter_'))
        AND t.first_ms < $to_ms AND $from_ms <= t.last_ms
),
policies AS (
    SELECT *, CASE metric WHEN 'kube_resourcequota' THEN 'quota' WHEN 'kube_limitrange' THEN 'limit_range' ELSE 'node_pool_limit' END AS kind,
        -- requests.nvidia.com/gpu of a quota
        regexp_full_match(regexp_replace(resource, '^(requests|limits)_', ''), $accelerators)
            AND NOT regexp_full_match(regexp_replace(resource, '^(requests|limits)_', ''), $other_resources) AS is_gpu
    FROM told WHERE metric <> 'kube_pod_info'
)
SELECT DISTINCT kind, cluster, CASE kind WHEN 'node_pool_limit' THEN coalesce(labels['nodepool'], labels['provisioner'], '') ELSE namespace END AS name
FROM policies
-- cores and memory limit a NodePool, too
WHERE (is_gpu AND kind <> 'node_pool_limit') OR (kind = 'node_pool_limit' AND metric LIKE '%limit' AND (is_gpu OR resource IN ('cpu', 'memory')))
UNION
SELECT kind || '_told', cluster, '' FROM policies
UNION
SELECT 'priority_class', cluster, coalesce(labels['exported_uid'], labels['uid']) FROM told
WHERE metric = 'kube_pod_info' AND coalesce(labels['priority_class'], '') <> ''
UNION
SELECT 'priority_class_told', cluster, '' FROM told WHERE metric = 'kube_pod_info' AND coalesce(labels['priority_class'], '') <> ''
UNION
SELECT 'node_pool', cluster, node_id || ' ' || coalesce(labels['label_karpenter_sh_nodepool'], labels['label_karpenter_sh_provisioner_name'])
FROM nodes
WHERE coalesce(labels['label_karpenter_sh_nodepool'], labels['label_karpenter_sh_provisioner_name']) IS NOT NULL
ORDER BY ALL
