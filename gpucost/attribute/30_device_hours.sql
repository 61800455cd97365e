-- reads: blocks, node_devices, scrape_intervals, settings; the span [span_from_ms, span_to_ms)
-- writes: device_hours, one row per (device, hour) in which a sample speaks: its neighbors, and how long it was idle and measured where aggregates alone tell
-- invariant: one row per (device_id, hour); a sample speaks until the next, or for one interval where the next is over 2.5 away; idle_ms <= measured_ms <= 3,600,000
CREATE OR REPLACE TEMP TABLE device_hours AS
WITH readings AS (
    SELECT d.device_id, i.interval_ms, b.hour, b.hour::BIGINT * 3600000 + b.first_offset_ms AS first_ms,
        b.hour::BIGINT * 3600000 + b.last_offset_ms AS last_ms,
        b.last_value, b.samples, b.value_sum, b.step_ms, b.idle_samples, b.idle_threshold, d.full_scale
    FROM blocks AS b
    JOIN (
        SELECT n.series_id, n.device_id, n.target_id, n.up_from_ms, n.up_to_ms,
            100.0 / CASE WHEN n.gpu_instance_id = '' THEN c.device_scale ELSE c.mig_scale END AS full_scale
        FROM node_devices AS n CROSS JOIN settings AS c
    ) AS d USING (series_id)
    JOIN scrape_intervals AS i ON i.target_id = d.target_id AND i.hour = b.hour
    -- three hours on either side, for the samples that speak into the span and for those that end such speech
    WHERE b.hour >= getvariable('span_from_ms') // 3600000 - 3 AND b.hour <= getvariable('span_to_ms') // 3600000 + 3
        AND b.hour::BIGINT * 3600000 < d.up_to_ms AND d.up_from_ms < (b.hour::BIGINT + 1) * 3600000
),
hours AS (
    SELECT device_id, hour, count(*) AS series, min(first_ms) AS first_ms, max(last_ms) AS last_ms,
        arg_max(last_value, last_ms) AS last_value, min(interval_ms) AS interval_ms, sum(samples) AS samples,
        sum(value_sum) AS value_sum, any_value(step_ms) AS step_ms, sum(idle_samples) AS idle_samples,
        any_value(idle_threshold) AS idle_below, any_value(full_scale) AS full_scale
    FROM readings
    GROUP BY ALL
),
linked AS (
    SELECT *,
        lag(last_ms) OVER w AS prev_ms, lag(last_value) OVER w AS prev_value, lag(interval_ms) OVER w AS prev_interval_ms,
        lead(first_ms) OVER w AS next_ms, lead(hour) OVER w AS next_hour
    FROM hours
    WINDOW w AS (PARTITION BY device_id ORDER BY hour)
),
silent AS (
    SELECT device_id, last_ms AS prev_ms, last_value AS prev_value, interval_ms, next_ms, idle_below, full_scale,
        unnest(range(hour + 1, least(coalesce(next_hour, hour + 1000),
            (CASE WHEN next_ms - last_ms <= 2.5 * interval_ms THEN next_ms ELSE last_ms + interval_ms END - 1) // 3600000 + 1)))::INTEGER AS hour
    FROM linked
    WHERE coalesce(next_hour, hour + 2) > hour + 1
),
-- of each hour, in order: what the last sample before it says, its own samples but the last, and the last
spoken AS (
    SELECT *,
        CASE
            WHEN prev_ms IS NULL THEN 0
            WHEN first_ms - prev_ms <= 2.5 * prev_interval_ms THEN first_ms - hour::BIGINT * 3600000
            ELSE greatest(0, least(prev_ms + prev_interval_ms, first_ms) - hour::BIGINT * 3600000)
        END AS before_first_ms,
        CASE WHEN step_ms > 2.5 * interval_ms THEN interval_ms ELSE coalesce(step_ms, 0) END AS each_ms,
        CASE
            WHEN next_ms - last_ms <= 2.5 * interval_ms THEN (hour::BIGINT + 1) * 3600000 - last_ms
            ELSE least(interval_ms, (hour::BIGINT + 1) * 3600000 - last_ms)
        END AS after_last_ms,
        series = 1 AND (step_ms IS NOT NULL OR samples = 1) AS is_even
    FROM linked
)
SELECT device_id, hour, first_ms, interval_ms, prev_ms, prev_value, prev_interval_ms, next_ms, idle_below, full_scale,
    CASE WHEN is_even THEN CASE WHEN prev_value < idle_below THEN before_first_ms ELSE 0 END + idle_samples * each_ms
        + CASE WHEN last_value < idle_below THEN after_last_ms ELSE 0 END END::DOUBLE AS idle_ms,
    CASE WHEN is_even THEN before_first_ms + (samples - 1) * each_ms + after_last_ms END::DOUBLE AS measured_ms,
    CASE WHEN is_even
        THEN (coalesce(prev_value, 0) * before_first_ms + (value_sum - last_value) * each_ms + last_value * after_last_ms) / full_scale
    END AS utilization_ms
FROM spoken
UNION ALL BY NAME
SELECT device_id, hour, interval_ms, prev_ms, prev_value, interval_ms AS prev_interval_ms, next_ms, idle_below, full_scale
FROM silent;
