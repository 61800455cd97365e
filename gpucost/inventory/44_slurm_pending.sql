-- reads: slurm_runs, collected
-- writes: pending_pods (stored), one row per run of a job that requested GPUs and waited: how many, and when
-- invariant: from_ms < to_ms; to_ms is its start, or the end of the collected time
-- only with: slurm_loads
INSERT INTO pending_pods BY NAME
WITH ends AS (
    SELECT cluster, max(to_ms) AS end_ms FROM collected GROUP BY ALL
)
SELECT cluster, coalesce(account, '') AS namespace, job AS pod, job_id || '@' || submit_ms AS uid,
    try_cast(regexp_extract(coalesce(req_tres, alloc_tres), '(^|,)gres/gpu=([0-9]+)', 2) AS DOUBLE) AS gpus,
    coalesce(eligible_ms, submit_ms) AS from_ms, coalesce(start_ms, slurm_runs.end_ms, e.end_ms) AS to_ms
FROM slurm_runs JOIN ends AS e USING (cluster)
WHERE gpus > 0 AND from_ms < to_ms;
