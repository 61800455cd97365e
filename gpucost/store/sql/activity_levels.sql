-- reads: activity_devices, activity_use, blocks, allocations; $owners
-- writes: nothing; returns one row per measured pod of the workloads $owners (cluster, namespace, workload; null: all): its devices, devices in use and devices ever active, the highest 5-minute mean of each hour, and the most memory of a device
-- invariant: activity is 0-1; memory is in MiB, or null if it was not collected; memory is fixed if it is equal in nine
-- of ten samples
WITH wanted AS (
    SELECT allocation_id FROM allocations
    WHERE $owners::VARCHAR[][] IS NULL OR (cluster, namespace, workload) IN (SELECT (o[1], o[2], o[3]) FROM (SELECT unnest($owners::VARCHAR[][]) AS o))
    UNION
    -- also one pod with samples of memory, to distinguish memory that was not collected
    (SELECT allocation_id FROM activity_devices SEMI JOIN blocks USING (series_id) SEMI JOIN activity_use USING (allocation_id)
    WHERE kind = 'memory' ORDER BY held_to_ms - held_from_ms DESC, allocation_id LIMIT 1)
),
held AS (
    FROM activity_devices SEMI JOIN wanted USING (allocation_id)
),
-- lists first: DuckDB 2.0 can fail on a filter above lists above a join ("dict-surviving cache")
samples AS (
    SELECT series_id, hour::BIGINT * 3600000 + unnest(coalesce(offsets_ms,
        list_transform(range(samples), lambda i: first_offset_ms + (i * coalesce(step_ms, 0))::INTEGER))) AS at_ms,
        unnest(vals) AS value
    FROM blocks SEMI JOIN held AS d
        ON d.series_id = blocks.series_id AND hour BETWEEN d.held_from_ms // 3600000 AND (d.held_to_ms - 1) // 3600000
),
heard AS (
    SELECT allocation_id, device, kind, scale, at_ms, value
    FROM samples AS s JOIN held AS d
        ON d.series_id = s.series_id AND at_ms >= held_from_ms AND at_ms < held_to_ms
),
devices AS (
    SELECT allocation_id, device, count(*) FILTER (kind = 'activity') AS samples, avg(value * scale) FILTER (kind = 'activity') AS mean,
        max(value * scale) FILTER (kind = 'memory') AS most_memory_mib,
        quantile_disc(value * scale, 0.1) FILTER (kind = 'memory') AS least_memory_mib,
        max(at_ms) FILTER (kind = 'activity') - min(at_ms) FILTER (kind = 'activity') AS measured_ms
    FROM heard GROUP BY ALL
),
slots AS (
    SELECT allocation_id, at_ms // 3600000 AS hour, avg(value * scale) AS mean
    FROM heard
    WHERE kind = 'activity'
    GROUP BY allocation_id, device, hour, at_ms // 300000
),
hours AS (
    SELECT allocation_id, list((hour, high) ORDER BY hour) AS hours, max(high) AS high
    FROM (SELECT allocation_id, hour, max(mean) AS high FROM slots GROUP BY ALL)
    GROUP BY ALL
)
SELECT a.cluster, a.uid, h.hours, h.high,
    count(*) FILTER (samples > 0) AS devices,
    count(*) FILTER (samples > 0 AND is_used) AS active_devices,
    count(*) FILTER (samples > 0 AND is_busy) AS busy_devices,
    coalesce(max(measured_ms), 0) / 3600000 AS measured_hours,
    avg(d.mean) AS mean,
    max(most_memory_mib) AS high_memory_mib,
    coalesce(bool_and(least_memory_mib >= 0.95 * most_memory_mib) FILTER (is_used), false) AS has_fixed_memory
FROM devices AS d LEFT JOIN activity_use USING (allocation_id, device) JOIN hours AS h USING (allocation_id) JOIN allocations AS a USING (allocation_id)
GROUP BY ALL
HAVING devices > 0
ORDER BY ALL;
