-- reads: allocated_costs, node_segments, measures, unavailable, allocation_teams
-- writes: cost_hourly (stored), the costs of the span's cells: one row per (cell, node, pod) and one per (cell, node) for what nobody held or requested, and one for what was not collected
-- invariant: per (cell, node) sum(cost + unallocated_cost + not_collected_cost) = node cost; active + idle + unmeasured = allocated
INSERT INTO cost_hourly BY NAME
WITH repeated AS (
    -- of equal hours each one
    SELECT a.node_id, a.allocation_id, a.gpu_ms, a.cost, coalesce(u.gpu_ms, 0) AS unavailable_gpu_ms, l.price_source, l.is_collected,
        l.from_ms = l.cell_from_ms AND l.to_ms = l.cell_to_ms AND l.cpu_cost IS NULL AS is_whole,
        unnest(range(l.hours)) * 3600000 AS later_ms, l.cell_from_ms + later_ms AS from_ms, l.cell_to_ms + later_ms AS to_ms,
        l.from_ms + later_ms AS segment_from_ms
    FROM allocated_costs AS a
    JOIN node_segments AS l ON l.node_id = a.node_id AND l.from_ms = a.segment_from_ms
    LEFT JOIN unavailable AS u ON a.allocation_id IS NULL AND u.node_id = a.node_id AND u.segment_from_ms = a.segment_from_ms
),
measured AS (
    SELECT a.from_ms, a.to_ms, a.is_whole, a.is_collected, a.node_id, a.allocation_id, a.gpu_ms, a.cost,
        least(coalesce(m.measured_gpu_ms, 0), a.gpu_ms) AS measured_gpu_ms,
        least(coalesce(m.idle_gpu_ms, 0), a.gpu_ms) AS idle_gpu_ms,
        CASE WHEN a.gpu_ms > 0 THEN coalesce(m.utilization_gpu_ms, 0) ELSE 0 END AS utilization_gpu_ms,
        least(a.unavailable_gpu_ms, a.gpu_ms) AS unavailable_gpu_ms,
        CASE WHEN m.idle_gpu_ms > 0 AND a.gpu_ms > 0 THEN (a.cost * (least(m.idle_gpu_ms, a.gpu_ms) / a.gpu_ms))::DECIMAL(38, 9) ELSE 0 END AS idle_cost,
        CASE a.price_source WHEN 'bill' THEN 0 ELSE a.cost END AS estimated_cost
    FROM repeated AS a
    LEFT JOIN measures AS m USING (allocation_id, segment_from_ms)
),
summed AS (
    -- most segments are whole cells, paid for by their GPUs alone: there is nothing to add up
    SELECT * EXCLUDE (is_whole) FROM measured WHERE is_whole
    UNION ALL BY NAME
    SELECT from_ms, to_ms, node_id, allocation_id, is_collected,
        sum(gpu_ms) AS gpu_ms, sum(cost)::DECIMAL(38, 9) AS cost,
        sum(measured_gpu_ms) AS measured_gpu_ms, sum(idle_gpu_ms) AS idle_gpu_ms, sum(utilization_gpu_ms) AS utilization_gpu_ms,
        sum(unavailable_gpu_ms) AS unavailable_gpu_ms, sum(idle_cost)::DECIMAL(38, 9) AS idle_cost,
        sum(estimated_cost)::DECIMAL(38, 9) AS estimated_cost
    FROM measured
    WHERE NOT is_whole
    GROUP BY ALL
)
SELECT
    CASE WHEN NOT s.is_collected THEN 'not_collected' WHEN s.allocation_id IS NULL THEN 'unallocated' ELSE 'allocated' END AS kind,
    s.from_ms, s.to_ms, s.node_id, s.allocation_id, t.team,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.gpu_ms END AS allocated_gpu_ms,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.measured_gpu_ms - s.idle_gpu_ms END AS active_gpu_ms,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.idle_gpu_ms END AS idle_gpu_ms,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.gpu_ms - s.measured_gpu_ms END AS unmeasured_gpu_ms,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.utilization_gpu_ms END AS utilization_gpu_ms,
    CASE WHEN s.allocation_id IS NULL AND s.is_collected THEN s.gpu_ms ELSE 0 END AS unallocated_gpu_ms,
    CASE WHEN s.allocation_id IS NULL THEN s.unavailable_gpu_ms ELSE 0 END AS unavailable_gpu_ms,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.cost END AS cost,
    CASE WHEN s.allocation_id IS NULL THEN 0 ELSE s.idle_cost END AS idle_cost,
    CASE WHEN s.allocation_id IS NULL AND s.is_collected THEN s.cost ELSE 0 END AS unallocated_cost,
    CASE WHEN s.is_collected THEN 0 ELSE s.gpu_ms END AS not_collected_gpu_ms,
    CASE WHEN s.is_collected THEN 0 ELSE s.cost END AS not_collected_cost,
    s.estimated_cost
FROM summed AS s
-- the labels as of the start of the hour decide, or the first ones that were seen
LEFT JOIN allocation_teams AS t
    ON t.allocation_id = s.allocation_id AND t.from_ms <= s.from_ms // 3600000 * 3600000 AND s.from_ms // 3600000 * 3600000 < t.to_ms
WHERE s.gpu_ms > 0 OR s.cost <> 0;
