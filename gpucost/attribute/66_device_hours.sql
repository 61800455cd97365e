-- reads: blocks, node_devices, scrape_intervals, settings; the span [span_from_ms, span_to_ms)
-- writes: device_hours, one row per (device, hour) with a valid sample: its neighbors, and its idle and measured time if aggregates are enough; offsets are from the start of the hour, negative before it
-- invariant: one row per (device_id, hour); a sample is valid until the next, or for one interval if the next is over 2.5 away; idle_ms <= measured_ms <= 3,600,000
-- only with: node_devices, told_activity
CREATE OR REPLACE TEMP TABLE device_hours AS
WITH devices AS (
    SELECT n.series_id, n.device_id, n.target_id, n.up_from_ms, n.up_to_ms, 100.0 / n.scale AS full_scale, c.threshold_percent / n.scale AS idle_below
    FROM node_devices AS n CROSS JOIN settings AS c
    WHERE n.scale IS NOT NULL
),
-- blocks are ordered by series and hour: blocks of the previous and next hour are adjacent, or found below
scanned AS (
    SELECT series_id, hour, samples, value_sum, idle_samples, step_ms, first_offset_ms, last_offset_ms, last_value,
        lag(series_id) OVER () = series_id AND lag(hour) OVER () = hour - 1 AND lead(series_id) OVER () = series_id
            AND lead(hour) OVER () = hour + 1 AS is_between,
        lag(last_offset_ms) OVER () - 3600000 AS prev_offset_ms, lag(last_value) OVER () AS prev_value,
        lead(first_offset_ms) OVER () + 3600000 AS next_offset_ms
    FROM blocks
    -- three hours on either side, for samples valid into the span and the samples that end them
    WHERE hour >= getvariable('span_from_ms') // 3600000 - 3 AND hour <= getvariable('span_to_ms') // 3600000 + 3
),
-- hours in which several series may report a device, and the hours next to them
spans AS (
    SELECT d.device_id, b.from_hour, b.to_hour,
        max(b.to_hour) OVER (PARTITION BY d.device_id ORDER BY b.from_hour ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_to_hour
    FROM devices AS d
    JOIN (
        SELECT series_id, min(hour) AS from_hour, max(hour) AS to_hour FROM blocks
        WHERE hour >= getvariable('span_from_ms') // 3600000 - 3 AND hour <= getvariable('span_to_ms') // 3600000 + 3
        GROUP BY series_id
    ) AS b USING (series_id)
),
shared AS (
    SELECT DISTINCT device_id, unnest(range(from_hour - 1, least(to_hour, earlier_to_hour) + 2))::INTEGER AS hour
    FROM spans
    WHERE earlier_to_hour >= from_hour
),
readings AS MATERIALIZED (
    -- series of one device may differ in scale: from here on values are fractions of 1
    SELECT d.device_id, i.interval_ms, i.prev_interval_ms, b.* EXCLUDE (series_id, is_between, value_sum, last_value, prev_value),
        b.value_sum / d.full_scale AS part_sum, b.last_value / d.full_scale AS last_part, b.last_value < d.idle_below AS last_idle,
        b.prev_value / d.full_scale AS prev_part, b.prev_value < d.idle_below AS prev_idle,
        -- the series' neighbors are the device's
        coalesce(b.is_between, false) AND s.hour IS NULL AND i.prev_interval_ms IS NOT NULL
            AND d.up_from_ms < b.hour::BIGINT * 3600000 AND (b.hour::BIGINT + 1) * 3600000 < d.up_to_ms AS is_plain
    FROM scanned AS b
    JOIN devices AS d USING (series_id)
    -- one row each; joined first on the right, each series would repeat for each hour of its target
    LEFT JOIN scrape_intervals AS i ON i.target_id = d.target_id AND i.hour = b.hour
    LEFT JOIN shared AS s ON s.device_id = d.device_id AND s.hour = b.hour
    WHERE b.hour::BIGINT * 3600000 < d.up_to_ms AND d.up_from_ms < (b.hour::BIGINT + 1) * 3600000
),
others AS (
    SELECT DISTINCT device_id, hour FROM readings WHERE NOT is_plain
),
hours AS (
    SELECT device_id, hour, count(*) AS series, min(first_offset_ms) AS first_offset_ms, max(last_offset_ms) AS last_offset_ms,
        arg_max(last_part, last_offset_ms) AS last_part, arg_max(last_idle, last_offset_ms) AS last_idle, min(interval_ms) AS interval_ms,
        sum(samples)::INTEGER AS samples, sum(part_sum) AS part_sum, any_value(step_ms) AS step_ms, sum(idle_samples)::INTEGER AS idle_samples
    FROM readings SEMI JOIN (SELECT device_id, hour + unnest([-1, 0, 1]) AS hour FROM others) USING (device_id, hour)
    GROUP BY ALL
),
linked AS (
    -- no sample is valid for three hours, or ends one from so long ago
    SELECT *, lag(hour) OVER w AS prev_hour, lead(hour) OVER w AS next_hour,
        CASE WHEN hour - prev_hour <= 3 THEN lag(last_offset_ms) OVER w - (hour - prev_hour) * 3600000 END AS prev_offset_ms,
        CASE WHEN hour - prev_hour <= 3 THEN lag(last_part) OVER w END AS prev_part,
        CASE WHEN hour - prev_hour <= 3 THEN lag(last_idle) OVER w END AS prev_idle,
        lag(interval_ms) OVER w AS prev_interval_ms,
        CASE WHEN next_hour - hour <= 3 THEN lead(first_offset_ms) OVER w + (next_hour - hour) * 3600000 END AS next_offset_ms
    FROM hours
    WINDOW w AS (PARTITION BY device_id ORDER BY hour)
),
found AS MATERIALIZED (
    FROM linked SEMI JOIN others USING (device_id, hour)
),
silent AS (
    SELECT device_id, hour + later AS hour, last_offset_ms - later * 3600000 AS prev_offset_ms, last_part AS prev_part, last_idle AS prev_idle,
        interval_ms, interval_ms AS prev_interval_ms, next_offset_ms - later * 3600000 AS next_offset_ms
    FROM (
        SELECT *, unnest(range(1, least(coalesce(next_hour - hour, 1000),
            (CASE WHEN next_offset_ms - last_offset_ms <= 2.5 * interval_ms THEN next_offset_ms ELSE last_offset_ms + interval_ms END - 1)
                // 3600000 + 1)))::INTEGER AS later
        FROM found
        WHERE coalesce(next_hour - hour, 2) > 1
    )
),
spoken AS (
    SELECT * EXCLUDE (prev_hour, next_hour, series), series = 1 AND (step_ms IS NOT NULL OR samples = 1) AS is_even FROM found
    UNION ALL BY NAME
    SELECT * EXCLUDE (is_plain), step_ms IS NOT NULL OR samples = 1 AS is_even FROM readings WHERE is_plain
),
-- each hour in order: the last sample before it, its own samples except the last, and the last
parts AS (
    SELECT *,
        CASE
            WHEN prev_offset_ms IS NULL THEN 0
            WHEN first_offset_ms - prev_offset_ms <= 2.5 * prev_interval_ms THEN first_offset_ms
            ELSE greatest(0, prev_offset_ms + prev_interval_ms)
        END AS before_first_ms,
        CASE WHEN step_ms > 2.5 * interval_ms THEN interval_ms ELSE coalesce(step_ms, 0) END AS each_ms,
        CASE WHEN next_offset_ms - last_offset_ms <= 2.5 * interval_ms THEN 3600000 - last_offset_ms
            ELSE least(interval_ms, 3600000 - last_offset_ms) END AS after_last_ms
    FROM spoken
)
SELECT device_id, hour, first_offset_ms, interval_ms, prev_offset_ms, prev_part, prev_idle, prev_interval_ms, next_offset_ms,
    CASE WHEN is_even THEN CASE WHEN prev_idle THEN before_first_ms ELSE 0 END + idle_samples * each_ms
        + CASE WHEN last_idle THEN after_last_ms ELSE 0 END END::DOUBLE AS idle_ms,
    CASE WHEN is_even THEN before_first_ms + (samples - 1) * each_ms + after_last_ms END::DOUBLE AS measured_ms,
    CASE WHEN is_even
        THEN coalesce(prev_part, 0) * before_first_ms + (part_sum - last_part) * each_ms + last_part * after_last_ms
    END AS utilization_ms
FROM parts
UNION ALL BY NAME
FROM silent;
