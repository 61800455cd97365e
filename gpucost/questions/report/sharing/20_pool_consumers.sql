-- reads: report_cost_cells, time_buckets, nodes, allocations, report_rules
-- writes: pool_consumers, one row per (node, allocation, team, time_bucket) of the whole fleet, without filters; source is the rule that lists its namespace
-- invariant: sums equal those over the cells of the period; if several rules list a pod's namespace, the first is its source
CREATE OR REPLACE TEMP TABLE pool_consumers AS
WITH cell_buckets AS (
    SELECT c.from_ms, s.from_ms AS time_bucket
    FROM (SELECT DISTINCT from_ms FROM report_cost_cells) AS c
    JOIN time_buckets AS s ON c.from_ms >= s.from_ms AND c.from_ms < s.to_ms
),
sums AS (
    SELECT c.kind, c.node_id, c.allocation_id, c.team, t.time_bucket,
        sum(c.cost)                             AS cost,
        sum(c.unallocated_cost)                 AS unallocated_cost,
        sum(c.allocated_gpu_ms::DECIMAL(38, 9)) AS gpu_ms
    FROM report_cost_cells AS c JOIN cell_buckets AS t USING (from_ms)
    GROUP BY ALL
),
sources AS (
    SELECT n.namespace, min(r.rule) AS source
    FROM (SELECT DISTINCT namespace FROM allocations) AS n
    JOIN (SELECT rule, unnest(patterns) AS pattern FROM report_rules) AS r ON n.namespace GLOB r.pattern
    GROUP BY n.namespace
)
SELECT s.*, n.cluster, n.gpu_model, n.capacity_type, o.source
FROM sums AS s
JOIN nodes AS n USING (node_id)
LEFT JOIN allocations AS a ON a.allocation_id = s.allocation_id
LEFT JOIN sources AS o ON o.namespace = a.namespace;
