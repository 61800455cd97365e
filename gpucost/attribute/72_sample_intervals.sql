-- reads: partial_hours, device_readings, device_hours, blocks
-- writes: sample_intervals, for devices in hours for which aggregates are not enough: the valid time of a sample, or of an even run of samples, and its activity
-- invariant: within one (device, hour) rows do not overlap; from_ms < to_ms within the hour; no holding begins or ends within a run of several samples
-- only with: node_devices, told_activity
CREATE OR REPLACE TEMP TABLE sample_intervals AS
WITH wanted AS MATERIALIZED (
    FROM device_hours SEMI JOIN partial_hours USING (device_id, hour)
),
even AS (
    SELECT *, valid_until(0, step_ms, interval_ms) AS each_ms
    FROM device_readings
    WHERE NOT is_uneven
),
lists AS (
    SELECT r.device_id, r.hour, r.full_scale, r.idle_below, r.interval_ms, r.next_offset_ms, r.is_overlapping, b.vals,
        sample_offsets(b.offsets_ms, b.samples, b.first_offset_ms, b.step_ms) AS offsets_ms
    FROM device_readings AS r
    JOIN blocks AS b ON b.series_id = r.series_id AND b.hour = r.hour
    WHERE r.is_uneven
),
-- series of one device with samples at the same moment are duplicates
merged AS (
    SELECT device_id, hour, offset_ms, max(value / full_scale) AS part, bool_and(value < idle_below) AS is_idle
    FROM (SELECT *, unnest(offsets_ms) AS offset_ms, unnest(vals) AS value FROM lists WHERE is_overlapping)
    GROUP BY ALL
),
samples AS (
    SELECT device_id, hour, interval_ms, value / full_scale AS part, value < idle_below AS is_idle, offset_ms, next_offset_ms
    FROM (
        SELECT * EXCLUDE (next_offset_ms), unnest(offsets_ms) AS offset_ms, unnest(vals) AS value,
            unnest(list_append(offsets_ms[2:], next_offset_ms)) AS next_offset_ms
        FROM lists
        WHERE NOT is_overlapping
    )
    UNION ALL BY NAME
    SELECT m.device_id, m.hour, w.interval_ms, m.part, m.is_idle, m.offset_ms,
        coalesce(lead(m.offset_ms) OVER (PARTITION BY m.device_id, m.hour ORDER BY m.offset_ms), w.next_offset_ms) AS next_offset_ms
    FROM merged AS m JOIN wanted AS w USING (device_id, hour)
    UNION ALL BY NAME
    SELECT device_id, hour, interval_ms, last_value / full_scale AS part, last_value < idle_below AS is_idle, last_offset_ms AS offset_ms,
        next_offset_ms
    FROM even
    UNION ALL BY NAME
    SELECT device_id, hour, prev_interval_ms AS interval_ms, prev_part AS part, prev_idle AS is_idle, prev_offset_ms AS offset_ms,
        coalesce(first_offset_ms, next_offset_ms) AS next_offset_ms
    FROM wanted
    WHERE prev_offset_ms IS NOT NULL
),
spoken AS (
    SELECT *, greatest(offset_ms, 0) AS from_offset_ms,
        least(valid_until(offset_ms, next_offset_ms, interval_ms), 3600000) AS to_offset_ms
    FROM samples
)
SELECT device_id, hour, hour::BIGINT * 3600000 + from_offset_ms AS from_ms, hour::BIGINT * 3600000 + to_offset_ms AS to_ms,
    CASE WHEN is_idle THEN to_offset_ms - from_offset_ms ELSE 0 END AS idle_ms,
    to_offset_ms - from_offset_ms AS measured_ms,
    part * (to_offset_ms - from_offset_ms) AS utilization_ms
FROM spoken
WHERE to_offset_ms > 0
UNION ALL
SELECT device_id, hour, hour::BIGINT * 3600000 + first_offset_ms, hour::BIGINT * 3600000 + last_offset_ms,
    idle_samples * each_ms, (samples - 1) * each_ms, (value_sum - last_value) * each_ms / full_scale
FROM even
WHERE samples > 1;
