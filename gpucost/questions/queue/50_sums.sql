-- reads: queue_parts; $from_ms, $to_ms the period, $since_ms the beginning of its last 7 days, $half_life_ms
-- writes: queue_sums, one row per (queue, resource; null: figures without a resource): time-weighted averages, the 95th percentile and the maximum
-- invariant: averages are over the time for which a gauge is known; the decayed ones weight a moment by 2^(-age / half-life)
CREATE OR REPLACE TEMP TABLE queue_sums AS
WITH parts AS (
    SELECT queue, resource, from_ms, to_ms, gauge, value
    FROM (SELECT *, CASE WHEN quota IS NOT NULL AND used IS NOT NULL THEN greatest(0, used - quota) END AS borrowed FROM queue_parts)
    UNPIVOT (value FOR gauge IN (quota, used, borrowed, pending))
),
changes AS (
    SELECT queue, resource, gauge, at_ms, sum(sign * value) AS change, sum(sign) AS parts
    FROM (SELECT *, from_ms AS at_ms, 1 AS sign FROM parts UNION ALL SELECT *, to_ms, -1 FROM parts)
    GROUP BY ALL
),
-- quota, use, borrowed and pending, over all flavors
levels AS (
    SELECT queue, resource, gauge, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(change) OVER w AS value, sum(parts) OVER w > 0 AS is_known
    FROM changes
    WINDOW w AS (PARTITION BY queue, resource, gauge ORDER BY at_ms)
),
weighed AS (
    SELECT *,
        greatest(0, to_ms - greatest(from_ms, $from_ms)) AS ms,
        -- the integral of the weight over the interval, in units of half-life / ln 2
        CASE WHEN to_ms > $since_ms
            THEN power(2.0, (to_ms - $to_ms) / $half_life_ms::DOUBLE) - power(2.0, (greatest(from_ms, $since_ms) - $to_ms) / $half_life_ms::DOUBLE)
            ELSE 0 END AS weight
    FROM levels
    WHERE is_known
),
ordered AS (
    SELECT *, sum(ms) OVER (PARTITION BY queue, resource, gauge ORDER BY value, from_ms) AS up_to, sum(ms) OVER (PARTITION BY queue, resource, gauge) AS known
    FROM weighed
),
figures AS (
    SELECT queue, resource, gauge,
        arg_max(value, from_ms) FILTER (ms > 0) AS last, sum(value * ms) / nullif(sum(ms), 0) AS average,
        min(value) FILTER (ms > 0 AND up_to >= 0.95 * known) AS p95, max(value) FILTER (ms > 0) AS maximum,
        sum(value * weight) / nullif(sum(weight), 0) AS recent
    FROM ordered
    GROUP BY ALL
)
FROM (
    PIVOT figures ON gauge IN ('quota', 'used', 'borrowed', 'pending')
    USING any_value(last) AS last, any_value(average) AS average, any_value(p95) AS p95, any_value(maximum) AS max, any_value(recent) AS recent
    GROUP BY queue, resource
);
