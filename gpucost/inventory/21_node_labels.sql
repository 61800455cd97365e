-- reads: node_lives, facts
-- writes: node_labels, one row per node that exports labels: label names as kube-state-metrics writes them, latest value each
-- invariant: one row per node_id; labels holds label_* keys only
CREATE OR REPLACE TEMP TABLE node_labels AS
WITH entries AS (
    SELECT n.node_id, f.end_ms, unnest(map_entries(f.labels)) AS entry
    FROM node_lives AS n
    JOIN facts AS f ON f.cluster = n.cluster AND f.node = n.node AND f.metric = 'kube_node_labels'
        AND f.first_ms < n.up_to_ms AND n.up_from_ms < f.end_ms
),
latest AS (
    SELECT node_id, entry.key AS name, arg_max(entry.value, end_ms) AS value
    FROM entries
    WHERE starts_with(entry.key, 'label_')
    GROUP BY ALL
)
SELECT node_id, map(list(name ORDER BY name), list(value ORDER BY name)) AS labels
FROM latest
GROUP BY node_id;
