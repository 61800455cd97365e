-- reads: allocations, nodes, activity_series; $from_ms, $to_ms the period
-- writes: activity_devices, one row per (pod, series of its GPUs): when it held them. All GPUs of a node, or a part of its only one, need no label
-- invariant: scale makes activity a share 0-1, and memory MiB; activity whose unit is not proven is left out
CREATE OR REPLACE TEMP TABLE activity_devices AS
WITH named AS (
    FROM activity_series WHERE scale IS NOT NULL AND part <> 'compared'
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
    CASE WHEN n.part = 'memory' THEN 'memory' ELSE 'activity' END AS kind,
    CASE WHEN n.part = 'memory' THEN n.scale ELSE n.scale / 100 END AS scale,
    greatest(a.held_from_ms, $from_ms) AS held_from_ms, least(a.held_to_ms, $to_ms) AS held_to_ms
FROM placed AS p JOIN allocations AS a USING (allocation_id) JOIN named AS n USING (series_id)
WHERE a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms;
