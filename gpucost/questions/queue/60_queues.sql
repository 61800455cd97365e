-- reads: queue_rises, queue_parts, queue_sums, queue_levels, waiting_gpus, queue_models; $from_ms the beginning of the period; $queues filters (empty: all)
-- writes: nothing; returns one row per queue and resource, the fullest first: its sums, limits, shares of its cohort, the wait histogram of the period, its pending GPU-hours, and the cost of unallocated GPUs meanwhile
-- invariant: shares are of the queue's cohort, whether or not its other queues pass the filter; null without cohorts: KAI and Volcano export no tree of queues
WITH waits AS (
    SELECT queue, sum(rise) FILTER (counter = 'count') AS admitted, sum(rise) FILTER (counter = 'sum') AS waited_seconds,
        list({'upper': bound, 'count': rise} ORDER BY bound) FILTER (counter = 'bucket') AS buckets
    FROM (SELECT queue, counter, TRY_CAST(replace(upper, '+', '') AS DOUBLE) AS bound, rise FROM queue_rises)
    GROUP BY ALL
),
limits AS (
    -- the newest, summed over flavors: infinite if one flavor has no limit, null without values
    SELECT queue, resource, sum(borrowing_limit) AS borrowing_limit, max(cohort) AS cohort
    FROM (
        SELECT queue, resource, part, arg_max(borrowing_limit, from_ms) AS borrowing_limit, arg_max(cohort, from_ms) AS cohort
        FROM queue_parts WHERE to_ms > $from_ms AND resource IS NOT NULL GROUP BY ALL
    )
    GROUP BY ALL
),
requests AS (
    SELECT queue, queue_id, sum(wanted * (to_ms - from_ms)) / 3600000 AS gpu_hours, bool_and(is_exported) AS is_exported, bool_or(unused IS NOT NULL) AS has_quota
    FROM queue_levels GROUP BY ALL
),
unallocated AS (
    SELECT queue_id, sum(free_cost * (to_ms - from_ms))::DECIMAL(38, 9) AS cost FROM waiting_gpus GROUP BY ALL
),
resources AS (
    SELECT queue, resource FROM queue_sums WHERE resource IS NOT NULL
),
queues AS (
    FROM resources
    UNION ALL
    SELECT queue, NULL FROM (SELECT queue FROM queue_sums UNION SELECT queue FROM waits UNION SELECT queue FROM queue_levels) ANTI JOIN resources USING (queue)
)
SELECT q.queue.cluster, q.queue.scheduler, q.queue.name AS cluster_queue, l.cohort, q.resource,
    s.quota_last AS quota, CASE WHEN NOT isinf(l.borrowing_limit) THEN l.borrowing_limit END AS borrowing_limit,
    coalesce(isinf(l.borrowing_limit), false) AS is_borrowing_unlimited,
    s.used_average, s.used_p95, s.used_max, s.borrowed_average, s.borrowed_max, p.pending_average, p.pending_max, s.quota_recent AS recent_quota, s.used_recent AS recent_used,
    CASE q.queue.scheduler WHEN 'Kueue' THEN round(s.quota_recent, 6) / nullif(sum(round(s.quota_recent, 6)) OVER of_cohort, 0) END AS share_of_quota,
    CASE q.queue.scheduler WHEN 'Kueue' THEN round(s.used_recent, 6) / nullif(sum(round(s.used_recent, 6)) OVER of_cohort, 0) END AS share_of_use,
    w.admitted, w.waited_seconds, w.buckets, r.gpu_hours AS pending_gpu_hours, r.is_exported,
    u.cost AS unallocated_cost, q.queue IN (SELECT queue FROM queue_models) AS has_models, r.has_quota
FROM queues AS q
LEFT JOIN queue_sums AS s USING (queue, resource)
LEFT JOIN queue_sums AS p ON p.queue = q.queue AND p.resource IS NULL
LEFT JOIN limits AS l USING (queue, resource)
LEFT JOIN waits AS w USING (queue)
LEFT JOIN requests AS r USING (queue)
LEFT JOIN unallocated AS u USING (queue_id)
WINDOW of_cohort AS (PARTITION BY q.queue.cluster, q.queue.scheduler, coalesce(l.cohort, ''), q.resource)
QUALIFY passes($queues, q.queue.name)
ORDER BY coalesce(round(s.used_average, 6), 0) DESC, q.queue, q.resource NULLS FIRST;
