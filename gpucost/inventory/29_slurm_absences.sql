-- reads: slurm_events, slurm_reservations, slurm_machines
-- writes: state_intervals, one row per node and time in which Slurm let nobody have its free GPUs (metric slurm_node_unavailable): down, drained, in maintenance
-- invariant: first_ms < end_ms
INSERT INTO state_intervals BY NAME
WITH unavailable AS (
    SELECT cluster, node, from_ms, to_ms FROM slurm_events WHERE NOT state SIMILAR TO '.*POWER(ED|ING)?_DOWN.*'
    UNION ALL
    SELECT cluster, unnest(nodes), from_ms, to_ms FROM slurm_reservations WHERE list_contains(flags, 'MAINT')
),
lives AS (
    SELECT cluster, node, min(up_from_ms) AS up_from_ms, max(up_to_ms) AS up_to_ms FROM slurm_machines GROUP BY ALL
)
SELECT cluster, 'slurm_node_unavailable' AS metric, node, 1 AS value, from_ms AS begin_ms, from_ms AS first_ms,
    coalesce(to_ms, up_to_ms) AS last_ms, coalesce(to_ms, up_to_ms) AS end_ms
FROM unavailable JOIN lives USING (cluster, node)
WHERE from_ms < coalesce(to_ms, up_to_ms);
