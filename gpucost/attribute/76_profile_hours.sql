-- reads: partial_hours, sample_intervals, profile_devices, profiled_hours, device_hours, blocks; the span [span_from_ms, span_to_ms)
-- writes: profile_hours (stored), one row per (cell, pod, measure): GPU time of the moments with valid samples of activity and of the measure, and value x this time; ratios are 0-1 and cover active moments only
-- invariant: measured_gpu_ms <= measured time of activity_hours, for ratios <= active time; value_gpu_ms of a ratio <= measured_gpu_ms
-- only with: profiled_hours
INSERT INTO profile_hours BY NAME
WITH samples AS NOT MATERIALIZED (
    SELECT p.device_id, p.measure, b.series_id, b.hour::BIGINT * 3600000 + unnest(sample_offsets(b.offsets_ms, b.samples, b.first_offset_ms, b.step_ms)) AS at_ms,
        unnest(b.vals) * p.scale AS value, p.measure IN ('energy', 'thermal_throttle', 'power_throttle') AS is_counter
    FROM blocks AS b JOIN profile_devices AS p USING (series_id)
    WHERE b.hour >= getvariable('span_from_ms') // 3600000 - 3 AND b.hour < getvariable('span_to_ms') // 3600000 + 3
),
powered AS (
    SELECT device_id, measure, at_ms, CASE WHEN measure IN ('power', 'memory_used') THEN value ELSE least(value / 100, 1) END AS value
    FROM samples WHERE NOT is_counter
    UNION ALL
    -- a counter of joules gives the watts until its next value, one of throttled seconds their share
    SELECT device_id, measure, at_ms,
        CASE WHEN lead(value) OVER w >= value THEN 1000 * (lead(value) OVER w - value) / (lead(at_ms) OVER w - at_ms) END
    FROM samples WHERE is_counter
    WINDOW w AS (PARTITION BY device_id, series_id ORDER BY at_ms)
),
-- series of one device with samples at the same moment are duplicates
merged AS (
    SELECT device_id, measure, at_ms, max(value) AS value FROM powered GROUP BY ALL
),
valued AS MATERIALIZED (
    SELECT *, lead(at_ms) OVER (PARTITION BY device_id, measure ORDER BY at_ms) AS next_ms FROM merged
),
wanted AS MATERIALIZED (
    SELECT s.device_id, s.hour, s.from_ms, s.to_ms, h.interval_ms, m.measure
    FROM sample_intervals AS s SEMI JOIN profiled_hours USING (device_id, hour)
    JOIN device_hours AS h USING (device_id, hour)
    JOIN (SELECT DISTINCT device_id, measure FROM profile_devices) AS m USING (device_id)
    WHERE s.idle_ms = 0 OR m.measure IN ('memory_used', 'power', 'energy', 'thermal_throttle', 'power_throttle')
),
-- the sample that is valid at the moment of the sample of activity, by the rule of 72_sample_intervals
matched AS (
    SELECT w.device_id, w.hour, w.from_ms, w.to_ms, w.measure, v.value
    FROM wanted AS w ASOF JOIN valued AS v ON v.device_id = w.device_id AND v.measure = w.measure AND v.at_ms <= w.from_ms
    WHERE v.value IS NOT NULL AND (v.next_ms - v.at_ms <= 2.5 * w.interval_ms OR w.from_ms < v.at_ms + w.interval_ms)
),
held AS (
    SELECT h.allocation_id, h.run_from_ms + h.later_ms AS from_ms, m.measure, m.value,
        h.weight * (least(m.to_ms, h.to_ms) - greatest(m.from_ms, h.from_ms)) AS gpu_ms
    FROM partial_hours AS h
    JOIN matched AS m ON m.device_id = h.device_id AND m.hour = h.hour AND m.from_ms < h.to_ms AND h.from_ms < m.to_ms
)
SELECT allocation_id, from_ms, measure, round(sum(gpu_ms), 6) AS measured_gpu_ms, round(sum(gpu_ms * value), 6) AS value_gpu_ms
FROM held
GROUP BY ALL;
