-- reads: loads, series, facts, device_series
-- writes: collected_time, per cluster the time that was collected: the loaded windows, from one scrape before the first sample on
-- invariant: intervals of one cluster neither touch nor overlap
CREATE OR REPLACE TEMP TABLE collected_time AS
WITH starts AS (
    -- activity alone tells nothing of who held a GPU: it counts only where nothing else was ever collected
    SELECT cluster, coalesce(min(start_ms) FILTER (is_state), min(start_ms)) AS start_ms
    FROM (
        SELECT cluster, begin_ms AS start_ms, true AS is_state FROM facts
        UNION ALL
        SELECT cluster, first_ms, false FROM device_series
    )
    GROUP BY cluster
),
begun AS (
    -- a window that a source answered with nothing, before its own first data, was not collected
    SELECT kind, source, min(from_ms) AS data_from_ms FROM loads WHERE rows + dropped > 0 GROUP BY ALL
),
windows AS (
    SELECT c.cluster, greatest(l.from_ms, starts.start_ms) AS from_ms, l.to_ms
    FROM loads AS l
    JOIN (SELECT DISTINCT source, cluster FROM series) AS c USING (source)
    JOIN starts USING (cluster)
    JOIN begun AS b ON b.kind = l.kind AND b.source = l.source AND b.data_from_ms <= l.from_ms
    -- work that was collected tells nothing of who held a GPU
    WHERE l.to_ms > starts.start_ms AND l.kind <> 'progress'
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
