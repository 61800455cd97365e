-- reads: window_runs (registered: the runs of a window), states
-- writes: touched (temporary): the stored runs that a window's samples meet or adjoin, with the span of those samples
-- invariant: a stored run is here once, or cannot change
CREATE OR REPLACE TEMP TABLE touched AS
WITH span AS (
    SELECT series_id, min(first_ms) AS from_ms, max(last_ms) AS to_ms
    FROM window_runs
    GROUP BY series_id
)
SELECT s.series_id, s.value, s.first_ms, s.last_ms, span.from_ms, span.to_ms
FROM states s
JOIN span USING (series_id)
WHERE s.last_ms >= span.from_ms - $silence AND s.first_ms <= span.to_ms + $silence;
