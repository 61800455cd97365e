-- reads: progress_series, progress_values, loads, unit_candidates; $units are the units asked for, $is_passed_on: what gateways passed on, else what was done; $from_ms, $to_ms the period, before which events are left out, and counters of gateways but for the day before it
-- writes: unit_increases, per series and moment how much work came to be known then
-- invariant: what several series of one identity tell is counted once; no amount is negative
CREATE OR REPLACE TEMP TABLE unit_increases AS
WITH series AS (
    SELECT series_id, identity, kind, source, pod FROM progress_series
    WHERE list_contains($units::VARCHAR[], unit) AND (gateway IS NOT NULL) = $is_passed_on AND kind <> 'gauge'
),
begins AS (
    -- what gateways count goes on for years: a value a day before the period, by when copies agree, says where it stood
    SELECT s.identity, s.kind, s.source, s.pod, series_id, min(v.at_ms) AS first_ms,
        max(v.at_ms) FILTER ($is_passed_on AND v.at_ms < $from_ms - 86400000) AS read_from_ms
    FROM progress_values AS v JOIN series AS s USING (series_id)
    WHERE v.at_ms < $to_ms
    GROUP BY ALL
),
points AS (
    -- at the begin the copy that was looked at last knows: another may have ended before, or not have fallen yet
    SELECT b.* EXCLUDE (first_ms, read_from_ms), v.at_ms, v.value, coalesce(v.at_ms < b.known_ms, false) AS is_outdated
    FROM progress_values AS v JOIN (SELECT *, max(read_from_ms) OVER (PARTITION BY identity) AS known_ms FROM begins) AS b USING (series_id)
    WHERE v.at_ms < $to_ms AND v.at_ms >= CASE WHEN b.kind = 'counter' THEN coalesce(b.read_from_ms, b.first_ms) ELSE $from_ms END
),
ordered AS (
    SELECT *,
        lag(value) OVER (PARTITION BY series_id ORDER BY at_ms) AS own_before,
        lag(at_ms) OVER (PARTITION BY series_id ORDER BY at_ms) AS own_before_ms,
        lag(value) OVER one AS before,
        lag(at_ms) OVER one AS before_ms
    FROM points
    WHERE kind = 'counter'
    WINDOW one AS (PARTITION BY identity ORDER BY at_ms, value, series_id)
),
falls AS (
    SELECT *, coalesce(value < before AND coalesce(value < own_before, at_ms - before_ms > 900000), false) AS falls FROM ordered
),
seen AS (
    SELECT *, max(CASE WHEN falls THEN at_ms END) OVER (
        PARTITION BY identity ORDER BY at_ms, value, series_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS fell_ms
    FROM falls
),
lives AS (
    -- a counter that falls began anew; a copy of it that is a moment behind another, or falls after it did, tells nothing new
    SELECT *, sum((falls AND NOT coalesce(fell_ms > own_before_ms, false))::INTEGER)
        OVER (PARTITION BY identity ORDER BY at_ms, value, series_id) AS life
    FROM seen
),
highs AS (
    SELECT *, max(value) FILTER (NOT is_outdated) OVER (PARTITION BY identity, life ORDER BY at_ms, value, series_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS high
    FROM lives
),
firsts AS (
    SELECT identity, arg_min(source, first_ms) AS source, arg_min(series_id, first_ms) AS series_id, min(first_ms) AS at_ms, any_value(pod) AS pod
    FROM begins WHERE kind = 'counter' GROUP BY identity
),
born AS (
    -- the server had been looked at for ten minutes before, and the pod, where one is known, had just begun: it counted from 0
    SELECT f.identity
    FROM firsts AS f
    WHERE EXISTS (FROM loads AS l WHERE l.kind = 'progress' AND l.source = f.source AND l.from_ms <= f.at_ms - 600000 AND f.at_ms - 600000 < l.to_ms)
      AND (f.pod IS NULL OR EXISTS (
        FROM unit_candidates AS c WHERE c.series_id = f.series_id AND c.held_from_ms BETWEEN f.at_ms - 3600000 AND f.at_ms + 900000))
)
SELECT h.series_id, h.at_ms,
    CASE WHEN h.high IS NOT NULL THEN greatest(h.value - h.high, 0) WHEN h.life > 0 OR b.identity IS NOT NULL THEN h.value ELSE 0 END AS amount
FROM highs AS h LEFT JOIN born AS b USING (identity)
UNION ALL
SELECT min(series_id), at_ms, max(value) FROM points WHERE kind = 'event' GROUP BY identity, at_ms;
