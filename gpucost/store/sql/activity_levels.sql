-- reads: activity_devices, blocks, allocations
-- writes: nothing; answers one row per pod that is measured: devices heard and active, and 95th percentiles of its busiest device
-- invariant: activity is 0-1, memory in MiB and null where it was not collected; a device is active that was once not idle
WITH heard AS (
    SELECT d.allocation_id, d.device, d.kind, d.scale, d.held_from_ms, d.held_to_ms, b.idle_threshold,
        b.hour::BIGINT * 3600000 + unnest(coalesce(b.offsets_ms,
            list_transform(range(b.samples), lambda i: b.first_offset_ms + (i * coalesce(b.step_ms, 0))::INTEGER))) AS at_ms,
        unnest(b.vals) AS value
    FROM activity_devices AS d JOIN blocks AS b USING (series_id)
    WHERE b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
),
devices AS (
    SELECT allocation_id, device, kind, count(*) AS samples, avg(value * scale) AS mean, quantile_cont(value * scale, 0.95) AS high,
        bool_or(value >= idle_threshold) AS active, min(at_ms) AS first_ms, max(at_ms) AS last_ms
    FROM heard
    WHERE at_ms >= held_from_ms AND at_ms < held_to_ms
    GROUP BY ALL
)
SELECT a.cluster, a.uid,
    count(*) FILTER (kind = 'activity') AS devices,
    count(*) FILTER (kind = 'activity' AND active) AS active_devices,
    coalesce(max(last_ms - first_ms) FILTER (kind = 'activity'), 0) AS measured_ms,
    avg(mean) FILTER (kind = 'activity') AS mean_activity,
    max(high) FILTER (kind = 'activity') AS high_activity,
    max(high) FILTER (kind = 'memory') AS high_memory_mib
FROM devices JOIN allocations AS a USING (allocation_id)
GROUP BY ALL
HAVING devices > 0
ORDER BY ALL;
