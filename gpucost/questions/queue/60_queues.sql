-- reads: states, series, loads, queue_parts, queue_sums; $from_ms, $to_ms the period; $clusters, $queues filter (empty: all)
-- writes: nothing; returns one row per queue and resource, the fullest first: its sums, limits, shares of its cohort, and the increase of each counter of the wait histogram in the period
-- invariant: a counter that falls restarted at 0; copies of one target's series count once, other replicas of Kueue add up
WITH counters AS (
    SELECT s.series_id, s.source, s.cluster, coalesce(s.labels['exported_cluster_queue'], s.labels['cluster_queue']) AS cluster_queue,
        replace(s.metric, 'kueue_admission_wait_time_seconds_', '') AS counter, s.labels['le'] AS upper,
        s.labels['priority_class'] AS priority_class,
        coalesce(s.labels['pod'], s.labels['instance'], '') AS target
    FROM series AS s
    WHERE s.metric IN ('kueue_admission_wait_time_seconds_sum', 'kueue_admission_wait_time_seconds_count', 'kueue_admission_wait_time_seconds_bucket')
),
known AS (
    SELECT s.cluster, min(t.first_ms) AS first_ms FROM states AS t JOIN series AS s USING (series_id) WHERE starts_with(s.metric, 'kueue_') GROUP BY ALL
),
steps AS (
    SELECT c.*, t.first_ms, t.value, lag(t.value) OVER (PARTITION BY t.series_id ORDER BY t.first_ms) AS before
    FROM states AS t JOIN counters AS c USING (series_id)
),
rises AS (
    SELECT p.cluster, p.cluster_queue, p.counter, p.upper, p.priority_class, p.target, p.series_id,
        sum(CASE
            WHEN p.before IS NOT NULL THEN CASE WHEN p.value < p.before THEN p.value ELSE p.value - p.before END
            -- Kueue was scraped before without this series, so it counted from 0
            WHEN k.first_ms <= p.first_ms - 600000 AND EXISTS (
                FROM loads AS l WHERE l.source = p.source AND l.from_ms <= p.first_ms - 600000 AND p.first_ms - 600000 < l.to_ms) THEN p.value
            ELSE 0
        END) AS rise
    FROM steps AS p JOIN known AS k USING (cluster)
    WHERE p.first_ms >= $from_ms AND p.first_ms < $to_ms
    GROUP BY ALL
),
once AS (
    SELECT cluster, cluster_queue, counter, upper, priority_class, target, max(rise) AS rise FROM rises GROUP BY ALL
),
waits AS (
    SELECT cluster, cluster_queue, sum(rise) FILTER (counter = 'count') AS admitted, sum(rise) FILTER (counter = 'sum') AS waited_seconds,
        list({'upper': bound, 'count': rise} ORDER BY bound) FILTER (counter = 'bucket') AS buckets
    FROM (
        SELECT cluster, cluster_queue, counter, replace(upper, '+', '')::DOUBLE AS bound, sum(rise) AS rise FROM once
        WHERE passes($clusters, cluster) AND passes($queues, cluster_queue) GROUP BY ALL
    )
    GROUP BY ALL
),
limits AS (
    -- the newest, summed over flavors: infinite if one flavor has no limit, null without values
    SELECT cluster, cluster_queue, resource, sum(borrowing_limit) AS borrowing_limit, max(cohort) AS cohort
    FROM (
        SELECT cluster, cluster_queue, resource, part, arg_max(borrowing_limit, from_ms) AS borrowing_limit, arg_max(cohort, from_ms) AS cohort
        FROM queue_parts WHERE to_ms > $from_ms AND resource IS NOT NULL GROUP BY ALL
    )
    GROUP BY ALL
),
resources AS (
    SELECT cluster, cluster_queue, resource FROM queue_sums WHERE resource IS NOT NULL
),
queues AS (
    FROM resources
    UNION ALL
    SELECT cluster, cluster_queue, NULL
    FROM (SELECT cluster, cluster_queue FROM queue_sums UNION SELECT cluster, cluster_queue FROM waits)
    ANTI JOIN resources USING (cluster, cluster_queue)
)
SELECT q.cluster, q.cluster_queue, l.cohort, q.resource,
    s.quota, CASE WHEN NOT isinf(l.borrowing_limit) THEN l.borrowing_limit END AS borrowing_limit,
    coalesce(isinf(l.borrowing_limit), false) AS is_borrowing_unlimited,
    s.used_average, s.used_p95, s.used_max, s.borrowed_average, s.borrowed_max, p.pending_average, p.pending_max, s.recent_quota, s.recent_used,
    round(s.recent_quota, 6) / nullif(sum(round(s.recent_quota, 6)) OVER of_cohort, 0) AS share_of_quota,
    round(s.recent_used, 6) / nullif(sum(round(s.recent_used, 6)) OVER of_cohort, 0) AS share_of_use,
    w.admitted, w.waited_seconds, w.buckets
FROM queues AS q
LEFT JOIN queue_sums AS s ON s.cluster = q.cluster AND s.cluster_queue = q.cluster_queue AND s.resource = q.resource
LEFT JOIN queue_sums AS p ON p.cluster = q.cluster AND p.cluster_queue = q.cluster_queue AND p.resource IS NULL
LEFT JOIN limits AS l ON l.cluster = q.cluster AND l.cluster_queue = q.cluster_queue AND l.resource = q.resource
LEFT JOIN waits AS w ON w.cluster = q.cluster AND w.cluster_queue = q.cluster_queue
WINDOW of_cohort AS (PARTITION BY q.cluster, coalesce(l.cohort, ''), q.resource)
ORDER BY coalesce(round(s.used_average, 6), 0) DESC, q.cluster, q.cluster_queue, q.resource NULLS FIRST;
