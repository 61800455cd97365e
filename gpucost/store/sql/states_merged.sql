-- reads: window_runs (registered: the runs of a window), touched (temporary)
-- writes: merged (temporary): what stands in place of the touched runs
-- invariant: between a series' first and last sample of the window only the window counts; runs of equal value whose
--            silence is no longer than $silence are one
CREATE OR REPLACE TEMP TABLE merged AS
WITH pieces AS (
    SELECT series_id, value, first_ms, last_ms FROM window_runs
    UNION ALL
    SELECT series_id, value, first_ms, least(last_ms, from_ms - 1) FROM touched WHERE first_ms < from_ms
    UNION ALL
    SELECT series_id, value, greatest(first_ms, to_ms + 1), last_ms FROM touched WHERE last_ms > to_ms
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
