-- reads: device_series, state_intervals, slurm_nodes, slurm_runs, loads, host_rules
-- writes: device_hosts, one row per exporters' name of a host that is a node: the node; plain_hosts, one row per host without Kubernetes or Slurm, with its [[hosts]] entry, if any; node_lifetimes, the same hosts; placeless_series, series of hosts that are not nodes
-- invariant: a plain host is not a node of Kubernetes or Slurm by its names, pods or GPUs; if its cluster has such nodes, [[hosts]] names it
CREATE OR REPLACE TEMP TABLE device_hosts AS
WITH names AS (
    SELECT cluster, node FROM state_intervals WHERE starts_with(metric, 'kube_node_') AND node IS NOT NULL
    UNION
    SELECT cluster, node FROM slurm_nodes
    UNION
    SELECT cluster, unnest(nodes) FROM slurm_runs
),
hosts AS (
    SELECT DISTINCT cluster, host, node_label FROM device_series
),
-- exporters name the host differently: the node's name, a label added by relabeling, or the short name
matches AS (
    SELECT h.*, n.node, 1 AS rank FROM hosts AS h JOIN names AS n ON n.cluster = h.cluster AND n.node = h.host
    UNION ALL
    SELECT h.*, n.node, 2 FROM hosts AS h JOIN names AS n ON n.cluster = h.cluster AND n.node = h.node_label
    UNION ALL
    SELECT h.*, n.node, 3
    FROM hosts AS h
    JOIN names AS n ON n.cluster = h.cluster AND split_part(n.node, '.', 1) = split_part(h.host, '.', 1)
    WHERE h.host <> '' AND h.host NOT SIMILAR TO '[0-9.]+'
    UNION ALL
    -- or its number in its cloud
    SELECT h.*, n.node, 4
    FROM hosts AS h
    JOIN (
        SELECT DISTINCT cluster, node, regexp_extract(labels['provider_id'], '[^/]+$') AS machine FROM state_intervals
        WHERE metric = 'kube_node_info' AND labels['provider_id'] <> ''
    ) AS n ON n.cluster = h.cluster AND n.machine = h.host
)
SELECT cluster, host, node_label, arg_min(node, rank) AS node FROM matches GROUP BY ALL;

CREATE OR REPLACE TEMP VIEW placeless_series AS FROM device_series ANTI JOIN device_hosts USING (cluster, host) WHERE host <> '';

-- only with: placeless_series
-- otherwise: plain_hosts (node_id UBIGINT, cluster VARCHAR, node VARCHAR, up_from_ms BIGINT, up_to_ms BIGINT, provider VARCHAR, user_label VARCHAR, labels MAP(VARCHAR, VARCHAR))
CREATE OR REPLACE TEMP TABLE plain_hosts AS
WITH others AS (
    SELECT *, cluster IN (
        SELECT cluster FROM state_intervals WHERE starts_with(metric, 'kube_node_') UNION ALL SELECT source FROM loads WHERE kind = 'slurm') AS has_nodes
    FROM placeless_series
),
-- a Kubernetes pod is on it, so it is a node under another name
podded AS (
    SELECT o.cluster, o.host FROM others AS o JOIN state_intervals AS f USING (cluster, namespace, pod)
    WHERE o.has_nodes AND f.metric = 'kube_pod_info'
),
hosts AS (
    SELECT cluster, host, any_value(has_nodes) AS has_nodes, min(first_ms) AS up_from_ms, max(end_ms) AS up_to_ms
    FROM others ANTI JOIN podded USING (cluster, host)
    GROUP BY ALL
)
SELECT hash(h.cluster, h.host, NULL::VARCHAR, NULL::BIGINT) AS node_id, h.cluster, h.host AS node, h.up_from_ms, h.up_to_ms,
    r.provider, r.user_label, r.labels
FROM hosts AS h LEFT JOIN host_rules AS r ON h.host GLOB r.pattern AND h.cluster GLOB r.clusters
WHERE r.ordinal IS NOT NULL OR NOT h.has_nodes
QUALIFY row_number() OVER (PARTITION BY h.cluster, h.host ORDER BY r.ordinal) = 1;

-- only with: plain_hosts
INSERT INTO device_hosts
SELECT DISTINCT p.cluster, p.node, d.node_label, p.node FROM plain_hosts AS p JOIN device_series AS d ON d.cluster = p.cluster AND d.host = p.node;

-- Exporters that measure one GPU at one time are on one machine: the node of Kubernetes or Slurm, otherwise the last
-- host by name (names sort after addresses).
-- only with: plain_hosts
UPDATE device_hosts AS t SET node = w.node
FROM (
    SELECT p.cluster, p.node AS host, arg_max(k.node, (q.node IS NULL, k.node)) AS node
    FROM plain_hosts AS p
    JOIN device_series AS o ON o.cluster = p.cluster AND o.host = p.node
    JOIN device_series AS d ON d.cluster = o.cluster AND d.uuid = o.uuid AND d.first_ms < o.end_ms AND o.first_ms < d.end_ms
    JOIN device_hosts AS k ON k.cluster = d.cluster AND k.host = d.host
    LEFT JOIN plain_hosts AS q ON q.cluster = k.cluster AND q.node = k.node
    WHERE q.node IS NULL OR q.node > p.node
    GROUP BY ALL
) AS w
WHERE t.cluster = w.cluster AND t.host = w.host;
-- only with: plain_hosts
DELETE FROM plain_hosts WHERE (cluster, node) NOT IN (SELECT (cluster, node) FROM device_hosts);

-- only with: plain_hosts
INSERT INTO node_lifetimes BY NAME
SELECT node_id, cluster, node, NULL AS machine_id, NULL AS created_ms, up_from_ms, up_to_ms FROM plain_hosts;
