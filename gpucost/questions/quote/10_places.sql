-- reads: allocations, allocation_traits, cost_daily, nodes, collected; $workload, a pattern of earlier runs; $namespace, null for any
-- writes: nothing; returns one row per GPU model and capacity type, most runs first, finished ones before others: the cost of a GPU-hour in the newest 30 days, finished runs, and their hours
-- invariant: pods of one workload are one run if at most an hour is between them; for Slurm and CronJobs, pods of one job; hours of several pods at once count once
WITH held AS (
    SELECT a.*, n.gpu_model, n.capacity_type, w.failed,
        -- a job of Slurm, or the Job of a CronJob, whose name ends with its minute
        if(contains(a.uid, '@'), split_part(a.uid, '/', 1), regexp_extract(a.pod, '^(.+-[0-9]{8,})-', 1)) AS job,
        max(a.held_to_ms) OVER (
            PARTITION BY a.cluster, a.namespace, a.workload, job ORDER BY a.held_from_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ms
    FROM allocations AS a JOIN nodes AS n USING (node_id) LEFT JOIN allocation_traits AS w USING (allocation_id)
    WHERE a.gpus > 0 AND regexp_full_match(a.workload, $workload) AND coalesce(a.namespace = $namespace, true)
),
numbered AS (
    SELECT *, count(*) FILTER (held_from_ms > before_ms + 3600000) OVER (
        PARTITION BY cluster, namespace, workload, job ORDER BY held_from_ms ROWS UNBOUNDED PRECEDING) AS number
    FROM held
),
runs AS (
    SELECT number, any_value(gpu_model) AS gpu_model, any_value(capacity_type) AS capacity_type,
        CASE WHEN min(held_from_ms) > (SELECT min(from_ms) FROM collected AS c WHERE c.cluster = numbered.cluster)
            AND max(held_to_ms) < (SELECT max(to_ms) - 600000 FROM collected AS c WHERE c.cluster = numbered.cluster)
            AND arg_max(failed, held_to_ms) IS NOT TRUE
            THEN sum(greatest(0, held_to_ms - greatest(held_from_ms, coalesce(before_ms, 0)))) / 3600000 END AS hours
    FROM numbered
    GROUP BY cluster, namespace, workload, job, number
    HAVING count(DISTINCT (gpu_model, capacity_type)) = 1
),
prices AS (
    SELECT n.gpu_model, n.capacity_type, sum(c.cost + c.unallocated_cost) / sum(c.allocated_gpu_ms + c.unallocated_gpu_ms) * 3600000 AS price
    FROM cost_daily AS c JOIN nodes AS n USING (node_id)
    WHERE c.kind <> 'not_collected' AND c.from_ms > (SELECT max(from_ms) - 2592000000 FROM cost_daily)
    GROUP BY ALL
)
SELECT gpu_model, capacity_type, price::DECIMAL(38, 9) AS price_per_gpu_hour, count(hours) AS runs,
    quantile_cont(hours, 0.5)::DECIMAL(18, 6) AS hours_p50, quantile_cont(hours, 0.95)::DECIMAL(18, 6) AS hours_p95
FROM prices LEFT JOIN runs USING (gpu_model, capacity_type)
WHERE price > 0
GROUP BY ALL
ORDER BY runs DESC, count(number) DESC, price_per_gpu_hour DESC, gpu_model, capacity_type;
