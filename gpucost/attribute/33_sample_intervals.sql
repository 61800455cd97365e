-- reads: device_holdings, device_hours, node_devices, blocks; the span [span_from_ms, span_to_ms)
-- writes: sample_intervals, one row per sample of a device in an hour that aggregates alone don't explain: when it speaks, and what it says
-- invariant: within one (device, hour) rows do not overlap; from_ms < to_ms within the hour
CREATE OR REPLACE TEMP TABLE sample_intervals AS
WITH wanted AS (
    -- moments as distances from the start of the hour; a sample of an earlier hour has a negative one
    SELECT device_id, hour, series, interval_ms, idle_below, full_scale, prev_value, prev_interval_ms,
        prev_ms - hour::BIGINT * 3600000 AS prev_offset_ms,
        first_ms - hour::BIGINT * 3600000 AS first_offset_ms,
        next_ms - hour::BIGINT * 3600000 AS next_offset_ms
    FROM device_hours SEMI JOIN (FROM device_holdings WHERE NOT whole) USING (device_id, hour)
),
lists AS (
    SELECT w.device_id, w.hour, w.series, w.next_offset_ms AS after_ms, w.interval_ms, b.vals,
        coalesce(b.offsets_ms, list_transform(range(b.samples), lambda i: (b.first_offset_ms + i * coalesce(b.step_ms, 0))::INTEGER))
            ::BIGINT[] AS offsets
    FROM wanted AS w
    JOIN node_devices AS d USING (device_id)
    JOIN blocks AS b ON b.series_id = d.series_id AND b.hour = w.hour
        AND b.hour >= getvariable('span_from_ms') // 3600000 AND b.hour < getvariable('span_to_ms') // 3600000 + 1
),
alone AS (
    SELECT device_id, hour, interval_ms, unnest(offsets) AS offset_ms, unnest(list_append(offsets[2:], after_ms)) AS next_ms, unnest(vals) AS value
    FROM lists
    WHERE series = 1
),
-- series of one device that speak at the same moment repeat each other
merged AS (
    SELECT device_id, hour, offset_ms, max(value) AS value, min(interval_ms) AS interval_ms, any_value(after_ms) AS after_ms
    FROM (SELECT device_id, hour, interval_ms, after_ms, unnest(offsets) AS offset_ms, unnest(vals) AS value FROM lists WHERE series > 1)
    GROUP BY ALL
),
together AS (
    SELECT device_id, hour, interval_ms, offset_ms,
        coalesce(lead(offset_ms) OVER (PARTITION BY device_id, hour ORDER BY offset_ms), after_ms) AS next_ms, value
    FROM merged
),
earlier AS (
    SELECT device_id, hour, prev_interval_ms AS interval_ms, prev_offset_ms AS offset_ms,
        coalesce(first_offset_ms, next_offset_ms) AS next_ms, prev_value AS value
    FROM wanted
    WHERE prev_offset_ms IS NOT NULL
),
sample_validity AS (
    SELECT device_id, hour, value, offset_ms,
        CASE WHEN next_ms - offset_ms <= 2.5 * interval_ms THEN next_ms ELSE offset_ms + interval_ms END AS until_ms
    FROM (FROM alone UNION ALL BY NAME FROM together UNION ALL BY NAME FROM earlier)
)
SELECT v.device_id, v.hour,
    v.hour::BIGINT * 3600000 + greatest(v.offset_ms, 0) AS from_ms,
    v.hour::BIGINT * 3600000 + least(v.until_ms, 3600000) AS to_ms,
    v.value < w.idle_below AS idle,
    v.value / w.full_scale AS utilization
FROM sample_validity AS v JOIN wanted AS w USING (device_id, hour)
WHERE v.until_ms > 0;
