-- reads: asked_hours, silences (temporary); $source, [$from_hour, $to_hour) the hours examined
-- writes: nothing; returns the queried hours that are incomplete: the interval, and whether it is settled
-- invariant: settled: answers an hour apart had equal counts of samples, and the first came after the end of the
-- silence
WITH asked AS (
    SELECT * FROM asked_hours WHERE source = $source AND hour >= $from_hour AND hour < $to_hour
),
found AS (
    SELECT a.hour, s.family, s.cluster, s.from_ms, s.to_ms, a.last_at, greatest(a.first_at, r.first_at) AS since
    FROM asked AS a
    JOIN silences AS s ON s.from_ms < (a.hour + 1)::BIGINT * 3600000 AND coalesce(s.to_ms > a.hour::BIGINT * 3600000, true)
    LEFT JOIN asked_hours AS r ON r.source = $source AND r.hour = s.to_ms // 3600000
    UNION ALL
    SELECT hour, 'partial', NULL, hour::BIGINT * 3600000, (hour + 1)::BIGINT * 3600000, last_at, first_at FROM asked WHERE is_partial
)
SELECT hour, family, cluster, min(from_ms) AS from_ms, max(to_ms) AS to_ms, bool_and(last_at - since >= INTERVAL 1 HOUR) AS is_settled
FROM found
GROUP BY hour, family, cluster
ORDER BY hour, family, cluster;
