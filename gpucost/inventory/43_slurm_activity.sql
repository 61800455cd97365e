-- reads: slurm_steps, slurm_runs, allocated
-- writes: told_activity, one row per allocation of which something else than samples tells how busy its GPUs were
-- invariant: 0 <= utilization <= 1, the mean over the time held; a job none of whose steps tells has no row
INSERT INTO told_activity BY NAME
WITH runs AS (
    SELECT cluster, job_id, submit_ms, start_ms, coalesce(end_ms, start_ms + elapsed_ms + suspended_ms) AS end_ms,
        try_cast(regexp_extract(alloc_tres, 'gres/gpu=([0-9]+)', 1) AS DOUBLE) AS gpus
    FROM slurm_runs
    WHERE start_ms < coalesce(end_ms, start_ms + elapsed_ms + suspended_ms) AND contains(alloc_tres, 'gres/gpu=')
),
-- steps may run side by side: what each kept busy adds up, and between them nothing ran
busy AS (
    SELECT r.cluster, r.job_id, r.submit_ms, any_value(r.gpus * (r.end_ms - r.start_ms)) AS held_gpu_ms,
        sum(s.gpu_util / 100 * try_cast(regexp_extract(s.alloc_tres, 'gres/gpu=([0-9]+)', 1) AS DOUBLE)
            * (least(coalesce(s.end_ms, r.end_ms), r.end_ms) - s.start_ms)) AS busy_gpu_ms
    FROM slurm_steps AS s ASOF JOIN runs AS r ON r.cluster = s.cluster AND r.job_id = s.job_id AND s.start_ms >= r.start_ms
    WHERE s.gpu_util IS NOT NULL AND s.start_ms < r.end_ms
    GROUP BY ALL
)
SELECT a.allocation_id, least(1, greatest(0, b.busy_gpu_ms / b.held_gpu_ms)) AS utilization
FROM busy AS b
JOIN allocated AS a ON a.cluster = b.cluster AND split_part(a.uid, '/', 1) = b.job_id || '@' || b.submit_ms
WHERE b.held_gpu_ms > 0
UNION ALL
-- nothing runs on what a reservation keeps free
SELECT allocation_id, 0 AS utilization FROM allocated WHERE resource = 'reservation' AND namespace <> '';
