-- reads: device_holdings, profiled_hours, device_hours, node_devices, blocks, settings; the span [span_from_ms, span_to_ms)
-- writes: partial_hours, device_readings, one row per (series, hour) of a device in hours for which aggregates are not enough, or with profiling metrics; uneven if each sample counts by itself; overlapping if several series of the device have samples at once
-- invariant: uneven if the hour has profiling metrics, samples are uneven, series overlap, or a holding begins or ends between samples; in a device's hour all or none of its series are uneven; a day needs the sample lists of uneven series only
-- only with: node_devices, told_activity
-- otherwise: device_readings (series_id INTEGER, hour INTEGER, is_uneven BOOLEAN)
CREATE OR REPLACE TEMP TABLE partial_hours AS
-- moments as offsets from the start of the hour; a sample of an earlier hour has a negative one
SELECT *, from_ms - hour::BIGINT * 3600000 AS from_offset_ms, to_ms - hour::BIGINT * 3600000 AS to_offset_ms
FROM device_holdings
WHERE NOT whole;
-- only with: profiled_hours
INSERT INTO partial_hours
SELECT *, from_ms - hour::BIGINT * 3600000, to_ms - hour::BIGINT * 3600000
FROM device_holdings SEMI JOIN profiled_hours USING (device_id, hour)
WHERE whole;
CREATE OR REPLACE TEMP TABLE device_readings AS
WITH wanted AS MATERIALIZED (
    FROM device_hours SEMI JOIN partial_hours USING (device_id, hour)
),
sampled AS MATERIALIZED (
    -- blocks before hours: with its hours first, a device would have a row for each hour and each series that it ever had
    SELECT d.device_id, d.scale, b.hour, b.series_id, b.samples, b.value_sum, b.idle_samples, b.step_ms, b.first_offset_ms,
        b.last_offset_ms, b.last_value
    FROM blocks AS b JOIN node_devices AS d ON d.series_id = b.series_id AND d.scale IS NOT NULL
    WHERE b.hour >= getvariable('span_from_ms') // 3600000 AND b.hour < getvariable('span_to_ms') // 3600000 + 1
),
readings AS MATERIALIZED (
    SELECT b.* EXCLUDE (scale), w.interval_ms, 100.0 / b.scale AS full_scale, c.threshold_percent / b.scale AS idle_below,
        lead(b.first_offset_ms) OVER (PARTITION BY device_id, hour ORDER BY b.first_offset_ms) AS lead_offset_ms,
        coalesce(lead_offset_ms, w.next_offset_ms) AS next_offset_ms
    FROM sampled AS b JOIN wanted AS w USING (device_id, hour) CROSS JOIN settings AS c
),
uneven AS (
    FROM profiled_hours
    UNION
    SELECT device_id, hour FROM readings WHERE (step_ms IS NULL AND samples > 1) OR lead_offset_ms <= last_offset_ms
    UNION
    SELECT device_id, hour
    FROM readings AS r JOIN partial_hours AS h USING (device_id, hour)
    WHERE (r.first_offset_ms < h.from_offset_ms AND h.from_offset_ms < r.last_offset_ms)
        OR (r.first_offset_ms < h.to_offset_ms AND h.to_offset_ms < r.last_offset_ms)
)
SELECT r.* EXCLUDE (lead_offset_ms), u.device_id IS NOT NULL AS is_uneven,
    bool_or(coalesce(lead_offset_ms <= last_offset_ms, false)) OVER (PARTITION BY r.device_id, r.hour) AS is_overlapping
FROM readings AS r LEFT JOIN uneven AS u USING (device_id, hour);
