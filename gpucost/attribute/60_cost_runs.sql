-- reads: allocated_costs, allocations, node_segments, unavailable, allocation_teams
-- writes: cost_runs (stored), the costs of the span's cells: one row per (run, node, pod), one per (run, node) for unallocated or unrequested resources, and one for time that was not collected
-- invariant: per (cell, node) sum(cost) = node cost
INSERT INTO cost_runs BY NAME
WITH parts AS (
    SELECT l.cell_from_ms AS from_ms, l.cell_to_ms AS to_ms, l.hours, a.node_id, a.allocation_id, l.is_collected, a.gpu_ms, a.cost,
        least(coalesce(u.gpu_ms, 0), a.gpu_ms) AS unavailable_gpu_ms,
        CASE WHEN l.price_source IN ('bill', 'final_price_book') THEN 0 ELSE a.cost END AS estimated_cost,
        l.from_ms = l.cell_from_ms AND l.to_ms = l.cell_to_ms AND l.cpu_cost IS NULL AS is_whole
    FROM allocated_costs AS a
    JOIN node_segments AS l ON l.node_id = a.node_id AND l.from_ms = a.segment_from_ms
    LEFT JOIN unavailable AS u ON a.allocation_id IS NULL AND l.is_collected AND u.node_id = a.node_id AND u.segment_from_ms = a.segment_from_ms
),
summed AS (
    -- most segments are whole cells, paid by their GPUs only, and need no sum
    SELECT * EXCLUDE (is_whole) FROM parts WHERE is_whole
    UNION ALL BY NAME
    SELECT from_ms, to_ms, hours, node_id, allocation_id, is_collected, round(sum(gpu_ms), 6) AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost,
        round(sum(unavailable_gpu_ms), 6) AS unavailable_gpu_ms, sum(estimated_cost)::DECIMAL(38, 9) AS estimated_cost
    FROM parts
    WHERE NOT is_whole
    GROUP BY ALL
)
SELECT CASE WHEN NOT s.is_collected THEN 'not_collected' WHEN s.allocation_id IS NULL OR u.allocation_id IS NOT NULL THEN 'unallocated' ELSE 'allocated' END AS kind,
    s.* EXCLUDE (is_collected), CASE WHEN u.allocation_id IS NULL THEN t.team END AS team
FROM summed AS s
-- kept free by a reservation that no account pays for
LEFT JOIN (FROM allocations WHERE resource = 'reservation' AND namespace = '') AS u ON u.allocation_id = s.allocation_id
-- the labels at the start of the hour decide, or the first labels
LEFT JOIN allocation_teams AS t
    ON t.allocation_id = s.allocation_id AND t.from_ms <= s.from_ms // 3600000 * 3600000 AND s.from_ms // 3600000 * 3600000 < t.to_ms
WHERE s.gpu_ms > 0 OR s.cost <> 0;
