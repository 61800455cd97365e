-- reads: queue_models, free_gpus, queue_levels
-- writes: waiting_gpus, one row per queue and interval with pending GPUs: its GPUs, at most all of its models, as many of them as were unallocated, and their cost per millisecond
-- invariant: over all queues, a GPU counts once at a time; a LocalQueue repeats a part of its ClusterQueue
CREATE OR REPLACE TEMP TABLE waiting_gpus AS
WITH edges AS (
    SELECT queue.cluster, unnest([from_ms, to_ms]) AS from_ms FROM queue_levels
    UNION SELECT cluster, from_ms FROM free_gpus
),
moments AS (
    SELECT *, lead(from_ms) OVER (PARTITION BY cluster ORDER BY from_ms) AS to_ms, from_ms // 3600000 AS hour FROM edges
),
pending AS (
    SELECT m.*, queue, sum(wanted) AS gpus
    FROM moments AS m JOIN queue_levels AS p ON queue.cluster = m.cluster AND p.hour = m.hour AND p.from_ms <= m.from_ms AND m.from_ms < p.to_ms
    WHERE wanted > 0
    GROUP BY ALL
),
shared AS (
    SELECT p.*, p.gpus * s.share AS wanted, f.free_price, f.held_price,
        sum(wanted) OVER (PARTITION BY p.cluster, p.from_ms, gpu_model, p.queue.scheduler = 'LocalQueue') AS total,
        wanted * least(1, f.gpus / total) AS free, wanted * least(1, f.capacity / total) AS limited
    FROM pending AS p JOIN queue_models AS s USING (queue) JOIN free_gpus AS f USING (cluster, gpu_model, hour)
    WHERE f.from_ms <= p.from_ms AND p.from_ms < f.to_ms
)
SELECT queue, from_ms, to_ms, sum(limited) AS gpus, sum(free) AS free, sum(free * free_price) AS free_cost, sum(limited * held_price) / sum(limited) AS held_price
FROM shared
GROUP BY ALL;
