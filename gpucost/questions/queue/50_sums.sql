-- reads: queue_parts; $from_ms, $to_ms the period, $since_ms the beginning of its last 7 days, $half_life_ms
-- writes: queue_sums, one row per (cluster, queue, resource; null: figures without a resource): time-weighted averages, the 95th percentile and the maximum
-- invariant: averages are over the time for which a gauge is known; the decayed ones weight a moment by 2^(-age / half-life)
CREATE OR REPLACE TEMP TABLE queue_sums AS
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
),
-- quota, use, borrowed and pending, over all flavors; null without values
levels AS (
    FROM sums WHERE to_ms IS NOT NULL AND (quota IS NOT NULL OR used IS NOT NULL OR pending IS NOT NULL)
),
weighed AS (
    SELECT *,
        greatest(0, to_ms - greatest(from_ms, $from_ms)) AS ms,
        -- the integral of the weight over the interval, in units of half-life / ln 2
        CASE WHEN to_ms > $since_ms
            THEN power(2.0, (to_ms - $to_ms) / $half_life_ms::DOUBLE) - power(2.0, (greatest(from_ms, $since_ms) - $to_ms) / $half_life_ms::DOUBLE)
            ELSE 0 END AS weight
    FROM levels
),
ordered AS (
    SELECT *, sum(ms) OVER w AS up_to, sum(ms) OVER (PARTITION BY cluster, cluster_queue, resource, used IS NULL) AS known
    FROM weighed
    WINDOW w AS (PARTITION BY cluster, cluster_queue, resource, used IS NULL ORDER BY used, from_ms)
)
SELECT cluster, cluster_queue, resource,
    arg_max(quota, from_ms) FILTER (ms > 0) AS quota,
    sum(used * ms) FILTER (used IS NOT NULL) / nullif(sum(ms) FILTER (used IS NOT NULL), 0) AS used_average,
    min(used) FILTER (ms > 0 AND up_to >= 0.95 * known) AS used_p95,
    max(used) FILTER (ms > 0) AS used_max,
    sum(borrowed * ms) FILTER (borrowed IS NOT NULL) / nullif(sum(ms) FILTER (borrowed IS NOT NULL), 0) AS borrowed_average,
    max(borrowed) FILTER (ms > 0) AS borrowed_max,
    sum(pending * ms) FILTER (pending IS NOT NULL) / nullif(sum(ms) FILTER (pending IS NOT NULL), 0) AS pending_average,
    max(pending) FILTER (ms > 0) AS pending_max,
    sum(quota * weight) FILTER (quota IS NOT NULL) / nullif(sum(weight) FILTER (quota IS NOT NULL), 0) AS recent_quota,
    sum(used * weight) FILTER (used IS NOT NULL) / nullif(sum(weight) FILTER (used IS NOT NULL), 0) AS recent_used
FROM ordered
GROUP BY ALL;
