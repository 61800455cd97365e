-- reads: activity_devices, blocks, allocations; $at_least_ms
-- writes: nothing; returns rows (cluster, uid, from_ms, to_ms): intervals of at least $at_least_ms in which all devices of a pod were idle
-- invariant: a pod's intervals do not touch; a pod with an unmeasured device has none. A sample is valid until the next
-- one, or for one scrape interval if the next is over 2.5 intervals away; [from_ms, until_ms) is the validity of a run
-- of samples that are all idle or all active, cut to the pod's hold.
WITH held AS (
    SELECT *, dense_rank() OVER (ORDER BY allocation_id, device) AS hold, count(*) OVER (PARTITION BY allocation_id, device) AS series
    FROM activity_devices WHERE kind = 'activity'
),
heard AS NOT MATERIALIZED (
    SELECT d.hold, d.allocation_id, d.held_from_ms, d.held_to_ms, series_id, b.hour, b.samples, b.step_ms, b.gap_ms,
        b.idle_samples + (b.last_value < b.idle_threshold)::INTEGER AS idle_samples, d.series,
        d.series * coalesce(b.idle_samples * b.step_ms, b.idle_ms, b.idle_samples * 3600000) AS most_idle_ms,
        b.hour::BIGINT * 3600000 AS hour_ms, hour_ms + b.first_offset_ms AS first_ms, hour_ms + b.last_offset_ms AS last_ms
    FROM held AS d JOIN blocks AS b USING (series_id)
    WHERE first_ms < d.held_to_ms AND d.held_from_ms <= last_ms
),
-- a long interval has an hour that is idle for half of it or more, in all series of the device together: aggregates show whether a
-- device or an hour can be part of one
devices AS MATERIALIZED (
    SELECT hold, allocation_id, coalesce(quantile_disc(gap_ms, 0.5), 60000) AS usual_ms, max(most_idle_ms) AS most_ms,
        least($at_least_ms, 3600000) / 2 - 5 * coalesce(max(gap_ms), 60000) AS needed_ms
    FROM heard
    GROUP BY ALL
),
timed AS (
    SELECT h.*,
        -- the scrape interval at that time, as in attribution
        coalesce(max(gap_ms) FILTER (samples >= 3) OVER near, usual_ms) AS interval_ms
    FROM heard AS h JOIN devices AS d USING (hold)
    WHERE d.most_ms >= d.needed_ms
    WINDOW near AS (PARTITION BY hold ORDER BY hour RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING)
    QUALIFY max(most_idle_ms) OVER near >= needed_ms
),
near AS (
    SELECT t.*, b.vals, b.offsets_ms, b.idle_threshold, first_ms >= held_from_ms AND last_ms < held_to_ms AS is_within
    -- lists are long: read only these, whichever side of the join DuckDB holds in memory
    FROM timed AS t JOIN (FROM blocks SEMI JOIN timed USING (series_id)) AS b USING (series_id, hour)
),
numbered AS (
    SELECT *, CASE WHEN is_within THEN range(1, samples + 1) ELSE list_filter(range(1, samples + 1), lambda i:
        coalesce(hour_ms + offsets_ms[i], first_ms + (i - 1) * coalesce(step_ms, 0)) BETWEEN held_from_ms AND held_to_ms - 1) END AS numbers
    FROM near
),
-- the numbers of the samples that begin a run; most hours are all idle or all busy, as their aggregates show
turns AS (
    SELECT * EXCLUDE (numbers), unnest(starts) AS i, unnest(list_append(starts[2:], numbers[-1] + 1)) AS next_i
    FROM (
        SELECT *, CASE WHEN is_within AND idle_samples IN (0, samples) AND (samples = 1 OR step_ms <= 2.5 * interval_ms) THEN [1]
            ELSE list_filter(numbers, lambda i: i = numbers[1] OR series > 1 OR (vals[i] < idle_threshold) <> (vals[i - 1] < idle_threshold)
                OR coalesce(offsets_ms[i] - offsets_ms[i - 1], step_ms) > 2.5 * interval_ms) END AS starts
        FROM numbered
    )
),
runs AS (
    SELECT hold, allocation_id, held_to_ms, interval_ms, vals[i] < idle_threshold AS idle,
        coalesce(hour_ms + offsets_ms[i], first_ms + (i - 1) * coalesce(step_ms, 0)) AS from_ms,
        coalesce(hour_ms + offsets_ms[next_i - 1], first_ms + (next_i - 2) * coalesce(step_ms, 0)) AS last_ms
    FROM turns
),
linked AS (
    SELECT *, lead(from_ms) OVER (PARTITION BY hold ORDER BY from_ms, last_ms) AS next_ms FROM runs
),
speech AS MATERIALIZED (
    SELECT allocation_id, idle, from_ms,
        least(held_to_ms, CASE WHEN next_ms - last_ms <= 2.5 * interval_ms THEN next_ms ELSE last_ms + interval_ms END) AS until_ms
    FROM linked
),
pods AS (
    SELECT a.allocation_id, a.cluster, a.uid, count(*) AS devices
    FROM devices JOIN allocations AS a USING (allocation_id)
    GROUP BY ALL
    HAVING devices >= any_value(CASE WHEN contains(a.resource, '_mig_') THEN a.units WHEN a.gpus >= 1 THEN ceil(a.gpus - 1e-6) ELSE 1 END)
),
events AS (
    SELECT allocation_id, at_ms, sum(step) AS step
    FROM (SELECT allocation_id, unnest([from_ms, until_ms]) AS at_ms, unnest([1, -1]) AS step FROM speech WHERE idle AND from_ms < until_ms)
    GROUP BY ALL
    HAVING sum(step) <> 0
),
depths AS (
    SELECT allocation_id, at_ms, sum(step) OVER w AS depth, lead(at_ms) OVER w AS next_ms
    FROM events WINDOW w AS (PARTITION BY allocation_id ORDER BY at_ms)
)
SELECT p.cluster, p.uid, d.at_ms AS from_ms, d.next_ms AS to_ms
FROM depths AS d JOIN pods AS p USING (allocation_id)
WHERE d.depth >= p.devices AND d.next_ms - d.at_ms >= $at_least_ms
ORDER BY ALL;
