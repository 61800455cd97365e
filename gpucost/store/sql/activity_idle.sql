-- reads: activity_devices, blocks, allocations; $at_least_ms
-- writes: nothing; returns rows (cluster, uid, from_ms, to_ms): intervals of at least $at_least_ms in which all devices of a pod were idle
-- invariant: a pod's intervals do not touch; a pod with an unmeasured device has none. A sample is valid until the next
-- one, or for one scrape interval if the next is over 2.5 intervals away; [from_ms, until_ms) is the validity of a run
-- of samples that are all idle or all active, cut to the pod's hold.
WITH heard AS (
    SELECT d.allocation_id, d.device, d.held_from_ms, d.held_to_ms, b.samples, b.step_ms, b.offsets_ms, b.vals, b.idle_threshold,
        b.hour::BIGINT * 3600000 AS hour_ms, hour_ms + b.first_offset_ms AS first_ms, hour_ms + b.last_offset_ms AS last_ms,
        b.last_value < b.idle_threshold AS ends_idle, b.idle_samples + ends_idle::INTEGER AS idle_samples,
        -- the scrape interval at that time, as in attribution
        coalesce(
            max(b.gap_ms) FILTER (b.samples >= 3) OVER (
                PARTITION BY d.allocation_id, d.device ORDER BY b.hour RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING),
            quantile_disc(b.gap_ms, 0.5) OVER (PARTITION BY d.allocation_id, d.device), 60000) AS interval_ms
    FROM activity_devices AS d JOIN blocks AS b USING (series_id)
    WHERE d.kind = 'activity' AND b.hour >= d.held_from_ms // 3600000 AND b.hour <= (d.held_to_ms - 1) // 3600000
),
-- most hours are all idle or all busy, as their aggregates show
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
),
speech AS MATERIALIZED (
    SELECT allocation_id, device, idle, from_ms,
        least(held_to_ms, CASE WHEN next_ms - last_ms <= 2.5 * interval_ms THEN next_ms ELSE last_ms + interval_ms END) AS until_ms
    FROM linked
),
pods AS (
    SELECT a.allocation_id, a.cluster, a.uid, count(DISTINCT r.device) AS devices
    FROM speech AS r JOIN allocations AS a USING (allocation_id)
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
