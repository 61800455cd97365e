-- reads: waiting_gpus, queue_levels; $queues filters (empty: all)
-- writes: nothing; returns one row per queue that waited, other queue of its cohort, and kind of that queue's quota: GPU-hours and cost
-- invariant: at a time, the GPUs of a kind are at most the pending GPUs, and at most the other queues' quota of that kind, by flavor
WITH levels AS (
    SELECT *, greatest(0, unused) AS idle, greatest(0, -unused) AS borrowed FROM queue_levels WHERE unused IS NOT NULL
        AND pool IS NOT NULL
),
queues AS (
    SELECT queue_id, any_value(queue) AS queue, count(DISTINCT pool) AS parts FROM levels GROUP BY queue_id
),
-- the quotas of a pool between two changes of any of them
offers AS (
    SELECT queue_id, e.*, idle, borrowed, sum(idle) OVER w AS all_idle, sum(borrowed) OVER w AS all_borrowed
    FROM (
        SELECT *, lead(at_ms) OVER (PARTITION BY pool, hour ORDER BY at_ms) AS next_ms
        FROM (SELECT DISTINCT pool, hour, unnest([from_ms, to_ms]) AS at_ms FROM levels)
    ) AS e
    JOIN levels AS l USING (pool, hour) WHERE l.from_ms <= at_ms AND at_ms < l.to_ms
    WINDOW w AS (PARTITION BY pool, at_ms)
),
needs AS (
    SELECT queue_id, pool, at_ms, from_ms, to_ms - from_ms AS ms, free / parts AS free, free_cost / parts AS free_cost,
        least((gpus - free) / parts, idle) AS lent, held_price, all_idle, all_borrowed
    FROM waiting_gpus AS n JOIN queues USING (queue_id) JOIN offers USING (queue_id, hour)
    WHERE at_ms <= from_ms AND from_ms < next_ms
),
sums AS (
    SELECT pool, from_ms, ms / greatest(sum(free), all_idle) AS free_ms,
        ms / greatest(sum(lent), all_borrowed) AS lent_ms FROM needs
    GROUP BY pool, from_ms, ms, all_idle, all_borrowed
),
shares AS (
    SELECT queue_id, pool, at_ms, unnest([
        {'quota': 'idle', 'gpu_ms': sum(free * free_ms), 'cost': sum(free_cost * free_ms)},
        {'quota': 'borrowed', 'gpu_ms': sum(lent * lent_ms), 'cost': sum(lent * lent_ms * held_price)}],
            recursive := true)
    FROM needs JOIN sums USING (pool, from_ms)
    GROUP BY queue_id, pool, at_ms
),
pairs AS (
    SELECT s.queue_id, o.queue_id AS other_id, quota, sum(gpu_ms * offered) / 3600000 AS gpu_hours,
        sum(cost * offered)::DECIMAL(38, 9) AS cost
    FROM shares AS s JOIN (
        SELECT queue_id, pool, at_ms, unnest([{'quota': 'idle', 'offered': idle},
            {'quota': 'borrowed', 'offered': borrowed}], recursive := true) FROM offers
    ) AS o USING (pool, at_ms, quota)
    WHERE gpu_ms > 0 AND offered > 0 AND s.queue_id <> o.queue_id
    GROUP BY ALL
)
SELECT x.queue.cluster AS cluster, x.queue.scheduler, x.queue.name AS cluster_queue, y.queue.name AS other_queue,
    quota, gpu_hours, cost
FROM pairs JOIN queues AS x USING (queue_id) JOIN queues AS y ON y.queue_id = other_id
WHERE passes($queues, x.queue.name)
ORDER BY cost DESC, cluster, cluster_queue, other_queue, quota;
