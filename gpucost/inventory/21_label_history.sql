-- reads: state_intervals, node_lifetimes, plain_hosts
-- writes: label_history, which labels of a pod (name: uid), a namespace or a node (name: node_id) count when: those it carried, else the first after, else the last before
-- invariant: an object's spans follow each other without gap or overlap, the first since ever, the last for ever; each ends at its own last sample
CREATE OR REPLACE TEMP TABLE label_history AS
WITH sets AS (
    SELECT 'pod' AS kind, cluster, uid AS name, labels, first_ms, last_ms + 1 AS end_ms FROM state_intervals
    WHERE metric = 'kube_pod_labels' AND uid IS NOT NULL
    UNION ALL
    SELECT 'namespace', cluster, namespace, labels, first_ms, last_ms + 1 FROM state_intervals
    WHERE metric = 'kube_namespace_labels' AND namespace IS NOT NULL
    UNION ALL
    SELECT 'node', n.cluster, n.node_id::VARCHAR, f.labels, f.first_ms, f.last_ms + 1
    FROM node_lifetimes AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_labels'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    UNION ALL
    SELECT 'node', cluster, node_id::VARCHAR, map_concat(MAP {'label_node': node}, labels), up_from_ms, up_to_ms FROM plain_hosts WHERE labels IS NOT NULL
),
edges AS (
    SELECT DISTINCT kind, cluster, name, unnest([first_ms, end_ms]) AS at_ms FROM sets
),
stretches AS (
    SELECT *, lead(at_ms) OVER (PARTITION BY kind, cluster, name ORDER BY at_ms) AS until_ms FROM edges
),
-- of the sets alive at a moment (several exporters, or one whose labels changed) each label's newest value counts
entries AS (
    SELECT e.kind, e.cluster, e.name, e.at_ms, e.until_ms, s.first_ms, unnest(map_entries(s.labels)) AS entry
    FROM stretches AS e
    JOIN sets AS s ON s.kind = e.kind AND s.cluster = e.cluster AND s.name = e.name AND s.first_ms <= e.at_ms AND e.at_ms < s.end_ms
),
newest AS (
    SELECT kind, cluster, name, at_ms, until_ms, entry.key AS label, arg_max(entry.value, first_ms) AS value
    FROM entries
    GROUP BY ALL
),
merged AS (
    -- a pod or a namespace without labels has an empty set: it lost what it had
    SELECT kind, cluster, name, at_ms, until_ms,
        map(coalesce(list(label ORDER BY label) FILTER (starts_with(label, 'label_')), []),
            coalesce(list(value ORDER BY label) FILTER (starts_with(label, 'label_')), [])) AS labels,
        bool_or(label IN ('label_nvidia_com_gpu_product', 'label_nvidia_com_gpu_count', 'label_nvidia_com_gpu_replicas',
            'label_nvidia_com_mig_strategy', 'label_cloud_google_com_gke_accelerator', 'label_amd_com_gpu_product_name')) AS tells_gpus
    FROM newest
    GROUP BY ALL
),
counting AS (
    -- A node always carries labels, and a GPU node those that tell of its GPUs, once they have been discovered:
    -- sets without them are from before that, or from a while in which they were lost.
    FROM merged
    WHERE kind <> 'node' OR cardinality(labels) > 0
    QUALIFY kind <> 'node' OR tells_gpus OR NOT bool_or(tells_gpus) OVER (PARTITION BY kind, cluster, name)
),
changed AS (
    SELECT *, labels IS DISTINCT FROM lag(labels) OVER w AS begins, lag(until_ms) OVER w AS before_ms
    FROM counting
    WINDOW w AS (PARTITION BY kind, cluster, name ORDER BY at_ms)
)
SELECT kind, cluster, name, labels,
    coalesce(before_ms, 0) AS from_ms,
    coalesce(lead(before_ms) OVER (PARTITION BY kind, cluster, name ORDER BY at_ms), 9223372036854775807) AS to_ms
FROM changed
WHERE begins;
