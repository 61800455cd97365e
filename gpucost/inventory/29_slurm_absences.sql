-- reads: slurm_events, slurm_reservations, slurm_machines, slurm_hosts, slurm_units
-- writes: closed_nodes, one row per node and time in which Slurm blocked its free GPUs: down, drained, in maintenance; for a part of a Kubernetes node, cause and gpus identify the part
-- invariant: from_ms < to_ms
-- only with: slurm_loads
INSERT INTO closed_nodes BY NAME
WITH told AS (
    SELECT cluster, node, from_ms, to_ms FROM slurm_events WHERE NOT state SIMILAR TO '.*POWER(ED|ING)?_DOWN.*'
    UNION ALL
    SELECT cluster, unnest(nodes), from_ms, to_ms FROM slurm_reservations WHERE list_contains(flags, 'MAINT')
),
lives AS (
    SELECT cluster, node, cluster AS at_cluster, node AS at_node, '' AS cause, NULL AS gpus, min(up_from_ms) AS up_from_ms, max(up_to_ms) AS up_to_ms FROM slurm_machines GROUP BY ALL
    UNION ALL
    -- on a Kubernetes node, it closes Slurm's part
    SELECT h.cluster, h.node, h.kube_cluster, h.kube_node, h.node, u.gpus, h.from_ms, h.to_ms
    FROM slurm_hosts AS h
    JOIN (SELECT cluster, node, sum(units * share) AS gpus FROM slurm_units WHERE kind = 'gpu' GROUP BY ALL) AS u USING (cluster, node)
)
SELECT at_cluster AS cluster, at_node AS node, cause, gpus, greatest(from_ms, up_from_ms) AS from_ms, least(coalesce(to_ms, up_to_ms), up_to_ms) AS to_ms
FROM told JOIN lives USING (cluster, node)
WHERE greatest(from_ms, up_from_ms) < least(coalesce(to_ms, up_to_ms), up_to_ms);
