-- reads: progress_series, progress_values; $from_ms, $to_ms
-- writes: nothing; returns one row per counter of work whose levels alternate three times within ten values: its series with the most values, and these values
-- invariant: a fall is an alternation if the next value is back at the former level, unlike after a restart; one series per identity is returned
WITH changes AS (
    SELECT series_id, at_ms, value
    FROM progress_values SEMI JOIN (FROM progress_series WHERE kind = 'counter') USING (series_id)
    WHERE at_ms >= $from_ms AND at_ms < $to_ms
    QUALIFY value IS DISTINCT FROM lag(value) OVER (PARTITION BY series_id ORDER BY at_ms)
),
looked AS (
    SELECT *, row_number() OVER w AS number, lag(value) OVER w AS before, lead(value) OVER w AS after
    FROM changes
    WINDOW w AS (PARTITION BY series_id ORDER BY at_ms)
),
alternating AS (
    SELECT series_id FROM looked
    WHERE value < before AND before <= after AND (value > 0 OR before < after)
    QUALIFY number - lag(number, 2) OVER (PARTITION BY series_id ORDER BY number) < 10
)
SELECT s.identity, s.series_id, s.cluster, s.mapping || ' of ' || coalesce(s.namespace || '/' || s.pod, s.workload, s.labels['instance'], s.source) AS name,
    list(v.at_ms ORDER BY v.at_ms) AS at_ms, list(v.value ORDER BY v.at_ms) AS levels
FROM progress_series AS s JOIN looked AS v USING (series_id)
WHERE s.identity IN (SELECT identity FROM progress_series SEMI JOIN alternating USING (series_id))
GROUP BY s.identity, s.series_id, s.cluster, name
QUALIFY row_number() OVER (PARTITION BY s.identity ORDER BY count(*) DESC, s.series_id) = 1
ORDER BY name, s.series_id;
