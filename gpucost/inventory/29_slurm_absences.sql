-- reads: slurm_events, slurm_reservations, slurm_machines
-- writes: closed_nodes, one row per node and time in which Slurm let nobody have its free GPUs: down, drained, in maintenance
-- invariant: from_ms < to_ms
INSERT INTO closed_nodes BY NAME
WITH told AS (
    SELECT cluster, node, from_ms, to_ms FROM slurm_events WHERE NOT state SIMILAR TO '.*POWER(ED|ING)?_DOWN.*'
    UNION ALL
    SELECT cluster, unnest(nodes), from_ms, to_ms FROM slurm_reservations WHERE list_contains(flags, 'MAINT')
),
lives AS (
    SELECT cluster, node, max(up_to_ms) AS up_to_ms FROM slurm_machines GROUP BY ALL
)
SELECT cluster, node, from_ms, coalesce(to_ms, up_to_ms) AS to_ms FROM told JOIN lives USING (cluster, node)
WHERE from_ms < coalesce(to_ms, up_to_ms);
