-- reads: queue_edges, queue_runs
-- writes: queue_parts, one row per (queue, resource, part) and interval: the values of its gauges
-- invariant: replicas of a scheduler and of Prometheus count once: the leader's value, otherwise the highest; null if a gauge has no value
CREATE OR REPLACE TEMP TABLE queue_parts AS
WITH gauges AS (
    SELECT e.queue, e.resource, e.part, e.at_ms, e.next_ms, s.gauge, s.leads, s.cohort, r.value
    FROM queue_edges AS e
    JOIN (SELECT DISTINCT series_id, queue, resource, part, gauge, leads, cohort FROM queue_runs) AS s
        ON s.queue = e.queue AND s.part = e.part AND s.resource IS NOT DISTINCT FROM e.resource
    ASOF JOIN queue_runs AS r ON r.series_id = s.series_id AND e.at_ms >= r.from_ms
    WHERE r.to_ms > e.at_ms
),
once AS (
    SELECT queue, resource, part, at_ms AS from_ms, next_ms AS to_ms, gauge, arg_max(value, (leads, value)) AS value,
        max(max(cohort)) OVER (PARTITION BY queue, resource, part, at_ms) AS cohort
    FROM gauges GROUP BY queue, resource, part, at_ms, next_ms, gauge
)
SELECT * EXCLUDE (used, reserved, wanted, requested), coalesce(o.used, reserved) AS used,
    coalesce(o.wanted, CASE WHEN requested < used THEN 0 ELSE requested - used END) AS wanted
FROM (
    PIVOT once ON gauge IN ('quota', 'limit' AS borrowing_limit, 'used', 'reserved', 'pending', 'wanted', 'requested')
    USING any_value(value) GROUP BY queue, resource, part, from_ms, to_ms, cohort
) AS o;
