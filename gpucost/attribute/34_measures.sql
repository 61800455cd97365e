-- reads: device_holdings, sample_intervals
-- writes: measures, one row per (segment, allocation) of which a device is measured: GPU time idle and measured, activity x GPU time
-- invariant: idle_gpu_ms <= measured_gpu_ms
CREATE OR REPLACE TEMP TABLE measures AS
WITH parts AS (
    SELECT allocation_id, node_id, segment_from_ms, weight * idle_ms AS idle, weight * measured_ms AS measured, weight * utilization_ms AS utilization
    FROM device_holdings
    WHERE whole
    UNION ALL
    SELECT h.allocation_id, h.node_id, h.segment_from_ms,
        h.weight * CASE WHEN s.idle THEN least(s.to_ms, h.to_ms) - greatest(s.from_ms, h.from_ms) ELSE 0 END,
        h.weight * (least(s.to_ms, h.to_ms) - greatest(s.from_ms, h.from_ms)),
        h.weight * s.utilization * (least(s.to_ms, h.to_ms) - greatest(s.from_ms, h.from_ms))
    FROM device_holdings AS h
    JOIN sample_intervals AS s ON s.device_id = h.device_id AND s.hour = h.hour AND s.from_ms < h.to_ms AND h.from_ms < s.to_ms
    WHERE NOT h.whole
)
SELECT allocation_id, node_id, segment_from_ms,
    sum(idle) AS idle_gpu_ms, sum(measured) AS measured_gpu_ms, sum(utilization) AS utilization_gpu_ms
FROM parts
GROUP BY ALL;
