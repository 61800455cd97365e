-- reads: allocation_segments, allocation_devices, device_hours
-- writes: device_holdings, one row per (holding, device of the pod), and whether it is whole, so that the hour's aggregates answer for it
-- invariant: weight > 0
CREATE OR REPLACE TEMP TABLE device_holdings AS
WITH held AS (
    -- of equal hours each one
    SELECT allocation_id, unnest(range(hours)) AS later, segment_from_ms + later * 3600000 AS segment_from_ms,
        from_ms + later * 3600000 AS from_ms, to_ms + later * 3600000 AS to_ms, (hour + later)::INTEGER AS hour
    FROM allocation_segments
)
SELECT h.allocation_id, h.segment_from_ms, h.hour, h.from_ms, h.to_ms, d.device_id, d.weight, d.is_only,
    h.to_ms - h.from_ms = 3600000 AND a.measured_ms IS NOT NULL AS whole,
    a.idle_ms, a.measured_ms, a.utilization_ms
FROM held AS h
JOIN (SELECT *, count(*) OVER (PARTITION BY allocation_id) = 1 AS is_only FROM allocation_devices WHERE weight > 0) AS d USING (allocation_id)
LEFT JOIN device_hours AS a ON a.device_id = d.device_id AND a.hour = h.hour;
