-- reads: facts, node_lives
-- writes: label_spans, when a pod (name: uid), a namespace or a node (name: node_id) carried which labels
-- invariant: an object's spans follow each other without gap or overlap, the first since ever, the last for ever
CREATE OR REPLACE TEMP TABLE label_spans AS
WITH sets AS (
    SELECT 'pod' AS kind, cluster, uid AS name, labels, first_ms, end_ms FROM facts
    WHERE metric = 'kube_pod_labels' AND uid IS NOT NULL
    UNION ALL
    SELECT 'namespace', cluster, namespace, labels, first_ms, end_ms FROM facts
    WHERE metric = 'kube_namespace_labels' AND namespace IS NOT NULL
    UNION ALL
    SELECT 'node', n.cluster, n.node_id::VARCHAR, f.labels, f.first_ms, f.end_ms
    FROM node_lives AS n
    JOIN facts AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_labels'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms <= f.last_ms
),
edges AS (
    SELECT DISTINCT kind, cluster, name, unnest([first_ms, end_ms]) AS at_ms FROM sets
),
-- of the sets alive at a moment (several exporters, or one whose labels changed) each label's newest value counts
entries AS (
    SELECT e.kind, e.cluster, e.name, e.at_ms, s.first_ms, unnest(map_entries(s.labels)) AS entry
    FROM edges AS e
    JOIN sets AS s ON s.kind = e.kind AND s.cluster = e.cluster AND s.name = e.name AND s.first_ms <= e.at_ms AND e.at_ms < s.end_ms
),
newest AS (
    SELECT kind, cluster, name, at_ms, entry.key AS label, arg_max(entry.value, first_ms) AS value
    FROM entries
    GROUP BY ALL
),
merged AS (
    -- an object without labels has an empty set: it lost what it had
    SELECT kind, cluster, name, at_ms,
        map(coalesce(list(label ORDER BY label) FILTER (starts_with(label, 'label_')), []),
            coalesce(list(value ORDER BY label) FILTER (starts_with(label, 'label_')), [])) AS labels
    FROM newest
    GROUP BY ALL
),
changed AS (
    FROM merged
    QUALIFY labels IS DISTINCT FROM lag(labels) OVER (PARTITION BY kind, cluster, name ORDER BY at_ms)
)
SELECT kind, cluster, name, labels,
    CASE WHEN lag(at_ms) OVER w IS NULL THEN 0 ELSE at_ms END AS from_ms,
    coalesce(lead(at_ms) OVER w, 9223372036854775807) AS to_ms
FROM changed
WINDOW w AS (PARTITION BY kind, cluster, name ORDER BY at_ms);
