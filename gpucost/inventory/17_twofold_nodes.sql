-- reads: state_intervals, coverage_gaps
-- writes: twofold_nodes, one row per (cluster, node name) that two machines have at one time: when, and the label that tells them apart; coverage_gaps (stored), the same as partial time
-- invariant: to_ms - from_ms > 600,000; a node that was created again under its name has one provider id after the other
CREATE OR REPLACE TEMP TABLE twofold_nodes AS
WITH machines AS MATERIALIZED (
    SELECT cluster, node, labels['provider_id'] AS machine, labels, first_ms, last_ms
    FROM state_intervals
    WHERE metric = 'kube_node_info' AND node IS NOT NULL AND coalesce(labels['provider_id'], '') <> ''
    QUALIFY min(labels['provider_id']) OVER (PARTITION BY cluster, node) < max(labels['provider_id']) OVER (PARTITION BY cluster, node)
),
together AS (
    SELECT a.cluster, a.node, greatest(a.first_ms, b.first_ms) AS from_ms, least(a.last_ms, b.last_ms) AS to_ms,
        list_filter(['cluster', 'cluster_name', 'k8s_cluster', 'kubernetes_cluster', 'cluster_id', 'prometheus', 'environment', 'env', 'region'],
            lambda name: a.labels[name] IS DISTINCT FROM b.labels[name])[1] AS label
    FROM machines AS a JOIN machines AS b ON b.cluster = a.cluster AND b.node = a.node AND a.machine < b.machine
        AND a.first_ms < b.last_ms AND b.first_ms < a.last_ms
)
SELECT cluster, node, min(from_ms) AS from_ms, max(to_ms) AS to_ms, any_value(label) AS label
FROM together
GROUP BY cluster, node
HAVING sum(to_ms - from_ms) > 600000;

INSERT INTO coverage_gaps BY NAME
SELECT cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms, 'partial' AS kind, ['nodes'] AS families,
    format('two machines at once are named {}: set [prometheus] cluster_label to {}', string_agg(node, ', ' ORDER BY node),
        coalesce('"' || any_value(label) || '"', 'the label that names the cluster, an external label of the server')) AS reason
FROM twofold_nodes
GROUP BY cluster;
