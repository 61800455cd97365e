-- reads: allocations, nodes, activity_series, blocks; $from_ms, $to_ms the period
-- writes: activity_devices: one row per (pod, series of its GPUs) and the time the pod held them; a pod with all GPUs of a node, or a part of its only GPU, needs no label
-- invariant: scale converts activity to 0-1, and memory to MiB; activity without a proven unit is left out; memory up
-- to empty_mib does not belong to a pod
CREATE OR REPLACE TEMP TABLE activity_devices AS
WITH named AS (
    SELECT *, min(first_ms) FILTER (pod IS NOT NULL) OVER (PARTITION BY cluster, uuid) AS named_from_ms
    FROM activity_series WHERE scale IS NOT NULL AND part NOT IN ('compared', 'profile')
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
),
-- a device's memory in hours without a pod: its exporter names pods later but not then, or no pod is on its node
baselines AS (
    SELECT n.cluster, n.uuid, n.gpu_instance_id, median(b.value_sum / b.samples * n.scale) AS baseline_mib
    FROM named AS n JOIN blocks AS b USING (series_id)
    ANTI JOIN (FROM allocations JOIN nodes USING (node_id, cluster)) AS p
        ON coalesce(b.hour::BIGINT * 3600000 < n.named_from_ms, true) AND p.cluster = n.cluster AND p.node = n.host
        AND p.held_from_ms < (b.hour::BIGINT + 1) * 3600000 AND b.hour::BIGINT * 3600000 < p.held_to_ms
    WHERE n.part = 'memory' AND n.pod IS NULL AND b.hour BETWEEN $from_ms // 3600000 AND ($to_ms - 1) // 3600000
    GROUP BY ALL
)
SELECT a.allocation_id, n.series_id, n.uuid || '/' || n.gpu_instance_id AS device,
    CASE WHEN n.part = 'memory' THEN 'memory' ELSE 'activity' END AS kind,
    CASE WHEN n.part = 'memory' THEN n.scale ELSE n.scale / 100 END AS scale,
    greatest(a.held_from_ms, $from_ms) AS held_from_ms, least(a.held_to_ms, $to_ms) AS held_to_ms,
    -- a process of a pod takes more than 64 MiB; a driver and a bare context take less than 1 GiB
    CASE WHEN n.part = 'memory' THEN coalesce(e.baseline_mib + 64, 1024) END AS empty_mib
FROM placed AS p JOIN allocations AS a USING (allocation_id) JOIN named AS n USING (series_id)
LEFT JOIN baselines AS e ON (e.cluster, e.uuid, e.gpu_instance_id) = (n.cluster, n.uuid, n.gpu_instance_id)
WHERE a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms;
