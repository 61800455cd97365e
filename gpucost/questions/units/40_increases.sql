-- reads: progress_series, progress_values, loads, unit_candidates, unit_processes; $units; $from_ms, $to_ms (earlier events are left out)
-- writes: unit_increases, the amount of work first counted at a moment, per series
-- invariant: work counted by several series of one identity counts once, and by process if processes share one name; amounts are never negative
CREATE OR REPLACE TEMP TABLE unit_increases AS
WITH changes AS (
    -- the value before a change is stored too: a copy that lags by a moment would count it again
    SELECT v.*
    FROM progress_values AS v JOIN progress_series AS s USING (series_id)
    WHERE v.at_ms < $to_ms
    QUALIFY s.kind <> 'counter' OR v.value IS DISTINCT FROM lag(v.value) OVER (PARTITION BY v.series_id ORDER BY v.at_ms)
),
points AS (
    SELECT s.identity AS counter, hash(s.identity, p.process) AS identity, s.kind, s.source, s.pod, v.series_id, v.at_ms, v.value
    FROM changes AS v JOIN progress_series AS s USING (series_id)
    LEFT JOIN unit_processes AS p ON p.series_id = v.series_id AND p.at_ms = v.at_ms
    WHERE list_contains($units::VARCHAR[], s.unit) AND s.kind <> 'gauge'
        AND (p.process IS NOT NULL OR s.identity NOT IN (SELECT identity FROM unit_processes))
        AND (s.kind = 'counter' OR v.at_ms >= $from_ms)
),
ordered AS (
    SELECT *,
        lag(value) OVER (PARTITION BY series_id, identity ORDER BY at_ms) AS own_before,
        lag(at_ms) OVER (PARTITION BY series_id, identity ORDER BY at_ms) AS own_before_ms,
        lag(value) OVER one AS before,
        lag(at_ms) OVER one AS before_ms
    FROM points
    WHERE kind = 'counter'
    WINDOW one AS (PARTITION BY identity ORDER BY at_ms, value, series_id)
),
falls AS (
    SELECT *,
        coalesce(value < before AND coalesce(value < own_before, at_ms - before_ms > 900000), false) AS falls
    FROM ordered
),
seen AS (
    SELECT *, max(CASE WHEN falls THEN at_ms END) OVER (
        PARTITION BY identity ORDER BY at_ms, value, series_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS fell_ms
    FROM falls
),
lives AS (
    -- a counter that falls restarted; a copy that lags behind another, or falls after it, adds nothing
    SELECT *, sum((falls AND NOT coalesce(fell_ms > own_before_ms, false))::INTEGER)
        OVER (PARTITION BY identity ORDER BY at_ms, value, series_id) AS life
    FROM seen
),
highs AS (
    SELECT *, max(value) OVER (PARTITION BY identity, life ORDER BY at_ms, value, series_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS high
    FROM lives
),
firsts AS (
    SELECT counter, arg_min(source, at_ms) AS source, arg_min(series_id, at_ms) AS series_id, min(at_ms) AS at_ms,
        any_value(pod) AS pod
    FROM points WHERE kind = 'counter' GROUP BY counter
),
born AS (
    -- the server was collected ten minutes before, and the pod, if any, had just started: the counter began at 0
    SELECT f.counter
    FROM firsts AS f
    WHERE EXISTS (
        FROM loads AS l WHERE l.kind = 'progress' AND l.source = f.source
            AND l.from_ms <= f.at_ms - 600000 AND f.at_ms - 600000 < l.to_ms)
      AND (f.pod IS NULL OR EXISTS (
        FROM unit_candidates AS c
        WHERE c.series_id = f.series_id AND c.held_from_ms BETWEEN f.at_ms - 3600000 AND f.at_ms + 900000))
)
SELECT h.series_id, h.at_ms,
    CASE WHEN h.high IS NOT NULL THEN greatest(h.value - h.high, 0)
        WHEN h.life > 0 OR b.counter IS NOT NULL THEN h.value ELSE 0 END AS amount
FROM highs AS h LEFT JOIN born AS b USING (counter)
UNION ALL
SELECT min(series_id), at_ms, max(value) FROM points WHERE kind = 'event' GROUP BY identity, at_ms;
