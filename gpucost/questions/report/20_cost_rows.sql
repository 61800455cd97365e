-- reads: report_cost_cells, nodes, allocations, allocation_traits, time_buckets, label_spans; variable report_is_cut: there are several time_buckets; $by is the list of requested dimensions; variable filters
-- writes: cost_rows, one row per (kind, node, allocation, team, time_bucket) with the sums of every measure; dimensions that no table of the report needs are null
-- invariant: sums over cost_rows equal the sums over the cells of the period that pass the filters
CREATE OR REPLACE TEMP TABLE cost_rows AS
WITH cell_buckets AS (
    SELECT c.from_ms, s.from_ms AS time_bucket
    FROM (SELECT DISTINCT from_ms FROM report_cost_cells) AS c
    JOIN time_buckets AS s ON c.from_ms >= s.from_ms AND c.from_ms < s.to_ms
),
cells AS (
    -- a single bucket holds every cell
    SELECT c.*, s.from_ms AS time_bucket FROM report_cost_cells AS c CROSS JOIN time_buckets AS s
    WHERE NOT getvariable('report_is_cut')
    UNION ALL BY NAME
    SELECT c.*, s.time_bucket FROM report_cost_cells AS c JOIN cell_buckets AS s USING (from_ms)
    WHERE getvariable('report_is_cut')
),
sums AS (
    -- sums of doubles differ in the last digits from run to run with several threads; sums of decimals do not
    SELECT
        kind, node_id, allocation_id, team, time_bucket,
        total_ms(allocated_gpu_ms) AS allocated_gpu_ms,
        total_ms(active_gpu_ms) AS active_gpu_ms,
        total_ms(idle_gpu_ms) AS idle_gpu_ms,
        total_ms(unmeasured_gpu_ms) AS unmeasured_gpu_ms,
        total_ms(utilization_gpu_ms) AS utilization_gpu_ms,
        total_ms(unallocated_gpu_ms) AS unallocated_gpu_ms,
        total_ms(unavailable_gpu_ms) AS unavailable_gpu_ms,
        total_ms(not_collected_gpu_ms) AS not_collected_gpu_ms,
        sum(cost)                                       AS cost,
        sum(idle_cost)                                  AS idle_cost,
        sum(unallocated_cost)                           AS unallocated_cost,
        sum(not_collected_cost)                         AS not_collected_cost,
        sum(estimated_cost)                             AS estimated_cost
    FROM cells
    GROUP BY ALL
)
SELECT
    f.* EXCLUDE (time_bucket),
    n.cluster, n.gpu_model, n.capacity_type,
    CASE f.kind WHEN 'allocated' THEN a.namespace END AS namespace, CASE f.kind WHEN 'allocated' THEN a.workload END AS workload,
    CASE WHEN list_contains($by::VARCHAR[], 'node') THEN n.node END                   AS node,
    CASE WHEN list_contains($by::VARCHAR[], 'region') THEN n.region END               AS region,
    CASE WHEN list_contains($by::VARCHAR[], 'zone') THEN n.zone END                   AS zone,
    CASE WHEN list_contains($by::VARCHAR[], 'workload_type') THEN t.workload_type END AS workload_type,
    CASE WHEN list_contains($by::VARCHAR[], 'pod') AND f.kind = 'allocated' THEN a.pod END                     AS pod,
    CASE WHEN list_contains($by::VARCHAR[], 'uid') AND f.kind = 'allocated' THEN a.uid END                     AS uid,
    CASE WHEN list_contains($by::VARCHAR[], 'account') THEN a.account END             AS account,
    CASE WHEN list_contains($by::VARCHAR[], 'user') THEN a."user" END                 AS "user",
    CASE WHEN list_contains($by::VARCHAR[], 'partition') THEN a.partition END         AS partition,
    CASE WHEN list_contains($by::VARCHAR[], 'qos') THEN a.qos END                     AS qos,
    CASE WHEN a.resource = 'reservation' THEN a.pod END AS reservation,
    s.month, s.day, s.hour, l.labels
FROM sums AS f
JOIN nodes AS n USING (node_id)
JOIN time_buckets AS s ON s.from_ms = f.time_bucket
LEFT JOIN allocations AS a ON a.allocation_id = f.allocation_id
LEFT JOIN allocation_traits AS t ON t.allocation_id = f.allocation_id
LEFT JOIN label_spans AS l ON l.node_id = f.node_id AND l.allocation_id IS NOT DISTINCT FROM f.allocation_id
    AND l.from_ms <= f.time_bucket AND f.time_bucket < l.to_ms
WHERE is_selected(n.cluster, a.namespace, f.team, a.workload, a."user", l.is_selected);
