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
-- blocks of a load are ordered by series and hour: blocks of the previous and next hour are adjacent, or found below
scanned AS NOT MATERIALIZED (
    SELECT series_id, hour, samples, value_sum, idle_samples, step_ms, idle_ms, value_ms, longest_ms, first_offset_ms, last_offset_ms, last_value,
        coalesce(lag(series_id) OVER () = series_id AND lag(hour) OVER () = hour - 1, false) AS is_after,
        coalesce(lead(series_id) OVER () = series_id AND lead(hour) OVER () = hour + 1, false) AS is_before,
        lag(last_offset_ms) OVER () - 3600000 AS prev_offset_ms, lag(last_value) OVER () AS prev_value,
        lead(first_offset_ms) OVER () + 3600000 AS next_offset_ms
    FROM blocks
    -- three hours on either side, for samples valid into the span and the samples that end them
    WHERE hour >= getvariable('span_from_ms') // 3600000 - 3 AND hour <= getvariable('span_to_ms') // 3600000 + 3
),
loose AS MATERIALIZED (
    FROM scanned WHERE NOT (is_after AND is_before)
),
edges AS MATERIALIZED (
    SELECT b.* REPLACE (
        b.is_after OR p.hour IS NOT NULL AS is_after,
        b.is_before OR n.hour IS NOT NULL AS is_before,
        CASE WHEN b.is_after THEN b.prev_offset_ms ELSE p.last_offset_ms - 3600000 END AS prev_offset_ms,
        CASE WHEN b.is_after THEN b.prev_value ELSE p.last_value END AS prev_value,
        CASE WHEN b.is_before THEN b.next_offset_ms ELSE n.first_offset_ms + 3600000 END AS next_offset_ms)
    FROM loose AS b
    LEFT JOIN loose AS p ON p.series_id = b.series_id AND p.hour = b.hour - 1
    LEFT JOIN loose AS n ON n.series_id = b.series_id AND n.hour = b.hour + 1
),
-- An exporter uses the same series whenever a GPU has no pod, so a series has several stretches of hours.
ends AS MATERIALIZED (
    SELECT *, hour::BIGINT * 3600000 + first_offset_ms AS from_ms, hour::BIGINT * 3600000 + last_offset_ms AS last_ms
    FROM edges
    WHERE NOT (is_after AND is_before)
),
stretches AS (
    SELECT series_id, is_after, from_ms, CASE WHEN is_before THEN lead(last_ms) OVER (PARTITION BY series_id ORDER BY hour) ELSE last_ms END AS to_ms
    FROM ends
),
spans AS (
    SELECT d.device_id, s.from_ms, s.to_ms,
        max(s.to_ms) OVER (PARTITION BY d.device_id ORDER BY s.from_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS earlier_to_ms
    FROM stretches AS s JOIN devices AS d USING (series_id)
    WHERE NOT s.is_after
),
-- hours with several series of the device at once and the hours next to them, and hours in which the node's life begins or ends
apart AS MATERIALIZED (
    SELECT device_id, unnest(range(from_ms // 3600000 - 1, least(to_ms, earlier_to_ms) // 3600000 + 2))::INTEGER AS hour
    FROM spans
    WHERE earlier_to_ms >= from_ms
    UNION
    SELECT device_id, hour
    FROM (SELECT DISTINCT device_id, unnest([up_from_ms // 3600000, (up_to_ms - 1) // 3600000])::INTEGER AS hour FROM devices)
    WHERE hour >= getvariable('span_from_ms') // 3600000 - 3 AND hour <= getvariable('span_to_ms') // 3600000 + 3
),
near AS MATERIALIZED (
    SELECT device_id, hour, bool_or(later = 0) AS is_wanted
    FROM (SELECT device_id, hour + later AS hour, later FROM apart CROSS JOIN (VALUES (-1), (0), (1)) AS t (later))
    GROUP BY ALL
),
plain AS (
    -- series of one device may differ in scale: from here on values are fractions of 1
    SELECT d.device_id, b.hour, b.samples, b.idle_samples, b.step_ms, b.idle_ms, b.longest_ms, b.first_offset_ms, b.last_offset_ms,
        b.prev_offset_ms, b.next_offset_ms, b.value_sum / d.full_scale AS part_sum, b.value_ms / d.full_scale AS part_ms,
        b.last_value / d.full_scale AS last_part, b.last_value < d.idle_below AS last_idle,
        b.prev_value / d.full_scale AS prev_part, b.prev_value < d.idle_below AS prev_idle, i.interval_ms, i.prev_interval_ms, 1 AS series,
        coalesce(o.hour, 0) > 0 AS is_apart
    FROM (FROM scanned WHERE is_after AND is_before UNION ALL FROM edges WHERE is_after AND is_before) AS b
    JOIN devices AS d USING (series_id)
    -- one row each; joined first on the right, each series would repeat for each hour of its target
    LEFT JOIN scrape_intervals AS i ON i.target_id = d.target_id AND i.hour = b.hour
    -- as an anti join, its small estimate would make the blocks the side that is hashed
    LEFT JOIN apart AS o ON o.device_id = d.device_id AND o.hour = b.hour
    WHERE b.hour::BIGINT * 3600000 < d.up_to_ms AND d.up_from_ms < (b.hour::BIGINT + 1) * 3600000
        AND b.hour >= getvariable('span_from_ms') // 3600000 AND b.hour <= getvariable('span_to_ms') // 3600000
),
-- blocks before hours: with its hours first, a device would have a row for each hour and each series that it ever had
placed AS MATERIALIZED (
    SELECT b.* EXCLUDE (prev_offset_ms, prev_value, next_offset_ms), d.* EXCLUDE (series_id) FROM scanned AS b JOIN devices AS d USING (series_id)
),
others AS (
    SELECT b.* EXCLUDE (from_ms, last_ms), d.* EXCLUDE (series_id), true AS is_wanted
    FROM ends AS b JOIN devices AS d USING (series_id) ANTI JOIN apart AS n ON n.device_id = d.device_id AND n.hour = b.hour
    -- before the span, only the last samples of a stretch matter, and after it only the first
    WHERE (NOT b.is_before OR b.hour >= getvariable('span_from_ms') // 3600000) AND (NOT b.is_after OR b.hour <= getvariable('span_to_ms') // 3600000)
    UNION ALL BY NAME
    -- the neighbors of a sample may be in any series of the device
    SELECT b.*, n.is_wanted
    FROM placed AS b
    JOIN near AS n ON n.device_id = b.device_id AND n.hour = b.hour
    LEFT JOIN ends AS e ON e.series_id = b.series_id AND e.hour = b.hour
    WHERE n.is_wanted OR e.hour IS NULL
),
hours AS (
    SELECT o.device_id, o.hour, count(*) AS series, bool_or(o.is_wanted) AS is_wanted, min(o.first_offset_ms) AS first_offset_ms,
        max(o.last_offset_ms) AS last_offset_ms, arg_max(o.last_value / o.full_scale, o.last_offset_ms) AS last_part,
        arg_max(o.last_value < o.idle_below, o.last_offset_ms) AS last_idle, min(i.interval_ms) AS interval_ms,
        sum(o.samples)::INTEGER AS samples, sum(o.value_sum / o.full_scale) AS part_sum, any_value(o.step_ms) AS step_ms,
        sum(o.idle_samples)::INTEGER AS idle_samples, any_value(o.idle_ms) AS idle_ms, any_value(o.value_ms / o.full_scale) AS part_ms,
        any_value(o.longest_ms) AS longest_ms, any_value(o.prev_offset_ms) AS prev_offset_ms, any_value(o.prev_value / o.full_scale) AS prev_part,
        any_value(o.prev_value < o.idle_below) AS prev_idle, any_value(i.prev_interval_ms) FILTER (o.prev_offset_ms IS NOT NULL) AS prev_interval_ms,
        any_value(o.next_offset_ms) AS next_offset_ms
    FROM others AS o LEFT JOIN scrape_intervals AS i ON i.target_id = o.target_id AND i.hour = o.hour
    WHERE o.hour::BIGINT * 3600000 < o.up_to_ms AND o.up_from_ms < (o.hour::BIGINT + 1) * 3600000
    GROUP BY ALL
),
linked AS (
    -- no sample is valid for three hours, or ends one from so long ago
    SELECT lag(hour) OVER w AS prev_hour, CASE WHEN next_offset_ms IS NOT NULL THEN hour + 1 ELSE lead(hour) OVER w END AS next_hour, * REPLACE (
        coalesce(prev_offset_ms, CASE WHEN hour - prev_hour <= 3 THEN lag(last_offset_ms) OVER w - (hour - prev_hour) * 3600000 END) AS prev_offset_ms,
        coalesce(prev_part, CASE WHEN hour - prev_hour <= 3 THEN lag(last_part) OVER w END) AS prev_part,
        coalesce(prev_idle, CASE WHEN hour - prev_hour <= 3 THEN lag(last_idle) OVER w END) AS prev_idle,
        coalesce(prev_interval_ms, lag(interval_ms) OVER w) AS prev_interval_ms,
        coalesce(next_offset_ms, CASE WHEN next_hour - hour <= 3 THEN lead(first_offset_ms) OVER w + (next_hour - hour) * 3600000 END) AS next_offset_ms)
    FROM hours
    WINDOW w AS (PARTITION BY device_id ORDER BY hour)
),
found AS MATERIALIZED (
    FROM linked WHERE is_wanted
),
silent AS (
    SELECT device_id, hour + later AS hour, last_offset_ms - later * 3600000 AS prev_offset_ms, last_part AS prev_part, last_idle AS prev_idle,
        interval_ms, interval_ms AS prev_interval_ms, next_offset_ms - later * 3600000 AS next_offset_ms
    FROM (
        SELECT *, unnest(range(1, least(coalesce(next_hour - hour, 1000),
            (valid_until(last_offset_ms, next_offset_ms, interval_ms) - 1) // 3600000 + 1)))::INTEGER AS later
        FROM found
        WHERE coalesce(next_hour - hour, 2) > 1
    )
),
-- each hour in order: the last sample before it, its own samples except the last, and the last
parts AS (
    SELECT *,
        greatest(0, valid_until(prev_offset_ms, first_offset_ms, prev_interval_ms)) AS before_first_ms,
        CASE WHEN step_ms > 2.5 * interval_ms THEN interval_ms ELSE coalesce(step_ms, 0) END AS each_ms,
        least(3600000, valid_until(last_offset_ms, next_offset_ms, interval_ms)) - last_offset_ms AS after_last_ms,
        series = 1 AND (step_ms IS NOT NULL OR samples = 1 OR longest_ms <= 2.5 * interval_ms) AS is_enough
    FROM (FROM found UNION ALL BY NAME FROM plain WHERE NOT is_apart)
)
SELECT device_id, hour, first_offset_ms, interval_ms, prev_offset_ms, prev_part, prev_idle, prev_interval_ms, next_offset_ms,
    CASE WHEN is_enough THEN CASE WHEN prev_idle THEN before_first_ms ELSE 0 END + coalesce(idle_ms, idle_samples * each_ms)
        + CASE WHEN last_idle THEN after_last_ms ELSE 0 END END::DOUBLE AS idle_ms,
    CASE WHEN is_enough THEN before_first_ms + CASE WHEN longest_ms IS NULL THEN (samples - 1) * each_ms ELSE last_offset_ms - first_offset_ms END
        + after_last_ms END::DOUBLE AS measured_ms,
    CASE WHEN is_enough
        THEN coalesce(prev_part, 0) * before_first_ms + coalesce(part_ms, (part_sum - last_part) * each_ms) + last_part * after_last_ms
    END AS utilization_ms
FROM parts
UNION ALL BY NAME
FROM silent;
