-- reads: hourly_costs, allocations, allocation_traits, nodes, unit_days; $from_ms, $to_ms the period; $teams, $namespaces, $workloads, $users, $clusters filter (empty: all)
-- writes: unit_cells, the attributed cells of pods in the period, with team, workload, part of a GPU (a profile, shared or whole) and whether they are selected
-- invariant: sum(cost) is the pods' cost in the period; held_from_ms < held_to_ms: cost and hours accrue evenly between them
CREATE OR REPLACE TEMP TABLE unit_cells AS
SELECT
    row_number() OVER (ORDER BY c.from_ms, c.node_id, c.allocation_id) AS cell_id,
    a.cluster, a.namespace, a.workload, t.workload_type, a.pod, c.team, c.allocation_id, d.day, n.gpu_model,
    CASE WHEN a.gpus >= a.units THEN 'whole' ELSE coalesce(
        nullif(replace(regexp_extract(a.resource, '^nvidia_com_mig_(.+)', 1), '_', '.') || regexp_extract(a.resource, '^amd_com_(.px_.+)', 1), ''),
        nullif(regexp_extract(n.labels['label_nvidia_com_gpu_product'], '-MIG-([^-]+)', 1), ''), 'shared') END AS partition,
    CASE WHEN least(c.to_ms, a.held_to_ms) > greatest(c.from_ms, a.held_from_ms) THEN greatest(c.from_ms, a.held_from_ms) ELSE c.from_ms END AS held_from_ms,
    CASE WHEN least(c.to_ms, a.held_to_ms) > greatest(c.from_ms, a.held_from_ms) THEN least(c.to_ms, a.held_to_ms) ELSE c.to_ms END AS held_to_ms,
    c.allocated_gpu_ms, c.active_gpu_ms, c.idle_gpu_ms, c.unmeasured_gpu_ms, c.cost, c.idle_cost,
    passes($teams, c.team) AND passes($namespaces, a.namespace) AND passes($clusters, a.cluster)
        AND passes_workload($workloads, a.workload) AND passes($users, a."user") AS is_selected
FROM hourly_costs($from_ms, $to_ms) AS c
JOIN allocations AS a USING (allocation_id)
JOIN nodes AS n ON n.node_id = c.node_id
LEFT JOIN allocation_traits AS t USING (allocation_id)
JOIN unit_days AS d ON c.from_ms >= d.from_ms AND c.from_ms < d.to_ms
WHERE c.kind = 'allocated';
