-- reads: allocations, nodes, collected, state_intervals, slurm_runs
-- writes: warnings (stored), one row per node on which pods or jobs held more GPUs than it has for at least one scrape interval: the time, and jobs that may be the cause
-- invariant: from_ms < to_ms within collected time; shorter excess comes from different clocks
INSERT INTO warnings BY NAME
WITH changes AS (
    SELECT node_id, at_ms, sum(gpus) AS gpus
    FROM (SELECT node_id, held_from_ms AS at_ms, gpus FROM allocations UNION ALL SELECT node_id, held_to_ms, -gpus FROM allocations)
    GROUP BY ALL
),
levels AS MATERIALIZED (
    SELECT node_id, at_ms AS from_ms, lead(at_ms) OVER w AS to_ms, sum(gpus) OVER w AS held_gpus
    FROM changes
    WINDOW w AS (PARTITION BY node_id ORDER BY at_ms)
),
-- most nodes never exceed their GPUs: skip them early
judged AS (
    SELECT l.node_id, l.from_ms, l.to_ms, n.cluster, n.node, l.held_gpus > n.gpu_count + 1e-6 AS is_over
    FROM levels AS l JOIN nodes AS n USING (node_id)
    WHERE l.node_id IN (SELECT v.node_id FROM levels AS v JOIN nodes AS m USING (node_id) WHERE v.held_gpus > m.gpu_count + 1e-6)
),
numbered AS (
    SELECT *, sum((NOT is_over)::INTEGER) OVER (PARTITION BY node_id ORDER BY from_ms) AS number FROM judged
),
stretches AS (
    SELECT cluster, node, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM numbered WHERE is_over GROUP BY cluster, node, node_id, number
),
intervals AS (
    SELECT cluster, node, max(end_ms - last_ms) AS interval_ms
    FROM state_intervals SEMI JOIN stretches USING (cluster, node)
    WHERE starts_with(metric, 'kube_node_')
    GROUP BY ALL
),
seen AS (
    SELECT s.cluster, s.node, min(greatest(s.from_ms, c.from_ms)) AS from_ms, max(least(s.to_ms, c.to_ms)) AS to_ms, max(s.from_ms) AS last_ms
    FROM stretches AS s
    JOIN collected AS c ON c.cluster = s.cluster AND c.from_ms < s.to_ms AND s.from_ms < c.to_ms
    LEFT JOIN intervals AS i ON i.cluster = s.cluster AND i.node = s.node
    WHERE s.to_ms - s.from_ms >= coalesce(i.interval_ms, 60000)
    GROUP BY s.cluster, s.node
),
runaways AS (
    -- accounting has no end of these jobs, and later jobs got their GPUs
    SELECT s.cluster, s.node, '; never ended in Slurm''s accounting: job ' || array_to_string(list_sort(list(r.job))[:9], ', ') AS jobs,
        'sacctmgr show runawayjobs lists and ends jobs that are over; then collect again' AS fix
    FROM seen AS s JOIN slurm_runs AS r ON r.cluster = s.cluster AND list_contains(r.nodes, s.node) AND r.start_ms < s.last_ms
    WHERE r.end_ms IS NULL AND s.last_ms < r.start_ms + r.elapsed_ms + r.suspended_ms AND contains(r.alloc_tres, 'gres/')
    GROUP BY ALL
)
SELECT 'over_allocated' AS code, cluster, node AS subject, from_ms, to_ms,
    format('{} held more GPUs than node {} has between {}Z and {}Z: their cost is scaled to the node''s cost{}',
        CASE WHEN cluster IN (SELECT cluster FROM slurm_runs) THEN 'jobs' ELSE 'pods' END, node, strftime(epoch_ms(from_ms), '%Y-%m-%dT%H:%M'),
        strftime(epoch_ms(to_ms), '%Y-%m-%dT%H:%M'), coalesce(jobs, '')) AS message,
    fix
FROM seen LEFT JOIN runaways USING (cluster, node);
