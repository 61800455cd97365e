-- reads: slurm_holdings, slurm_units, slurm_nodes, slurm_places, slurm_runs, collected
-- writes: warnings (stored), about a Slurm cluster: nodes without a description, jobs placed evenly because steps are missing, resources without a known GPU, and requeued jobs without their earlier runs
-- invariant: one row per (code, cluster)
-- only with: slurm_loads
INSERT INTO warnings BY NAME
SELECT 'slurm_nodes_unknown' AS code, h.cluster, NULL AS subject, min(h.from_ms) AS from_ms, max(h.to_ms) AS to_ms,
    format('GPUs of {} nodes of {} are guessed: the most that jobs ever held at once', count(DISTINCT h.node), h.cluster) AS message,
    'scontrol show node --oneliner > nodes.txt, and gpucost collect slurm nodes.txt' AS fix
FROM slurm_holdings AS h ANTI JOIN slurm_nodes AS n USING (cluster, node)
GROUP BY h.cluster
UNION ALL
SELECT 'slurm_even_placement', h.cluster, NULL, min(h.from_ms), max(h.to_ms),
    format('{} jobs of {} ran on several nodes without steps that show their placement: {:.1f} GPU-hours are spread evenly', count(DISTINCT (h.job_id, h.submit_ms)), h.cluster,
        sum(h.units * u.share * (h.to_ms - h.from_ms)) / 3600000),
    'load the output of sacct without -X, which lists the steps'
FROM slurm_holdings AS h
JOIN slurm_units AS u ON u.cluster = h.cluster AND u.node = h.node AND u.kind = h.kind AND u.type IS NOT DISTINCT FROM h.type
WHERE h.is_even
GROUP BY h.cluster
UNION ALL
SELECT 'slurm_not_attributed', h.cluster, NULL, min(h.from_ms), max(h.to_ms),
    format('{} jobs of {} held {} on nodes without a known GPU: not attributed', count(DISTINCT (h.job_id, h.submit_ms)), h.cluster,
        string_agg(DISTINCT 'gres/' || h.kind, ', ' ORDER BY 'gres/' || h.kind)),
    'scontrol show node --oneliner > nodes.txt, and gpucost collect slurm nodes.txt'
FROM slurm_holdings AS h ANTI JOIN slurm_places AS m USING (cluster, node)
GROUP BY h.cluster
UNION ALL
-- A requeued job is submitted again, may begin two minutes after its nodes are clean, and has a smaller number than jobs
-- submitted before that. Without a submission time, the start replaces it.
SELECT 'slurm_requeues_hidden', r.cluster, NULL, min(r.submit_ms), max(r.submit_ms),
    format('{} jobs of {} were requeued, and only their last runs are loaded: their earlier GPU time counts as unallocated', count(*), r.cluster),
    'load the output of sacct -D, which lists every run of a job'
FROM (
    SELECT cluster, submit_ms, eligible_ms, start_ms, alloc_tres, count(*) OVER (PARTITION BY cluster, job_id) AS runs,
        min(submit_ms) FILTER (array_job_id IS NULL AND submit_ms < start_ms) OVER (
            PARTITION BY cluster ORDER BY job_id RANGE BETWEEN 1 FOLLOWING AND 1000 FOLLOWING) AS later_ms
    FROM slurm_runs
) AS r
SEMI JOIN collected AS c ON c.cluster = r.cluster AND c.from_ms < r.submit_ms AND r.submit_ms < c.to_ms
WHERE r.runs = 1 AND contains(r.alloc_tres, 'gres/') AND (r.eligible_ms - r.submit_ms BETWEEN 121000 AND 180000 OR (r.submit_ms < r.start_ms AND r.submit_ms > r.later_ms))
GROUP BY r.cluster;
