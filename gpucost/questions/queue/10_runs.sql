-- reads: states, queue_series, scrape_gaps; $from_ms, $to_ms bound the time
-- writes: queue_runs, one row per run of equal values of a gauge: its queue, and its time
-- invariant: runs of one series do not overlap; from_ms < to_ms
-- A value holds until the next sample, or for one scrape interval if the next is over 2.5 intervals away.
CREATE OR REPLACE TEMP TABLE queue_runs AS
WITH runs AS (
    -- KAI: -1 is unlimited
    SELECT s.*, nullif(t.value / s.divisor, -1) AS value, t.first_ms, t.last_ms,
        lead(t.first_ms) OVER (PARTITION BY t.series_id ORDER BY t.first_ms) AS next_ms, coalesce(g.gap_ms, 60000) AS interval_ms
    FROM queue_series AS s JOIN states AS t USING (series_id)
    LEFT JOIN (
        SELECT source, cluster, job, instance, quantile_disc(gap_ms, 0.5) AS gap_ms FROM scrape_gaps WHERE gap_ms > 0 GROUP BY ALL
    ) AS g ON g.source = s.source AND g.cluster = s.queue.cluster
        AND g.job = coalesce(s.labels['job'], '') AND g.instance = coalesce(s.labels['instance'], '')
    WHERE s.gauge IS NOT NULL
),
held AS (
    SELECT series_id, queue, cohort, resource, part, gauge, leads, value, greatest(first_ms, $from_ms) AS from_ms,
        least($to_ms, CASE WHEN next_ms - last_ms <= 2.5 * interval_ms THEN next_ms ELSE last_ms + interval_ms END) AS to_ms
    FROM runs
)
FROM held
WHERE from_ms < to_ms;
