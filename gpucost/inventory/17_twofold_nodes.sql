-- reads: state_intervals, accepted_gaps, coverage_gaps
-- writes: twofold_nodes, one row per (cluster, node name) of two machines at one time: when, and how to separate them; coverage_gaps (stored), the same as partial time; node_machines, node names with several provider ids
-- invariant: both were listed together for over 600,000 ms; a recreated node has its provider ids one after the other
CREATE OR REPLACE TEMP VIEW node_machines AS
SELECT cluster, node, labels['provider_id'] AS machine, labels, first_ms, last_ms, end_ms
FROM state_intervals
WHERE metric = 'kube_node_info' AND node IS NOT NULL AND coalesce(labels['provider_id'], '') <> ''
QUALIFY min(labels['provider_id']) OVER (PARTITION BY cluster, node) < max(labels['provider_id']) OVER (PARTITION BY cluster, node);

-- only with: node_machines
-- otherwise: twofold_nodes (cluster VARCHAR, node VARCHAR, from_ms BIGINT, end_ms BIGINT, fix VARCHAR)
CREATE OR REPLACE TEMP TABLE twofold_nodes AS
WITH together AS (
    SELECT a.cluster, a.node, greatest(a.first_ms, b.first_ms) AS from_ms, least(a.last_ms, b.last_ms) AS to_ms, least(a.end_ms, b.end_ms) AS end_ms,
        list_filter(['cluster', 'cluster_name', 'k8s_cluster', 'kubernetes_cluster', 'cluster_id', 'prometheus', 'environment', 'env', 'region'],
            lambda name: a.labels[name] IS DISTINCT FROM b.labels[name])[1] AS label
    FROM node_machines AS a JOIN node_machines AS b ON b.cluster = a.cluster AND b.node = a.node AND a.machine < b.machine
        AND a.first_ms < b.last_ms AND b.first_ms < a.last_ms
)
SELECT cluster, node, min(from_ms) AS from_ms, max(end_ms) AS end_ms,
    'set [prometheus] cluster_label to ' || coalesce('"' || any_value(label) || '"', 'the label that names the cluster, an external label of the server') AS fix
FROM together
GROUP BY cluster, node
HAVING sum(to_ms - from_ms) > 600000;

-- only with: twofold_nodes
INSERT INTO coverage_gaps BY NAME
WITH times AS (
    SELECT cluster, min(from_ms) AS from_ms, max(end_ms) AS to_ms, string_agg(node, ', ' ORDER BY node) AS nodes, min(fix) AS fix
    FROM twofold_nodes
    GROUP BY cluster
)
SELECT t.cluster, t.from_ms, t.to_ms, 'partial' AS kind, ['nodes'] AS families,
    format('two machines have the node name {} at once: {}', t.nodes, t.fix) AS reason,
    arg_min(a.who, a.ordinal) AS accepted_by, arg_min(a.why, a.ordinal) AS accepted_why
FROM times AS t
LEFT JOIN accepted_gaps AS a ON coalesce(a.cluster, t.cluster) = t.cluster AND a.from_ms <= t.from_ms AND t.to_ms <= a.to_ms
GROUP BY ALL;
