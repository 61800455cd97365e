-- reads: states, series, scrape_gaps; $from_ms, $to_ms bound the time; $clusters, $queues filter (empty: all)
-- writes: queue_runs, one row per run of equal values of a Kueue gauge: its object, and its time
-- invariant: runs of one series do not overlap; from_ms < to_ms
-- A value holds until the next sample, or for one scrape interval if the next is over 2.5 intervals away. `part` is the
-- dimension to sum over: a quota's flavor, the status of pending workloads.
CREATE OR REPLACE TEMP TABLE queue_runs AS
WITH gauges AS (
    SELECT s.series_id, s.cluster, coalesce(s.labels['exported_cluster_queue'], s.labels['cluster_queue']) AS cluster_queue,
        nullif(s.labels['cohort'], '') AS cohort, s.labels['resource'] AS resource,
        coalesce(s.labels['flavor'], s.labels['status'], '') AS part, s.metric,
        -- a follower may know less, or later, than the leader
        coalesce(s.labels['replica_role'], '') <> 'follower' AS leads,
        coalesce(g.gap_ms, 60000) AS interval_ms
    FROM series AS s
    LEFT JOIN (
        SELECT source, cluster, job, instance, quantile_disc(gap_ms, 0.5) AS gap_ms FROM scrape_gaps WHERE gap_ms > 0 GROUP BY ALL
    ) AS g ON g.source = s.source AND g.cluster = s.cluster
        AND g.job = coalesce(s.labels['job'], '') AND g.instance = coalesce(s.labels['instance'], '')
    WHERE s.metric IN ('kueue_pending_workloads', 'kueue_cluster_queue_nominal_quota', 'kueue_cluster_queue_borrowing_limit',
        'kueue_cluster_queue_resource_usage', 'kueue_cluster_queue_resource_reservation')
),
runs AS (
    SELECT g.*, t.value, t.first_ms, t.last_ms, lead(t.first_ms) OVER (PARTITION BY t.series_id ORDER BY t.first_ms) AS next_ms
    FROM states AS t JOIN gauges AS g USING (series_id)
),
held AS (
    SELECT * EXCLUDE (first_ms, last_ms, next_ms, interval_ms), greatest(first_ms, $from_ms) AS from_ms,
        least($to_ms, CASE WHEN next_ms - last_ms <= 2.5 * interval_ms THEN next_ms ELSE last_ms + interval_ms END) AS to_ms
    FROM runs
)
FROM held
WHERE from_ms < to_ms
    AND passes($clusters, cluster) AND passes($queues, cluster_queue);
