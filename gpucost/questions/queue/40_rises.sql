-- reads: states, queue_series, loads; $from_ms, $to_ms the period
-- writes: queue_rises, one row per (queue, counter, upper bound or reason): its increase in the period
-- invariant: a counter that falls restarted at 0; copies of one target's series count once, other replicas of a scheduler add up
CREATE OR REPLACE TEMP TABLE queue_rises AS
WITH known AS (
    SELECT queue.cluster, min(first_ms) AS known_ms FROM states JOIN queue_series USING (series_id) GROUP BY ALL
),
steps AS (
    SELECT c.*, t.first_ms, t.value, lag(t.value) OVER (PARTITION BY t.series_id ORDER BY t.first_ms) AS before
    FROM states AS t JOIN queue_series AS c USING (series_id)
    WHERE c.counter IS NOT NULL
),
rises AS (
    SELECT p.queue, p.counter, coalesce(p.labels['le'], p.labels['reason']) AS upper,
        p.labels['priority_class'] AS priority_class,
        p.labels['underlying_cause'] AS cause, coalesce(p.labels['pod'], p.labels['instance'], '') AS target,
            p.series_id,
        sum(CASE
            WHEN p.before IS NOT NULL THEN CASE WHEN p.value < p.before THEN p.value ELSE p.value - p.before END
            -- the scheduler was scraped before without this series, so it counted from 0
            WHEN k.known_ms <= p.first_ms - 600000 AND EXISTS (
                FROM loads AS l WHERE l.source = p.source AND l.from_ms <= p.first_ms - 600000
                    AND p.first_ms - 600000 < l.to_ms
                    -- earlier versions of gpucost did not collect these counters: only the same load is proof
                    AND (p.first_ms < l.to_ms OR p.counter <> 'evicted' AND p.queue.scheduler <> 'LocalQueue'))
                        THEN p.value
            ELSE 0
        END) AS rise
    FROM steps AS p JOIN known AS k ON k.cluster = p.queue.cluster
    WHERE p.first_ms >= $from_ms AND p.first_ms < $to_ms
    GROUP BY ALL
),
once AS (
    SELECT queue, counter, upper, priority_class, cause, target, max(rise) AS rise FROM rises GROUP BY ALL
)
SELECT queue, counter, upper, sum(rise) AS rise FROM once GROUP BY ALL;
