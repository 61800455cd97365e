-- reads: device_holdings, sample_intervals
-- writes: measures, one row per (segment, allocation) of which a device is measured: GPU time idle and measured, activity x GPU time
-- invariant: idle_gpu_ms <= measured_gpu_ms
CREATE OR REPLACE TEMP TABLE measures AS
WITH heard AS (
    SELECT h.*, s.idle_ms AS idle, s.measured_ms AS measured, s.utilization_ms AS utilization, s.to_ms - s.from_ms AS spoken_ms,
        least(s.to_ms, h.to_ms) - greatest(s.from_ms, h.from_ms) AS held_ms
    FROM device_holdings AS h
    JOIN sample_intervals AS s ON s.device_id = h.device_id AND s.hour = h.hour AND s.from_ms < h.to_ms AND h.from_ms < s.to_ms
    WHERE NOT h.whole
),
parts AS (
    SELECT allocation_id, segment_from_ms, weight * idle_ms AS idle, weight * measured_ms AS measured, weight * utilization_ms AS utilization
    FROM device_holdings
    WHERE whole AND NOT is_only
    UNION ALL
    -- multiplied before divided: whole milliseconds stay whole
    SELECT allocation_id, segment_from_ms,
        weight * (idle * held_ms / spoken_ms), weight * (measured * held_ms / spoken_ms), weight * (utilization * held_ms / spoken_ms)
    FROM heard
)
SELECT allocation_id, segment_from_ms,
    sum(idle) AS idle_gpu_ms, sum(measured) AS measured_gpu_ms, sum(utilization) AS utilization_gpu_ms
FROM parts
GROUP BY ALL
UNION ALL
-- most pods hold one device: there is nothing to add up
SELECT allocation_id, segment_from_ms, weight * idle_ms, weight * measured_ms, weight * utilization_ms
FROM device_holdings
WHERE whole AND is_only;
