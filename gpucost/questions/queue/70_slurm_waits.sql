-- reads: slurm_runs, allocations, hourly_costs; $from_ms, $to_ms the period; $clusters filter (empty: all)
-- writes: nothing; returns one row per (cluster, partition), (cluster, QOS) and (cluster, account) of jobs with GPUs: starts, waits, GPU time, cost, and the part lost to preemption
-- invariant: by each of partition, QOS and account the costs add up to the same total
WITH runs AS (
    SELECT *, job_id || '@' || submit_ms AS run FROM slurm_runs
    WHERE passes($clusters, cluster) AND contains(coalesce(alloc_tres, req_tres, ''), 'gres/')
),
costs AS (
    SELECT a.cluster, split_part(a.uid, '/', 1) AS run, sum(c.allocated_gpu_ms::DECIMAL(38, 6)) AS gpu_ms, sum(c.cost) AS cost
    FROM hourly_costs($from_ms, $to_ms) AS c JOIN allocations AS a USING (allocation_id)
    WHERE a.account IS NOT NULL
    GROUP BY ALL
),
facts AS (
    SELECT r.cluster, r.partition, r.qos, r.account, r.state,
        -- jobs that started in the period
        CASE WHEN $from_ms <= r.start_ms AND r.start_ms < $to_ms THEN (r.start_ms - r.submit_ms) / 1000 END AS waited,
        CASE WHEN waited IS NOT NULL THEN greatest(0, r.start_ms - coalesce(r.eligible_ms, r.submit_ms)) / 1000 END AS waited_eligible,
        coalesce(c.gpu_ms, 0) AS gpu_ms, coalesce(c.cost, 0) AS cost
    FROM runs AS r LEFT JOIN costs AS c USING (cluster, run)
)
SELECT cluster,
    CASE WHEN grouping(partition) = 0 THEN 'partition' WHEN grouping(qos) = 0 THEN 'qos' ELSE 'account' END AS "by",
    coalesce(partition, qos, account, '') AS name,
    count(waited) AS started,
    quantile_cont(waited, 0.5) AS wait_p50_seconds, quantile_cont(waited, 0.95) AS wait_p95_seconds,
    quantile_cont(waited_eligible, 0.5) AS eligible_wait_p50_seconds, quantile_cont(waited_eligible, 0.95) AS eligible_wait_p95_seconds,
    round(sum(gpu_ms)::DOUBLE / 3600000, 9) AS gpu_hours, sum(cost) AS cost,
    count(*) FILTER (state = 'PREEMPTED' AND gpu_ms > 0) AS preempted,
    coalesce(sum(cost) FILTER (state = 'PREEMPTED'), 0)::DECIMAL(38, 9) AS preempted_cost
FROM facts
WHERE waited IS NOT NULL OR gpu_ms > 0
GROUP BY GROUPING SETS ((cluster, partition), (cluster, qos), (cluster, account))
ORDER BY cluster, "by", cost DESC, name;
