-- reads: blocks, node_devices, scrape_intervals, settings; the span [span_from_ms, span_to_ms)
-- writes: device_hours, one row per (device, hour) in which a sample speaks: what an hour alone tells of it, and its neighbours
-- invariant: one row per (device_id, hour); series = 0 where only a sample of an earlier hour still speaks
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
)
SELECT device_id, hour, series, first_ms, last_ms, last_value, interval_ms, samples, value_sum, step_ms, idle_samples,
    prev_ms, prev_value, prev_interval_ms, next_ms, idle_below, full_scale
FROM linked
UNION ALL
SELECT device_id, hour, 0, NULL, NULL, NULL, interval_ms, 0, 0, NULL, 0,
    prev_ms, prev_value, interval_ms, next_ms, idle_below, full_scale
FROM silent;
