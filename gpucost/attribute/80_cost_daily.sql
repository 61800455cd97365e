-- reads: cost_runs, activity_hours, local_days; the span [span_from_ms, span_to_ms)
-- writes: cost_daily (stored), the cells summed by local day
-- invariant: sums over a day are the sums over its cells; times are rounded to a millionth, independent of the order of addition
INSERT INTO cost_daily BY NAME
WITH active AS (
    SELECT allocation_id, run_from_ms, sum(measured_gpu_ms) AS measured_gpu_ms, sum(idle_gpu_ms) AS idle_gpu_ms,
        sum(utilization_gpu_ms) AS utilization_gpu_ms, sum(idle_cost) AS idle_cost
    FROM activity_hours
    WHERE from_ms >= getvariable('span_from_ms') AND from_ms < getvariable('span_to_ms')
    GROUP BY ALL
)
SELECT
    r.kind, d.from_ms, d.to_ms, r.node_id, r.allocation_id, r.team,
    round(sum(CASE r.kind WHEN 'allocated' THEN r.hours * r.gpu_ms ELSE 0 END), 6) AS allocated_gpu_ms,
    round(sum(coalesce(a.measured_gpu_ms - a.idle_gpu_ms, 0)), 6) AS active_gpu_ms,
    round(sum(coalesce(a.idle_gpu_ms, 0)), 6) AS idle_gpu_ms,
    round(sum(CASE r.kind WHEN 'allocated' THEN r.hours * r.gpu_ms - coalesce(a.measured_gpu_ms, 0) ELSE 0 END), 6) AS unmeasured_gpu_ms,
    round(sum(coalesce(a.utilization_gpu_ms, 0)), 6) AS utilization_gpu_ms,
    round(sum(CASE r.kind WHEN 'unallocated' THEN r.hours * r.gpu_ms ELSE 0 END), 6) AS unallocated_gpu_ms,
    round(sum(r.hours * r.unavailable_gpu_ms), 6) AS unavailable_gpu_ms,
    round(sum(CASE r.kind WHEN 'not_collected' THEN r.hours * r.gpu_ms ELSE 0 END), 6) AS not_collected_gpu_ms,
    sum(CASE r.kind WHEN 'allocated' THEN r.hours * r.cost ELSE 0 END)::DECIMAL(38, 9) AS cost,
    sum(coalesce(a.idle_cost, 0))::DECIMAL(38, 9) AS idle_cost,
    sum(CASE r.kind WHEN 'unallocated' THEN r.hours * r.cost ELSE 0 END)::DECIMAL(38, 9) AS unallocated_cost,
    sum(CASE r.kind WHEN 'not_collected' THEN r.hours * r.cost ELSE 0 END)::DECIMAL(38, 9) AS not_collected_cost,
    sum(r.hours * r.estimated_cost)::DECIMAL(38, 9) AS estimated_cost
FROM cost_runs AS r
-- by hour, so that runs join their day by equality
JOIN (SELECT *, unnest(range(from_ms // 3600000, (to_ms - 1) // 3600000 + 1)) AS hour FROM local_days) AS d
    ON d.hour = r.from_ms // 3600000 AND d.from_ms <= r.from_ms AND r.from_ms < d.to_ms
LEFT JOIN active AS a ON a.allocation_id = r.allocation_id AND a.run_from_ms = r.from_ms
WHERE r.from_ms >= getvariable('span_from_ms') AND r.from_ms < getvariable('span_to_ms')
GROUP BY ALL;
