-- reads: queue_parts, queue_pods, queue_models, allocations, pending_pods; $from_ms, $to_ms the period; $clusters filters (empty: all)
-- writes: queue_levels, one row per interval within an hour of a queue's gauges by resource and flavor, or of a pending pod: in GPUs, the requests that wait, and the unused quota, negative if the queue borrows
-- invariant: requests of a queue come from its scheduler's gauge, otherwise from its pods; quotas of a cohort and flavor are in one pool; KAI's and Volcano's queues without pods may be parents of others and are in none
CREATE OR REPLACE TEMP TABLE queue_levels AS
WITH sizes AS (
    SELECT cluster, resource, sum(gpus) / sum(units) AS size FROM allocations WHERE units > 0 GROUP BY ALL
),
intervals AS (
    SELECT queue, from_ms, to_ms, wanted * coalesce(size, 1) AS wanted, (quota - used) * coalesce(size, 1) AS unused,
        true AS is_exported,
        CASE WHEN cohort IS NOT NULL OR queue.scheduler <> 'Kueue' AND queue IN (SELECT queue FROM queue_models)
            THEN hash(queue.cluster, queue.scheduler, cohort, p.resource, part) END AS pool
    FROM queue_parts AS p
    LEFT JOIN sizes AS s ON s.cluster = queue.cluster
        AND s.resource = regexp_replace(lower(p.resource), '[^a-z0-9]', '_', 'g')
    WHERE p.resource IS NOT NULL
    UNION ALL BY NAME
    SELECT queue, from_ms, to_ms, gpus AS wanted, false AS is_exported
    FROM pending_pods JOIN queue_pods USING (cluster, uid)
    WHERE passes($clusters, cluster)
),
hours AS (
    SELECT *, unnest(range(greatest(from_ms, $from_ms) // 3600000, (least(to_ms, $to_ms) - 1) // 3600000 + 1)) AS hour
        FROM intervals
)
SELECT hash(queue) AS queue_id, * REPLACE (greatest(from_ms, hour * 3600000, $from_ms) AS from_ms,
    least(to_ms, (hour + 1) * 3600000, $to_ms) AS to_ms) FROM hours
QUALIFY is_exported OR NOT bool_or(is_exported AND wanted IS NOT NULL) OVER (PARTITION BY queue);
