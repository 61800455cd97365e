-- reads: activity_devices, blocks
-- writes: activity_use, one row per (pod, device) whose activity is measured: whether it was ever not idle (is_busy), and whether it was in use
-- invariant: a device is in use if it ever did anything, or holds memory of the pod: more at one moment than while no pod held it
CREATE OR REPLACE TEMP TABLE activity_use AS
SELECT d.allocation_id, d.device,
    bool_or(b.idle_samples + (b.last_value < b.idle_threshold)::INTEGER < b.samples) FILTER (d.kind = 'activity') AS is_busy,
    is_busy OR sum(b.value_sum) FILTER (d.kind = 'activity') > 0
        OR coalesce(max(coalesce(list_max(b.vals), greatest(b.value_sum / b.samples, b.last_value)) * d.scale - d.empty_mib) > 0, false) AS is_used
FROM activity_devices AS d
JOIN blocks AS b ON b.series_id = d.series_id AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
GROUP BY ALL
HAVING is_busy IS NOT NULL;
