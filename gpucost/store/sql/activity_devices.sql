-- reads: allocations, nodes, series; $from_ms, $to_ms the period; the metrics $device, $mig, $memory (lower-cased) and the scales of the first two
-- writes: activity_devices, one row per (pod, series of its GPUs): when it held them. All GPUs of a node, or a part of its only one, need no label
-- invariant: scale makes activity a share 0-1; of memory it is 1 (MiB)
CREATE OR REPLACE TEMP TABLE activity_devices AS
WITH named AS (
    SELECT series_id, cluster, lower(metric) AS metric, coalesce(labels['GPU_I_ID'], '') AS gpu_instance_id,
        coalesce(labels['UUID'], labels['uuid']) AS uuid,
        coalesce(labels['Hostname'], labels['hostname'], labels['node'], labels['kubernetes_node'], labels['node_name'],
            regexp_replace(labels['instance'], ':[0-9]+$', '')) AS host,
        nullif(coalesce(labels['exported_namespace'], labels['pod_namespace'], labels['namespace']), '') AS namespace,
        nullif(coalesce(labels['exported_pod'], labels['pod_name'], labels['pod']), '') AS pod
    FROM series
    WHERE lower(metric) IN ($device, $mig, $memory)
),
placed AS (
    SELECT a.allocation_id, n.series_id
    FROM allocations AS a JOIN named AS n ON n.cluster = a.cluster AND n.namespace = a.namespace AND n.pod = a.pod
    UNION
    SELECT a.allocation_id, n.series_id
    FROM allocations AS a
    JOIN nodes AS o USING (node_id)
    JOIN named AS n ON n.cluster = a.cluster AND n.host = o.node
    WHERE a.gpus >= o.gpu_count - 1e-6 OR o.gpu_count <= 1
)
SELECT a.allocation_id, n.series_id, n.uuid || '/' || n.gpu_instance_id AS device,
    CASE WHEN n.metric = $memory THEN 'memory' ELSE 'activity' END AS kind,
    CASE WHEN n.metric = $memory THEN 1.0 WHEN n.gpu_instance_id = '' THEN $device_scale::DOUBLE / 100 ELSE $mig_scale::DOUBLE / 100 END AS scale,
    greatest(a.held_from_ms, $from_ms) AS held_from_ms, least(a.held_to_ms, $to_ms) AS held_to_ms
FROM placed AS p JOIN allocations AS a USING (allocation_id) JOIN named AS n USING (series_id)
WHERE a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms AND n.uuid IS NOT NULL
    AND (n.metric = $memory OR n.metric = CASE WHEN n.gpu_instance_id = '' THEN $device ELSE $mig END);
