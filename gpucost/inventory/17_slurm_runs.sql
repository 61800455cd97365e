-- reads: slurm_runs, slurm_nodes, loads
-- writes: slurm_spans, one row per run of a job: from when to when it held its nodes, or waited for some, and whether it names GPUs; untracked_time, the stretches in which Slurm's accounting named no GPUs of jobs on nodes that have some
-- invariant: untracked time is before the first run that names GPUs, after the last, or all
CREATE OR REPLACE TEMP TABLE slurm_spans AS
SELECT cluster, job_id, submit_ms, nodes, alloc_tres, coalesce(start_ms, submit_ms) AS from_ms,
    coalesce(end_ms, start_ms + elapsed_ms + suspended_ms, submit_ms) AS to_ms,
    regexp_matches(concat_ws(',', req_tres, alloc_tres), 'gres/(gpu|shard|mps)[:=]') AS names_gpus
FROM slurm_runs;

INSERT INTO untracked_time BY NAME
WITH held AS (
    SELECT *, unnest(nodes) AS node FROM slurm_spans
),
spans AS (
    SELECT source AS cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms, first_ms, last_ms
    FROM loads LEFT JOIN (
        SELECT cluster AS source, min(from_ms) AS first_ms, max(to_ms) AS last_ms FROM slurm_spans WHERE names_gpus GROUP BY cluster
    ) USING (source)
    WHERE kind = 'slurm'
    GROUP BY ALL
)
-- jobs that need no GPUs name none either: half a day of nothing else before the first that does, and three days after the last, are too long
SELECT DISTINCT cluster, CASE WHEN h.from_ms >= last_ms THEN last_ms ELSE s.from_ms END AS from_ms,
    CASE WHEN h.from_ms < first_ms THEN first_ms ELSE s.to_ms END AS to_ms
FROM held AS h
JOIN spans AS s USING (cluster)
SEMI JOIN (
    SELECT cluster, node FROM slurm_nodes WHERE regexp_matches(gres, '(?i)\bgpu\b') UNION ALL SELECT cluster, node FROM held WHERE names_gpus
) AS g USING (cluster, node)
WHERE NOT names_gpus AND (first_ms IS NULL OR (h.from_ms < first_ms AND first_ms - s.from_ms >= 43200000)
    OR (h.from_ms >= last_ms AND s.to_ms - last_ms >= 259200000));
