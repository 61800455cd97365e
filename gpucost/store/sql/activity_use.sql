-- reads: activity_devices, blocks
-- writes: activity_use, one row per (pod, device) whose activity is measured: whether it was ever not idle (is_busy), and whether it was in use
-- invariant: a device is in use if it ever did anything, or holds memory of the pod: more at one moment than while no pod held it
CREATE OR REPLACE TEMP TABLE activity_use AS
SELECT allocation_id, device,
    bool_or(idle_samples + (last_value < idle_threshold)::INTEGER < samples) FILTER (kind = 'activity') AS is_busy,
    is_busy OR sum(value_sum) FILTER (kind = 'activity') > 0
        OR coalesce(max(coalesce(list_max(vals), greatest(value_sum / samples, last_value)) * scale - empty_mib) > 0, false) AS is_used
FROM activity_devices JOIN blocks USING (series_id)
WHERE hour BETWEEN held_from_ms // 3600000 AND (held_to_ms - 1) // 3600000
GROUP BY ALL
HAVING is_busy IS NOT NULL;
