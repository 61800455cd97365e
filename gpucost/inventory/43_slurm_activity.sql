-- reads: slurm_steps, slurm_spans, allocated, nodes
-- writes: told_activity, one row per allocation whose GPU activity comes from a source other than samples
-- invariant: 0 <= utilization <= 1, the mean over the time held; a job without measured steps has no row
-- only with: slurm_loads
INSERT INTO told_activity BY NAME
WITH runs AS (
    SELECT *, try_cast(regexp_extract(alloc_tres, 'gres/gpu=([0-9]+)', 1) AS DOUBLE) AS gpus FROM slurm_spans
),
-- steps may overlap: their busy time adds up, and between steps the GPUs are idle
busy AS (
    SELECT r.cluster, r.job_id, r.submit_ms, any_value(r.gpus * (r.to_ms - r.from_ms)) AS held_gpu_ms,
        sum(s.gpu_util / 100 * try_cast(regexp_extract(s.alloc_tres, 'gres/gpu=([0-9]+)', 1) AS DOUBLE)
            * (least(coalesce(s.end_ms, r.to_ms), r.to_ms) - s.start_ms)) AS busy_gpu_ms
    FROM slurm_steps AS s ASOF JOIN runs AS r ON r.cluster = s.cluster AND r.job_id = s.job_id AND s.start_ms >= r.from_ms
    WHERE s.start_ms < r.to_ms
    GROUP BY ALL
    -- the zero of a shell does not cover unmeasured work next to it
    HAVING count(*) FILTER (s.gpu_util IS NULL AND s.step <> 'extern' AND s.end_ms - s.start_ms > 60000) = 0
)
SELECT a.allocation_id, least(1, greatest(0, b.busy_gpu_ms / b.held_gpu_ms)) AS utilization
FROM busy AS b
JOIN allocated AS a ON a.cluster = b.cluster AND split_part(a.uid, '/', 1) = b.job_id || '@' || b.submit_ms
JOIN nodes AS n USING (node_id)
WHERE b.held_gpu_ms > 0 AND b.busy_gpu_ms IS NOT NULL
-- if all values are zero, a plugin cannot measure these GPUs
QUALIFY max(b.busy_gpu_ms) OVER (PARTITION BY a.cluster, coalesce(n.gpu_model, n.node)) > 0
UNION ALL
-- GPUs kept free by a reservation are idle
SELECT allocation_id, 0 AS utilization FROM allocated WHERE resource = 'reservation' AND namespace <> '';
