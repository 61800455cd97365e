-- reads: queue_parts
-- writes: queue_levels, one row per (cluster, queue, resource) and stretch of time: quota, use, what is borrowed and pending, over all flavors
-- invariant: stretches of one queue and resource do not overlap; null where nothing was told
CREATE OR REPLACE TEMP TABLE queue_levels AS
WITH parts AS (
    SELECT *, CASE WHEN quota IS NOT NULL AND used IS NOT NULL THEN greatest(0, used - quota) END AS borrowed FROM queue_parts
),
changes AS (
    SELECT cluster, cluster_queue, resource, at_ms,
        sum(sign * coalesce(quota, 0)) AS quota, sum(sign * (quota IS NOT NULL)::INTEGER) AS quotas,
        sum(sign * coalesce(used, 0)) AS used, sum(sign * (used IS NOT NULL)::INTEGER) AS uses,
        sum(sign * coalesce(borrowed, 0)) AS borrowed, sum(sign * (borrowed IS NOT NULL)::INTEGER) AS borrows,
        sum(sign * coalesce(pending, 0)) AS pending, sum(sign * (pending IS NOT NULL)::INTEGER) AS pendings
    FROM (
        SELECT *, from_ms AS at_ms, 1 AS sign FROM parts
        UNION ALL
        SELECT *, to_ms, -1 FROM parts
    )
    GROUP BY ALL
),
sums AS (
    SELECT cluster, cluster_queue, resource, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms,
        CASE WHEN sum(quotas) OVER w > 0 THEN sum(quota) OVER w END AS quota,
        CASE WHEN sum(uses) OVER w > 0 THEN sum(used) OVER w END AS used,
        CASE WHEN sum(borrows) OVER w > 0 THEN sum(borrowed) OVER w END AS borrowed,
        CASE WHEN sum(pendings) OVER w > 0 THEN sum(pending) OVER w END AS pending
    FROM changes
    WINDOW w AS (PARTITION BY cluster, cluster_queue, resource ORDER BY at_ms)
)
FROM sums WHERE to_ms IS NOT NULL AND (quota IS NOT NULL OR used IS NOT NULL OR pending IS NOT NULL);
