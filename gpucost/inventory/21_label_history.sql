-- reads: state_intervals, node_lifetimes, plain_hosts
-- writes: label_history, spans in which labels of a pod (name: uid), a namespace or a node (name: node_id) count: the labels at the time, otherwise the first after, otherwise the last before
-- invariant: a conflicting label is 'unassigned'; a removed label ends, but a label that the exporter stopped reporting keeps its last value: another namespace lost a label within ten minutes, or kubernetes.io/metadata.name is lost, and no namespace of that exporter has the label; an object's spans cover all time without gap or overlap, each ending at its own last sample
CREATE OR REPLACE TEMP TABLE label_history AS
WITH namespaces AS MATERIALIZED (
    SELECT cluster, namespace AS name, labels, first_ms, last_ms, coalesce(labels['job'], '') AS job, coalesce(labels['instance'], '') AS instance
    FROM state_intervals
    WHERE metric = 'kube_namespace_labels' AND namespace IS NOT NULL
),
carried AS MATERIALIZED (
    SELECT * EXCLUDE (labels, entry), entry.key AS label, entry.value AS value
    FROM (SELECT *, unnest(map_entries(labels)) AS entry FROM namespaces)
    WHERE starts_with(entry.key, 'label_')
),
-- labels that a namespace had before, and that no namespace of the exporter has when this set begins
lost AS (
    SELECT n.cluster, n.name, n.job, n.instance, n.first_ms, n.last_ms, c.label, arg_max(c.value, c.last_ms) AS value, max(c.last_ms) AS lost_ms
    FROM namespaces AS n
    JOIN carried AS c ON c.cluster = n.cluster AND c.name = n.name AND c.first_ms < n.first_ms AND n.labels[c.label] IS NULL
    WHERE NOT EXISTS (FROM carried AS o WHERE o.cluster = n.cluster AND o.job = n.job AND o.instance = n.instance AND o.label = c.label
        AND o.first_ms <= n.first_ms AND n.first_ms <= o.last_ms)
    GROUP BY ALL
    HAVING max(c.last_ms) < n.first_ms
),
not_told AS (
    SELECT *
    FROM lost
    WINDOW near AS (PARTITION BY cluster, job, instance ORDER BY lost_ms RANGE BETWEEN 600000 PRECEDING AND 600000 FOLLOWING)
    QUALIFY min(name) OVER near <> max(name) OVER near
        OR bool_or(label = 'label_kubernetes_io_metadata_name') OVER (PARTITION BY cluster, name, first_ms)
),
sets AS (
    SELECT 'pod' AS kind, cluster, uid AS name, labels, first_ms, last_ms + 1 AS end_ms FROM state_intervals
    WHERE metric = 'kube_pod_labels' AND uid IS NOT NULL
    UNION ALL
    SELECT 'namespace', cluster, name, labels, first_ms, last_ms + 1 FROM namespaces
    UNION ALL
    -- until the exporter reports that label again
    SELECT 'namespace', n.cluster, n.name, map([n.label], [n.value]), n.first_ms, coalesce(min(o.first_ms), n.last_ms + 1)
    FROM not_told AS n
    LEFT JOIN carried AS o ON o.cluster = n.cluster AND o.job = n.job AND o.instance = n.instance AND o.label = n.label
        AND n.first_ms < o.first_ms AND o.first_ms <= n.last_ms
    GROUP BY n.cluster, n.name, n.label, n.value, n.first_ms, n.last_ms
    UNION ALL
    SELECT 'node', n.cluster, n.node_id::VARCHAR, f.labels, f.first_ms, f.last_ms + 1
    FROM node_lifetimes AS n
    JOIN state_intervals AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_labels'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
    UNION ALL
    SELECT 'node', cluster, node_id::VARCHAR, map_concat(MAP {'label_host': node}, labels), up_from_ms, up_to_ms FROM plain_hosts WHERE labels IS NOT NULL
),
edges AS (
    SELECT DISTINCT kind, cluster, name, unnest([first_ms, end_ms]) AS at_ms FROM sets
),
stretches AS (
    SELECT *, lead(at_ms) OVER (PARTITION BY kind, cluster, name ORDER BY at_ms) AS until_ms FROM edges
),
-- of the sets at a moment (several exporters, or changed labels), each label's newest value counts
entries AS (
    SELECT e.kind, e.cluster, e.name, e.at_ms, e.until_ms, s.first_ms, unnest(map_entries(s.labels)) AS entry
    FROM stretches AS e
    JOIN sets AS s ON s.kind = e.kind AND s.cluster = e.cluster AND s.name = e.name AND s.first_ms <= e.at_ms AND e.at_ms < s.end_ms
),
newest AS (
    -- kube-state-metrics names labels with one sanitized name label_x_conflict1 and _conflict2: they count if equal
    SELECT kind, cluster, name, at_ms, until_ms, regexp_replace(entry.key, '_conflict[0-9]+$', '') AS label,
        CASE WHEN min(entry.value) FILTER (entry.key <> label) < max(entry.value) FILTER (entry.key <> label) THEN 'unassigned'
            ELSE arg_max(entry.value, first_ms) END AS value
    FROM entries
    GROUP BY ALL
),
merged AS (
    -- a pod or a namespace with an empty set lost its labels
    SELECT kind, cluster, name, at_ms, until_ms,
        map(coalesce(list(label ORDER BY label) FILTER (starts_with(label, 'label_')), []),
            coalesce(list(value ORDER BY label) FILTER (starts_with(label, 'label_')), [])) AS labels,
        bool_or(label IN ('label_nvidia_com_gpu_product', 'label_nvidia_com_gpu_count', 'label_nvidia_com_gpu_replicas',
            'label_nvidia_com_mig_strategy', 'label_cloud_google_com_gke_accelerator', 'label_amd_com_gpu_product_name')) AS tells_gpus
    FROM newest
    GROUP BY ALL
),
counting AS (
    -- A node always has labels, and a GPU node has labels about its GPUs after their discovery. Sets without them are
    -- from before it, or from a time when they were lost.
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
