-- reads: activity_devices, blocks
-- writes: activity_runs, one row per run of samples of a device that are alike idle or not: [from_ms, until_ms) is what it speaks for
-- invariant: a sample speaks until the next one, or for one interval where the next is over 2.5 away; runs lie within the pod's hold
CREATE OR REPLACE TEMP TABLE activity_runs AS
WITH heard AS (
    SELECT d.allocation_id, d.device, d.held_from_ms, d.held_to_ms, b.samples, b.step_ms, b.offsets_ms, b.vals, b.idle_threshold,
        b.hour::BIGINT * 3600000 AS hour_ms, hour_ms + b.first_offset_ms AS first_ms, hour_ms + b.last_offset_ms AS last_ms,
        b.last_value < b.idle_threshold AS ends_idle, b.idle_samples + ends_idle::INTEGER AS idle_samples,
        -- how it was scraped then, as attribution reads it
        coalesce(
            max(b.gap_ms) FILTER (b.samples >= 3) OVER (
                PARTITION BY d.allocation_id, d.device ORDER BY b.hour RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING),
            quantile_disc(b.gap_ms, 0.5) OVER (PARTITION BY d.allocation_id, d.device), 60000) AS interval_ms
    FROM activity_devices AS d JOIN blocks AS b USING (series_id)
    WHERE d.kind = 'activity' AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
),
-- most hours are all idle or all busy: their aggregates say so
sorted AS (
    SELECT *, first_ms >= held_from_ms AND last_ms < held_to_ms AND idle_samples IN (0, samples)
        AND (samples = 1 OR step_ms <= 2.5 * interval_ms) IS TRUE AS alike
    FROM heard
),
runs AS (
    SELECT allocation_id, device, held_to_ms, interval_ms, first_ms AS from_ms, last_ms, ends_idle AS idle FROM sorted WHERE alike
    UNION ALL
    SELECT allocation_id, device, held_to_ms, interval_ms, at_ms, at_ms, value < idle_threshold
    FROM (
        SELECT *, hour_ms + unnest(coalesce(offsets_ms,
            list_transform(range(samples), lambda i: (first_ms - hour_ms + i * coalesce(step_ms, 0))::INTEGER))) AS at_ms, unnest(vals) AS value
        FROM sorted WHERE NOT alike
    )
    WHERE at_ms >= held_from_ms AND at_ms < held_to_ms
),
linked AS (
    SELECT *, lead(from_ms) OVER (PARTITION BY allocation_id, device ORDER BY from_ms, last_ms) AS next_ms FROM runs
)
SELECT allocation_id, device, idle, from_ms,
    least(held_to_ms, CASE WHEN next_ms - last_ms <= 2.5 * interval_ms THEN next_ms ELSE last_ms + interval_ms END) AS until_ms
FROM linked;
