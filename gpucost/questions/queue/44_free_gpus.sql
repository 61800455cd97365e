-- reads: hourly_costs, nodes, allocations; $from_ms, $to_ms the period
-- writes: free_gpus, one row per (cluster, GPU model) and interval: all GPUs, the GPUs without a holder, and the cost of a GPU-millisecond, unallocated and allocated, in that hour
-- invariant: per hour, GPUs x time is at most the unallocated GPU time that was available, so that the cost is at most its cost
CREATE OR REPLACE TEMP TABLE free_gpus AS
WITH prices AS (
    SELECT cluster, gpu_model, from_ms // 3600000 AS hour,
        sum(unallocated_gpu_ms - unavailable_gpu_ms) AS available_gpu_ms,
        sum(unallocated_cost) / nullif(sum(unallocated_gpu_ms), 0) AS free_price,
            coalesce(sum(cost) / nullif(sum(allocated_gpu_ms), 0), free_price) AS held_price
    FROM hourly_costs($from_ms, $to_ms) JOIN nodes USING (node_id)
    GROUP BY ALL
),
changes AS (
    SELECT cluster, gpu_model, greatest(at_ms, $from_ms) AS from_ms, sum(change) AS change, sum(added) AS added
    FROM (
        SELECT cluster, gpu_model, unnest([up_from_ms, up_to_ms]) AS at_ms, unnest([gpu_count, -gpu_count]) AS change,
            change AS added FROM nodes
        UNION ALL
        SELECT n.cluster, gpu_model, unnest([held_from_ms, held_to_ms]), unnest([-gpus, gpus]), 0 FROM allocations
            JOIN nodes AS n USING (node_id)
        UNION ALL
        SELECT cluster, gpu_model, unnest([hour * 3600000, least((hour + 1) * 3600000, $to_ms)]), 0, 0 FROM prices
    )
    WHERE at_ms <= $to_ms
    GROUP BY ALL
),
levels AS (
    SELECT *, from_ms // 3600000 AS hour, lead(from_ms) OVER w AS to_ms, greatest(0, sum(change) OVER w) AS free,
        sum(added) OVER w AS capacity
    FROM changes WINDOW w AS (PARTITION BY cluster, gpu_model ORDER BY from_ms)
)
SELECT * EXCLUDE (free, change, added), free * least(1,
    available_gpu_ms / nullif(sum(free * (to_ms - from_ms)) OVER (PARTITION BY cluster, gpu_model, hour), 0)) AS gpus
FROM levels JOIN prices USING (cluster, gpu_model, hour);
