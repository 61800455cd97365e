-- reads: loads, series, facts, blocks
-- writes: collected_time, per cluster the time that was collected: the loaded windows, from one scrape before the first sample on
-- invariant: intervals of one cluster neither touch nor overlap
CREATE OR REPLACE TEMP TABLE collected_time AS
WITH firsts AS (
    SELECT cluster, min(first_ms) - max(end_ms - last_ms) AS start_ms FROM facts GROUP BY cluster
    UNION ALL
    SELECT s.cluster, min(b.hour::BIGINT * 3600000 + b.first_offset_ms) - 60000
    FROM blocks AS b JOIN series AS s USING (series_id)
    GROUP BY s.cluster
),
starts AS (
    SELECT cluster, min(start_ms) AS start_ms FROM firsts GROUP BY cluster
),
windows AS (
    SELECT c.cluster, greatest(l.from_ms, starts.start_ms) AS from_ms, l.to_ms
    FROM loads AS l
    JOIN (SELECT DISTINCT source, cluster FROM series) AS c USING (source)
    JOIN starts USING (cluster)
    WHERE l.to_ms > starts.start_ms
),
marked AS (
    SELECT *, coalesce(from_ms > max(to_ms) OVER (
        PARTITION BY cluster ORDER BY from_ms, to_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS begins
    FROM windows
),
parts AS (
    SELECT *, sum(begins::INTEGER) OVER (PARTITION BY cluster ORDER BY from_ms, to_ms) AS part FROM marked
)
SELECT cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms FROM parts GROUP BY cluster, part;
