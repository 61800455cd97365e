-- reads: device_holdings, device_hours, node_devices, blocks
-- writes: spoken, one row per sample of a device in an hour that aggregates alone don't explain: when it speaks, and what it says
-- invariant: within one (device, hour) rows do not overlap; from_ms < to_ms within the hour
CREATE OR REPLACE TEMP TABLE spoken AS
WITH wanted AS (
    SELECT DISTINCT w.device_id, w.hour FROM device_holdings AS w WHERE NOT w.whole
),
lists AS (
    SELECT w.device_id, w.hour, d.interval_ms, b.vals AS vals,
        coalesce(b.offsets_ms, list_transform(range(b.samples), lambda i: (b.first_offset_ms + i * coalesce(b.step_ms, 0))::INTEGER)) AS offsets
    FROM wanted AS w
    JOIN node_devices AS d USING (device_id)
    JOIN blocks AS b ON b.series_id = d.series_id AND b.hour = w.hour
),
points AS (
    SELECT device_id, hour, interval_ms, hour::BIGINT * 3600000 + unnest(offsets) AS at_ms, unnest(vals) AS value FROM lists
),
known AS (
    -- series of one device that speak at the same moment repeat each other
    SELECT device_id, hour, at_ms, max(value) AS value, min(interval_ms) AS interval_ms FROM points GROUP BY ALL
    UNION ALL
    SELECT device_id, hour, h.prev_ms, h.prev_value, h.prev_interval_ms
    FROM wanted AS w JOIN device_hours AS h USING (device_id, hour)
    WHERE h.prev_ms IS NOT NULL
),
followed AS (
    SELECT k.*, h.idle_below, h.full_scale,
        coalesce(lead(k.at_ms) OVER (PARTITION BY k.device_id, k.hour ORDER BY k.at_ms), h.next_ms) AS next_ms
    FROM known AS k JOIN device_hours AS h USING (device_id, hour)
),
until AS (
    SELECT *,
        CASE WHEN next_ms - at_ms <= 2.5 * interval_ms THEN next_ms ELSE at_ms + interval_ms END AS speaks_to_ms
    FROM followed
)
SELECT device_id, hour,
    greatest(at_ms, hour::BIGINT * 3600000) AS from_ms,
    least(speaks_to_ms, (hour::BIGINT + 1) * 3600000) AS to_ms,
    value < idle_below AS idle,
    value / full_scale AS utilization
FROM until
WHERE speaks_to_ms > hour::BIGINT * 3600000;
