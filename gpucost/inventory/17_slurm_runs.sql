-- reads: slurm_runs, slurm_nodes, loads
-- writes: slurm_spans, one row per run of a job: when it held its nodes, or waited for some, and whether it names GPUs; untracked_time, spans in which Slurm's accounting named no GPUs although jobs held GPU nodes
-- invariant: no run that names GPUs overlaps untracked time
-- only with: slurm_loads
CREATE OR REPLACE TEMP TABLE slurm_spans AS
SELECT cluster, job_id, submit_ms, nodes, alloc_tres, coalesce(start_ms, submit_ms) AS from_ms,
    coalesce(end_ms, start_ms + elapsed_ms + suspended_ms, submit_ms) AS to_ms,
    regexp_matches(concat_ws(',', req_tres, alloc_tres), 'gres/(gpu|shard|mps)[:=]') AS names_gpus
FROM slurm_runs;

INSERT INTO untracked_time BY NAME
WITH ends AS (
    SELECT source AS cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM loads WHERE kind = 'slurm' GROUP BY source
),
-- between runs that name GPUs, before the first, and after the last
silences AS (
    SELECT cluster, max(until_ms) OVER w AS from_ms, begin_ms AS to_ms, row_number() OVER w AS number, count(*) OVER (PARTITION BY cluster) AS silences
    FROM (
        SELECT cluster, from_ms AS begin_ms, to_ms AS until_ms FROM slurm_spans WHERE names_gpus
        UNION ALL
        SELECT cluster, unnest([NULL, to_ms]), unnest([from_ms, NULL]) FROM ends
    )
    WINDOW w AS (PARTITION BY cluster ORDER BY begin_ms NULLS FIRST ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
-- Jobs without GPUs name none either. Limits on how long, and for which part of the time, they may hold GPU nodes:
limits AS (
    SELECT *, CASE WHEN silences = 2 THEN 0 WHEN number = 2 THEN 43200000 ELSE 259200000 END AS shortest_ms,
        CASE WHEN silences = 2 THEN 0.01 WHEN number = 2 THEN 0.1 ELSE 0.5 END AS least_part
    FROM silences
    WHERE to_ms - from_ms > 0
),
held AS (
    SELECT *, unnest(nodes) AS node FROM slurm_spans
)
SELECT l.cluster, l.from_ms, l.to_ms
FROM limits AS l
JOIN held AS h ON h.cluster = l.cluster AND h.from_ms < l.to_ms AND l.from_ms < h.to_ms
SEMI JOIN (
    SELECT cluster, node FROM slurm_nodes WHERE regexp_matches(gres, '(?i)\bgpu\b') UNION ALL SELECT cluster, node FROM held WHERE names_gpus
) AS g ON g.cluster = h.cluster AND g.node = h.node
WHERE NOT h.names_gpus AND l.to_ms - l.from_ms >= l.shortest_ms
GROUP BY l.cluster, l.from_ms, l.to_ms, l.least_part
HAVING sum(least(h.to_ms, l.to_ms) - greatest(h.from_ms, l.from_ms)) > l.least_part * (l.to_ms - l.from_ms);
