-- reads: device_holdings, partial_hours, sample_intervals, cost_runs, told_activity, settings; the span [span_from_ms, span_to_ms)
-- writes: activity_hours (stored), one row per (cell, pod) with a measured device or reported activity: idle and measured GPU time, activity x GPU time, cost of idle time
-- invariant: idle_gpu_ms <= measured_gpu_ms <= GPU time held
-- only with: node_devices, told_activity
INSERT INTO activity_hours BY NAME
WITH heard AS (
    SELECT h.*, s.idle_ms AS idle, s.measured_ms AS measured, s.utilization_ms AS utilization, s.to_ms - s.from_ms AS spoken_ms,
        least(s.to_ms, h.to_ms) - greatest(s.from_ms, h.from_ms) AS held_ms
    FROM partial_hours AS h
    JOIN sample_intervals AS s ON s.device_id = h.device_id AND s.hour = h.hour AND s.from_ms < h.to_ms AND h.from_ms < s.to_ms
    WHERE NOT h.whole
),
parts AS (
    SELECT allocation_id, run_from_ms, later_ms, from_ms, is_cell, gpu_ms, cost,
        weight * idle_ms AS idle, weight * measured_ms AS measured, weight * utilization_ms AS utilization
    FROM device_holdings
    WHERE whole AND NOT is_only
    UNION ALL
    -- multiply before dividing: whole milliseconds stay whole
    SELECT allocation_id, run_from_ms, later_ms, from_ms, is_cell, gpu_ms, cost,
        weight * (idle * held_ms / spoken_ms), weight * (measured * held_ms / spoken_ms), weight * (utilization * held_ms / spoken_ms)
    FROM heard
),
measures AS NOT MATERIALIZED (
    SELECT allocation_id, run_from_ms, later_ms, from_ms, is_cell, gpu_ms, cost,
        sum(idle) AS idle, sum(measured) AS measured, sum(utilization) AS utilization
    FROM parts
    GROUP BY ALL
    UNION ALL BY NAME
    -- most pods hold one device, and need no sum
    SELECT allocation_id, run_from_ms, later_ms, from_ms, is_cell, gpu_ms, cost,
        weight * idle_ms AS idle, weight * measured_ms AS measured, weight * utilization_ms AS utilization
    FROM device_holdings
    WHERE whole AND is_only
),
costed AS NOT MATERIALIZED (
    SELECT allocation_id, run_from_ms, run_from_ms + later_ms AS from_ms, is_cell,
        round(least(measured, gpu_ms), 6) AS measured_gpu_ms, round(least(idle, gpu_ms), 6) AS idle_gpu_ms, round(utilization, 6) AS utilization_gpu_ms,
        CASE WHEN idle > 0 THEN (cost * (least(idle, gpu_ms) / gpu_ms))::DECIMAL(38, 9) ELSE 0 END AS idle_cost
    FROM measures
)
SELECT * EXCLUDE (is_cell) FROM costed WHERE is_cell
UNION ALL BY NAME
SELECT allocation_id, run_from_ms, from_ms, round(sum(measured_gpu_ms), 6) AS measured_gpu_ms, round(sum(idle_gpu_ms), 6) AS idle_gpu_ms,
    round(sum(utilization_gpu_ms), 6) AS utilization_gpu_ms, sum(idle_cost)::DECIMAL(38, 9) AS idle_cost
FROM costed
WHERE NOT is_cell
GROUP BY ALL
UNION ALL BY NAME
-- pods without samples whose activity is reported otherwise
SELECT allocation_id, r.from_ms AS run_from_ms, r.from_ms + unnest(range(r.hours)) * 3600000 AS from_ms, r.gpu_ms AS measured_gpu_ms,
    CASE WHEN t.utilization * 100 < c.threshold_percent THEN r.gpu_ms ELSE 0 END AS idle_gpu_ms, round(r.gpu_ms * t.utilization, 6) AS utilization_gpu_ms,
    CASE WHEN t.utilization * 100 < c.threshold_percent THEN r.cost ELSE 0 END AS idle_cost
FROM cost_runs AS r JOIN told_activity AS t USING (allocation_id) CROSS JOIN settings AS c
WHERE r.kind = 'allocated' AND r.from_ms >= getvariable('span_from_ms') AND r.from_ms < getvariable('span_to_ms')
    AND allocation_id NOT IN (SELECT allocation_id FROM measures);
