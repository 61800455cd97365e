-- reads: allocation_segments, allocation_devices, hour_activity
-- writes: device_holdings, one row per (holding, device of the pod), and whether it is whole, so that the hour's aggregates answer for it
-- invariant: weight > 0
CREATE OR REPLACE TEMP TABLE device_holdings AS
SELECT h.allocation_id, h.node_id, h.segment_from_ms, h.hour, h.from_ms, h.to_ms, d.device_id, d.weight,
    h.to_ms - h.from_ms = 3600000 AND a.device_id IS NOT NULL AS whole,
    a.idle_ms, a.measured_ms, a.utilization_ms
FROM allocation_segments AS h
JOIN allocation_devices AS d USING (allocation_id)
LEFT JOIN hour_activity AS a ON a.device_id = d.device_id AND a.hour = h.hour
WHERE d.weight > 0;
