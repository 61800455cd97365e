-- reads: device_hours
-- writes: hour_activity, one row per (device, whole hour) that its aggregates alone explain: time idle, time measured, activity x time
-- invariant: idle_ms <= measured_ms <= 3,600,000; a sample speaks until the next, or for one interval where the next is over 2.5 away
CREATE OR REPLACE TEMP TABLE hour_activity AS
WITH sample_validity AS (
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
        END AS after_last_ms
    FROM device_hours
    WHERE series = 1 AND (step_ms IS NOT NULL OR samples = 1)
)
SELECT device_id, hour,
    (CASE WHEN prev_value < idle_below THEN before_first_ms ELSE 0 END + idle_samples * each_ms
        + CASE WHEN last_value < idle_below THEN after_last_ms ELSE 0 END)::DOUBLE AS idle_ms,
    (before_first_ms + (samples - 1) * each_ms + after_last_ms)::DOUBLE AS measured_ms,
    (coalesce(prev_value, 0) * before_first_ms + (value_sum - last_value) * each_ms + last_value * after_last_ms) / full_scale AS utilization_ms
FROM sample_validity;
