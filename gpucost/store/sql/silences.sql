-- reads: series, states, blocks; $source is queried for [$from_ms, $to_ms); gaps up to $tolerance_ms are not silences
-- writes: silences (temporary): of a cluster's nodes, of one target that reports them, of its GPUs, of one GPU; to_ms null: until the end
-- invariant: nodes may have samples from any source, the others from this one; GPUs are silent only while a node offers
-- some
CREATE OR REPLACE TEMP TABLE silences AS
WITH here AS (
    SELECT DISTINCT cluster FROM series WHERE source = $source
),
node_runs AS (
    SELECT s.source, s.cluster, hash(s.labels['job'], s.labels['instance']) AS target, t.first_ms, t.last_ms
    FROM states AS t
    JOIN series AS s USING (series_id)
    JOIN here USING (cluster)
    WHERE starts_with(s.metric, 'kube_node_')
),
device_series AS (
    -- the device by any label that exporters use for it (pricing/activity_metrics.csv); another exporter version
    -- continues the same devices
    SELECT s.series_id, s.cluster, s.metric, n.node,
        hash(s.cluster, coalesce(s.labels['UUID'], s.labels['uuid'], s.labels['gpu_uuid'], s.labels['serial_number'], s.labels['deviceuuid'],
            s.labels['device_uuid'], s.labels['accelerator_id'], s.labels['neuroncore'], s.labels['Serial'], s.labels['device'], s.labels['gpu_id']),
            coalesce(s.labels['node'], s.labels['Hostname'], s.labels['hostname'], s.labels['nodeid'], s.labels['instance_id']),
            coalesce(s.labels['GPU_I_ID'], '')) AS device
    FROM series AS s
    LEFT JOIN (SELECT DISTINCT cluster, labels['node'] AS node FROM series WHERE metric = 'kube_node_info') AS n
        ON n.cluster = s.cluster
        AND n.node = coalesce(s.labels['node'], s.labels['kubernetes_node'], s.labels['node_name'], s.labels['Hostname'], s.labels['hostname'])
    WHERE s.source = $source AND NOT regexp_matches(s.metric, '^(kube|kueue|kai|volcano)_') AND s.metric NOT IN ('node_boot_time_seconds', 'nvidia_smi_gpu_info')
),
devices AS (
    SELECT device, any_value(cluster) AS cluster, any_value(node) AS node FROM device_series GROUP BY device
),
offered AS (
    -- the time in which nodes with devices existed; if their names are known, only nodes that were ever measured
    SELECT s.cluster, s.labels['node'] AS node, t.first_ms, t.last_ms
    FROM states AS t
    JOIN series AS s USING (series_id)
    SEMI JOIN devices AS d ON d.cluster = s.cluster AND coalesce(d.node = s.labels['node'], true)
    WHERE s.metric = 'kube_node_status_capacity' AND s.labels['resource'] NOT IN ('cpu', 'memory') AND t.value > 0
        AND t.last_ms > $from_ms
),
device_hours AS (
    SELECT d.device, b.hour::BIGINT * 3600000 AS hour_ms, min(b.first_offset_ms) AS first_offset_ms, max(b.last_offset_ms) AS last_offset_ms,
        -- missing time inside the hour, if each metric has a single series
        CASE WHEN count(*) = count(DISTINCT d.metric) THEN min(b.last_offset_ms - b.first_offset_ms - (b.samples - 1) * b.gap_ms) END AS lacking_ms
    FROM blocks AS b
    JOIN device_series AS d USING (series_id)
    -- one day earlier: a series that is silent at the start has earlier samples
    WHERE b.hour >= $from_ms // 3600000 - 24
    GROUP BY d.device, b.hour
),
cluster_hours AS (
    SELECT d.cluster, h.hour_ms, min(h.first_offset_ms) AS first_offset_ms, max(h.last_offset_ms) AS last_offset_ms
    FROM device_hours AS h JOIN devices AS d USING (device)
    GROUP BY ALL
),
suspects AS (
    -- devices without a missing hour and with samples near both ends of each hour were never silent
    SELECT device
    FROM device_hours
    GROUP BY device
    HAVING count(*) * 3600000 <> max(hour_ms) - min(hour_ms) + 3600000 OR bool_or(
        first_offset_ms > $tolerance_ms // 2 OR (last_offset_ms < 3600000 - $tolerance_ms // 2 AND hour_ms + 3600000 <= $to_ms))
),
heard AS (
    SELECT 'nodes' AS family, cluster, NULL AS node, 0::UBIGINT AS speaker, first_ms, last_ms FROM node_runs
    UNION ALL
    SELECT 'target', cluster, NULL, target, first_ms, last_ms FROM node_runs WHERE source = $source
    UNION ALL
    SELECT 'gpus', cluster, NULL, 0, hour_ms + first_offset_ms, hour_ms + last_offset_ms FROM cluster_hours
    UNION ALL
    SELECT 'gpu', d.cluster, d.node, h.device, h.hour_ms + h.first_offset_ms, h.hour_ms + h.last_offset_ms
    FROM device_hours AS h
    JOIN suspects USING (device)
    JOIN devices AS d USING (device)
),
in_order AS (
    SELECT *, max(last_ms) OVER (
        PARTITION BY family, cluster, speaker ORDER BY first_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS heard_ms
    FROM heard
),
unheard AS (
    SELECT family, cluster, node, heard_ms AS from_ms, first_ms AS to_ms
    FROM in_order
    WHERE first_ms - heard_ms > $tolerance_ms AND first_ms > $from_ms AND heard_ms < $to_ms
    UNION ALL
    SELECT family, cluster, NULL, max(last_ms), NULL
    FROM heard
    WHERE family IN ('nodes', 'gpus')
    GROUP BY family, cluster
    HAVING $to_ms - max(last_ms) > $tolerance_ms
    UNION ALL
    SELECT 'gpu', d.cluster, d.node, h.hour_ms + h.first_offset_ms, h.hour_ms + h.last_offset_ms
    FROM device_hours AS h JOIN devices AS d USING (device)
    WHERE h.lacking_ms > $tolerance_ms
)
SELECT u.family, u.cluster, u.from_ms, u.to_ms
FROM unheard AS u
WHERE u.family IN ('nodes', 'target')
UNION
SELECT u.family, u.cluster, u.from_ms, u.to_ms
FROM unheard AS u
SEMI JOIN offered AS o
    ON o.cluster = u.cluster AND (u.node IS NULL OR o.node = u.node)
    AND o.first_ms < coalesce(u.to_ms, $to_ms) - $tolerance_ms AND o.last_ms > u.from_ms + $tolerance_ms
WHERE u.family IN ('gpus', 'gpu');
