-- reads: activity_devices, blocks
-- writes: activity_use: one row per (pod, device) with measured activity: whether it was ever active (is_busy), and whether it was in use
-- invariant: a device is in use if it was ever active at all, or if it holds memory of the pod: more at one moment than
-- without a pod
CREATE OR REPLACE TEMP TABLE activity_use AS
WITH active AS (
    SELECT allocation_id, device, bool_or(idle_samples + (last_value < idle_threshold)::INTEGER < samples) AS is_busy,
        is_busy OR sum(value_sum) > 0 AS is_active
    FROM activity_devices JOIN blocks USING (series_id)
    WHERE kind = 'activity' AND hour BETWEEN held_from_ms // 3600000 AND (held_to_ms - 1) // 3600000
    GROUP BY ALL
),
-- read lists of values only for the other devices
filled AS (
    SELECT DISTINCT allocation_id, device
    FROM activity_devices JOIN blocks USING (series_id) SEMI JOIN (FROM active WHERE NOT is_active) USING (allocation_id, device)
    WHERE kind = 'memory' AND hour BETWEEN held_from_ms // 3600000 AND (held_to_ms - 1) // 3600000
        AND coalesce(list_max(vals), greatest(value_sum / samples, last_value)) * scale > empty_mib
)
SELECT allocation_id, device, is_busy, is_active OR (allocation_id, device) IN (FROM filled) AS is_used
FROM active;
