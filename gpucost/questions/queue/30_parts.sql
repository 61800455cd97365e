-- reads: queue_edges, queue_runs
-- writes: queue_parts, one row per (cluster, queue, resource, part) and interval: the values of its gauges
-- invariant: replicas of Kueue and of Prometheus count once: the leader's value, otherwise the highest; null if a gauge has no value
CREATE OR REPLACE TEMP TABLE queue_parts AS
WITH gauges AS (
    SELECT e.cluster, e.cluster_queue, e.resource, e.part, e.at_ms, e.next_ms, s.metric, s.leads, s.cohort, r.value
    FROM queue_edges AS e
    JOIN (SELECT DISTINCT series_id, cluster, cluster_queue, resource, part, metric, leads, cohort FROM queue_runs) AS s
        ON s.cluster = e.cluster AND s.cluster_queue = e.cluster_queue AND s.part = e.part AND s.resource IS NOT DISTINCT FROM e.resource
    ASOF JOIN queue_runs AS r ON r.series_id = s.series_id AND e.at_ms >= r.from_ms
    WHERE r.to_ms > e.at_ms
),
once AS (
    SELECT cluster, cluster_queue, resource, part, at_ms, next_ms, metric, arg_max(value, (leads, value)) AS value, max(cohort) AS cohort
    FROM gauges GROUP BY ALL
)
SELECT cluster, cluster_queue, resource, part, at_ms AS from_ms, next_ms AS to_ms, max(cohort) AS cohort,
    any_value(value) FILTER (metric = 'kueue_cluster_queue_nominal_quota') AS quota,
    any_value(value) FILTER (metric = 'kueue_cluster_queue_borrowing_limit') AS borrowing_limit,
    coalesce(any_value(value) FILTER (metric = 'kueue_cluster_queue_resource_usage'),
        any_value(value) FILTER (metric = 'kueue_cluster_queue_resource_reservation')) AS used,
    any_value(value) FILTER (metric = 'kueue_pending_workloads') AS pending
FROM once
GROUP BY ALL;
