-- reads: states, series, loads; $from_ms, $to_ms the period; $clusters, $queues filter (empty: all)
-- writes: nothing; answers how far each counter of the histogram of waits rose in the period: (cluster, queue, counter, upper bound)
-- invariant: a counter that falls began anew at 0; copies of one target's series count once, other replicas of Kueue add up
WITH counters AS (
    SELECT s.series_id, s.source, s.cluster, coalesce(s.labels['exported_cluster_queue'], s.labels['cluster_queue']) AS cluster_queue,
        replace(s.metric, 'kueue_admission_wait_time_seconds_', '') AS counter, s.labels['le'] AS upper,
        s.labels['priority_class'] AS priority_class,
        coalesce(s.labels['pod'], s.labels['instance'], '') AS target
    FROM series AS s
    WHERE s.metric IN ('kueue_admission_wait_time_seconds_sum', 'kueue_admission_wait_time_seconds_count', 'kueue_admission_wait_time_seconds_bucket')
),
known AS (
    SELECT s.cluster, min(t.first_ms) AS first_ms FROM states AS t JOIN series AS s USING (series_id) WHERE starts_with(s.metric, 'kueue_') GROUP BY ALL
),
steps AS (
    SELECT c.*, t.first_ms, t.value, lag(t.value) OVER (PARTITION BY t.series_id ORDER BY t.first_ms) AS before
    FROM states AS t JOIN counters AS c USING (series_id)
),
rises AS (
    SELECT p.cluster, p.cluster_queue, p.counter, p.upper, p.priority_class, p.target, p.series_id,
        sum(CASE
            WHEN p.before IS NOT NULL THEN CASE WHEN p.value < p.before THEN p.value ELSE p.value - p.before END
            -- Kueue was looked at before, and had no such series: it counted from 0
            WHEN k.first_ms <= p.first_ms - 600000 AND EXISTS (
                FROM loads AS l WHERE l.source = p.source AND l.from_ms <= p.first_ms - 600000 AND p.first_ms - 600000 < l.to_ms) THEN p.value
            ELSE 0
        END) AS rise
    FROM steps AS p JOIN known AS k USING (cluster)
    WHERE p.first_ms >= $from_ms AND p.first_ms < $to_ms
    GROUP BY ALL
),
once AS (
    SELECT cluster, cluster_queue, counter, upper, priority_class, target, max(rise) AS rise FROM rises GROUP BY ALL
)
SELECT cluster, cluster_queue, counter, upper, sum(rise) AS rise
FROM once
WHERE passes($clusters, cluster) AND passes($queues, cluster_queue)
GROUP BY ALL
ORDER BY ALL;
