-- reads: node_lives, device_series, facts
-- writes: node_devices, one row per activity series and node life it was measured on, with device_id for (node, UUID, MIG instance)
-- invariant: a series stands on one name at a time; a device_id belongs to one node life
CREATE OR REPLACE TEMP TABLE node_devices AS
WITH names AS (
    SELECT DISTINCT cluster, node FROM node_lives
),
-- exporters differ in what they call the host: the node's name, its short name, or nothing but the pod on the GPU
candidates AS (
    SELECT d.series_id, n.node, 1 AS rank
    FROM device_series AS d JOIN names AS n ON n.cluster = d.cluster AND n.node IN (d.host, d.node_label)
    UNION ALL
    SELECT d.series_id, n.node, 2
    FROM device_series AS d
    JOIN names AS n ON n.cluster = d.cluster AND split_part(n.node, '.', 1) = split_part(d.host, '.', 1) AND d.host NOT SIMILAR TO '[0-9.]+'
    UNION ALL
    SELECT d.series_id, f.node, 3
    FROM device_series AS d
    JOIN facts AS f ON f.cluster = d.cluster AND f.namespace = d.namespace AND f.pod = d.pod
        AND f.metric = 'kube_pod_info' AND coalesce(f.node, '') <> '' AND f.first_ms <= d.last_ms AND d.first_ms <= f.end_ms
),
placed AS (
    SELECT series_id, arg_min(node, (rank, node)) AS node FROM candidates GROUP BY series_id
)
SELECT
    d.*,
    n.node_id, n.up_from_ms, n.up_to_ms,
    hash(n.node_id, d.uuid, d.gpu_instance_id) AS device_id
FROM device_series AS d
JOIN placed AS p USING (series_id)
JOIN node_lives AS n ON n.cluster = d.cluster AND n.node = p.node
    AND d.first_ms < n.up_to_ms AND n.up_from_ms <= d.last_ms;
