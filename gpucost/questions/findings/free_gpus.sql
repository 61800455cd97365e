-- reads: waste_rows, nodes, allocations; $from_ms, $to_ms the period
-- writes: nothing; answers unallocated GPUs by cluster, model, capacity type, bucket and own machines or not, with the most GPUs that pods held at once
-- invariant: one row per (cluster, gpu_model, capacity_type, bucket, is_own); costs add up to the cost of waste_rows without an allocation
WITH machines AS (
    SELECT cluster, node, bool_and(coalesce(provider, '') = '' AND coalesce(instance_type, '') = '') AS is_own FROM nodes GROUP BY ALL
),
held AS (
    SELECT n.cluster, coalesce(n.gpu_model, '') AS gpu_model, n.capacity_type, m.is_own, a.allocation_id, a.gpus,
        greatest(a.held_from_ms, $from_ms) AS from_ms, least(a.held_to_ms, $to_ms) AS to_ms
    FROM allocations AS a JOIN nodes AS n USING (node_id) JOIN machines AS m ON (m.cluster, m.node) = (n.cluster, n.node)
    WHERE a.gpus > 0 AND a.held_from_ms < $to_ms AND $from_ms < a.held_to_ms
),
peaks AS (
    SELECT cluster, gpu_model, capacity_type, is_own, max(gpus) AS peak_gpus
    FROM (
        SELECT cluster, gpu_model, capacity_type, is_own, sum(step) OVER (PARTITION BY cluster, gpu_model, capacity_type, is_own ORDER BY at_ms, step) AS gpus
        FROM (SELECT *, unnest([from_ms, to_ms]) AS at_ms, unnest([gpus, -gpus]) AS step FROM held)
    )
    GROUP BY ALL
)
SELECT f.cluster, coalesce(f.gpu_model, '') AS gpu_model, f.capacity_type, f.bucket, m.is_own,
    count(DISTINCT f.node) AS nodes, sum(f.gpu_ms::DECIMAL(38, 6))::DOUBLE AS gpu_ms, sum(f.cost)::DECIMAL(38, 9) AS cost,
    arg_min(f.node, (-f.cost, f.node)) AS largest, coalesce(ceil(round(any_value(p.peak_gpus), 6)), 0)::INTEGER AS peak_gpus
FROM waste_rows AS f JOIN machines AS m ON (m.cluster, m.node) = (f.cluster, f.node)
LEFT JOIN peaks AS p
    ON (p.cluster, p.gpu_model, p.capacity_type, p.is_own) = (f.cluster, coalesce(f.gpu_model, ''), f.capacity_type, m.is_own)
WHERE f.allocation_id IS NULL
GROUP BY ALL
ORDER BY ALL;
