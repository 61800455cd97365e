-- reads: window_runs (registered: the runs of a window), touched (temporary)
-- writes: merged (temporary): the runs that replace the touched ones
-- invariant: while the window has samples only the window counts, in its silences the stored runs: an answer with less
-- data than an earlier one deletes nothing; runs of equal value are one if the silence between them is at most $silence
CREATE OR REPLACE TEMP TABLE merged AS
WITH silent AS (
    SELECT series_id, last_ms AS from_ms, lead(first_ms) OVER (PARTITION BY series_id ORDER BY first_ms) AS to_ms
    FROM window_runs
    QUALIFY to_ms - from_ms > $silence
), pieces AS (
    SELECT series_id, value, first_ms, last_ms FROM window_runs
    UNION ALL
    SELECT series_id, value, first_ms, least(last_ms, from_ms - 1) FROM touched WHERE first_ms < from_ms
    UNION ALL
    SELECT series_id, value, greatest(first_ms, to_ms + 1), last_ms FROM touched WHERE last_ms > to_ms
    UNION ALL
    SELECT t.series_id, t.value, greatest(t.first_ms, s.from_ms + 1), least(t.last_ms, s.to_ms - 1)
    FROM touched AS t JOIN silent AS s ON s.series_id = t.series_id AND t.first_ms < s.to_ms AND t.last_ms > s.from_ms
), marked AS (
    SELECT *,
           coalesce(value <> lag(value) OVER w OR first_ms - lag(last_ms) OVER w > $silence, true) AS begins
    FROM pieces
    WINDOW w AS (PARTITION BY series_id ORDER BY first_ms)
), numbered AS (
    SELECT *, count_if(begins) OVER (PARTITION BY series_id ORDER BY first_ms) AS run
    FROM marked
)
SELECT series_id, any_value(value) AS value, min(first_ms) AS first_ms, max(last_ms) AS last_ms
FROM numbered
GROUP BY series_id, run;
