-- reads: waiting_gpus, queue_levels; $queues filters (empty: all)
-- writes: nothing; returns one row per queue that waited, other queue of its cohort, and kind of that queue's quota: GPU-hours and cost
-- invariant: at a time, the GPUs of a kind are at most the pending GPUs, and at most the other queues' quota of that kind, by flavor
WITH sides AS (
    SELECT w.from_ms, w.to_ms - w.from_ms AS ms, l.queue, l.pool, unnest([
        {'quota': 'idle', 'needed': n.free / parts, 'offered': greatest(0, l.unused), 'price': n.free_cost / n.free},
        {'quota': 'borrowed', 'needed': least(coalesce(n.gpus - n.free, 0) / parts, greatest(0, l.unused)), 'offered': greatest(0, -l.unused),
            'price': n.held_price}], recursive := true)
    FROM (SELECT DISTINCT queue.cluster, from_ms, to_ms FROM waiting_gpus) AS w
    JOIN (SELECT *, count(DISTINCT pool) OVER (PARTITION BY queue) AS parts FROM queue_levels WHERE unused IS NOT NULL AND pool IS NOT NULL) AS l
        ON l.queue.cluster = w.cluster AND l.hour = w.from_ms // 3600000 AND l.from_ms <= w.from_ms AND w.from_ms < l.to_ms
    LEFT JOIN waiting_gpus AS n ON n.queue = l.queue AND n.from_ms = w.from_ms
),
balanced AS (
    SELECT *, greatest(sum(needed) OVER w, sum(offered) OVER w) AS most
    FROM sides WHERE needed > 0 OR offered > 0 WINDOW w AS (PARTITION BY from_ms, pool, quota)
)
SELECT x.queue.cluster AS cluster, x.queue.scheduler, x.queue.name AS cluster_queue, y.queue.name AS other_queue, quota,
    sum(x.needed * y.offered / x.most * x.ms) / 3600000 AS gpu_hours, sum(x.needed * y.offered / x.most * x.ms * x.price)::DECIMAL(38, 9) AS cost
FROM balanced AS x JOIN balanced AS y USING (from_ms, pool, quota)
WHERE x.needed > 0 AND y.offered > 0 AND x.queue <> y.queue AND passes($queues, x.queue.name)
GROUP BY ALL
ORDER BY cost DESC, cluster, cluster_queue, other_queue, quota;
