-- reads: queue_models, free_gpus, queue_levels
-- writes: waiting_gpus, one row per queue and interval with pending GPUs: its GPUs, at most all of its models, as many of them as were unallocated, and their cost per millisecond
-- invariant: over all queues, a GPU counts once at a time; a LocalQueue repeats a part of its ClusterQueue
CREATE OR REPLACE TEMP TABLE waiting_gpus AS
WITH moments AS (
    SELECT *, lead(at_ms) OVER (PARTITION BY cluster, hour ORDER BY at_ms) AS next_ms
    FROM (
        SELECT queue.cluster, hour, unnest([from_ms, to_ms]) AS at_ms FROM queue_levels
        UNION SELECT cluster, hour, unnest([from_ms, to_ms]) FROM free_gpus
    )
),
changes AS (
    SELECT queue_id, hour, unnest([from_ms, to_ms]) AS at_ms, unnest([wanted, -wanted]) AS change FROM queue_levels
        WHERE wanted > 0
),
-- requests between two changes of them; sums of fractions may leave a trace
pending AS (
    SELECT queue_id, hour, at_ms, lead(at_ms) OVER w AS next_ms, sum(sum(change)) OVER w AS wanted
    FROM changes GROUP BY queue_id, hour, at_ms WINDOW w AS (PARTITION BY queue_id, hour ORDER BY at_ms)
),
totals AS (
    SELECT cluster, gpu_model, is_local, hour, at_ms,
        sum(sum(change * share)) OVER (PARTITION BY cluster, gpu_model, is_local, hour ORDER BY at_ms) AS total
    FROM changes JOIN queue_models USING (queue_id) GROUP BY cluster, gpu_model, is_local, hour, at_ms
),
parts AS (
    SELECT m.*, gpu_model, is_local, free_price, held_price, least(1, gpus / total) AS free,
        least(1, capacity / total) AS limited
    FROM moments AS m JOIN free_gpus AS f USING (cluster, hour) CROSS JOIN (VALUES (true), (false)) AS v (is_local)
    ASOF JOIN totals AS t USING (cluster, gpu_model, is_local, hour, at_ms)
    WHERE f.from_ms <= m.at_ms AND m.at_ms < f.to_ms
)
SELECT queue_id, p.hour, p.at_ms AS from_ms, p.next_ms AS to_ms, sum(wanted * share * limited) AS gpus,
    sum(wanted * share * free) AS free,
    sum(wanted * share * free * free_price) AS free_cost,
        sum(wanted * share * limited * held_price) / nullif(sum(wanted * share * limited), 0) AS held_price
FROM pending AS n JOIN queue_models AS s USING (queue_id)
JOIN parts AS p USING (cluster, gpu_model, is_local, hour)
WHERE wanted > 1e-9 AND n.at_ms <= p.at_ms AND p.at_ms < n.next_ms
GROUP BY ALL;
