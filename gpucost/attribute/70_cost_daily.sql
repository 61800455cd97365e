-- reads: cost_hourly, local_days; the span [span_from_ms, span_to_ms)
-- writes: cost_daily (stored), cost_hourly summed by local day
-- invariant: sums over a day are the sums over its cells
INSERT INTO cost_daily BY NAME
SELECT
    h.kind, d.from_ms, d.to_ms, h.node_id, h.allocation_id, h.team,
    sum(h.allocated_gpu_ms) AS allocated_gpu_ms,
    sum(h.active_gpu_ms) AS active_gpu_ms,
    sum(h.idle_gpu_ms) AS idle_gpu_ms,
    sum(h.unmeasured_gpu_ms) AS unmeasured_gpu_ms,
    sum(h.utilization_gpu_ms) AS utilization_gpu_ms,
    sum(h.unallocated_gpu_ms) AS unallocated_gpu_ms,
    sum(h.unavailable_gpu_ms) AS unavailable_gpu_ms,
    sum(h.not_collected_gpu_ms) AS not_collected_gpu_ms,
    sum(h.cost)::DECIMAL(38, 9) AS cost,
    sum(h.idle_cost)::DECIMAL(38, 9) AS idle_cost,
    sum(h.unallocated_cost)::DECIMAL(38, 9) AS unallocated_cost,
    sum(h.not_collected_cost)::DECIMAL(38, 9) AS not_collected_cost,
    sum(h.estimated_cost)::DECIMAL(38, 9) AS estimated_cost
FROM cost_hourly AS h
JOIN local_days AS d ON d.from_ms <= h.from_ms AND h.from_ms < d.to_ms
WHERE h.from_ms >= getvariable('span_from_ms') AND h.from_ms < getvariable('span_to_ms')
GROUP BY ALL;
