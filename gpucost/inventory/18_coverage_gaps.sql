-- reads: missing_time, declared_off, accepted_gaps, asked_hours, series
-- writes: coverage_gaps (stored), what was not seen, what was bridged, what was meant to be off, and who signed it
-- invariant: 'not_collected', 'bridged' and 'off' of one cluster do not overlap; rows are cut where a declaration or an acceptance begins or ends
INSERT INTO coverage_gaps BY NAME
WITH edges AS (
    SELECT cluster, from_ms, unnest([from_ms, to_ms]) AS at_ms FROM missing_time
    UNION
    SELECT m.cluster, m.from_ms, unnest([greatest(o.from_ms, m.from_ms), least(o.to_ms, m.to_ms)])
    FROM missing_time AS m JOIN declared_off AS o ON o.cluster = m.cluster AND o.from_ms < m.to_ms AND m.from_ms < o.to_ms
    UNION
    SELECT m.cluster, m.from_ms, unnest([greatest(a.from_ms, m.from_ms), least(a.to_ms, m.to_ms)])
    FROM missing_time AS m
    JOIN accepted_gaps AS a ON coalesce(a.cluster, m.cluster) = m.cluster AND a.from_ms < m.to_ms AND m.from_ms < a.to_ms
),
pieces AS (
    SELECT cluster, from_ms AS stretch_ms, at_ms AS from_ms, lead(at_ms) OVER (PARTITION BY cluster, from_ms ORDER BY at_ms) AS to_ms FROM edges
),
decided AS (
    SELECT p.cluster, p.stretch_ms, p.from_ms, p.to_ms, m.families, m.reason, m.is_bridged,
        EXISTS (FROM declared_off AS o WHERE o.cluster = p.cluster AND o.from_ms <= p.from_ms AND p.to_ms <= o.to_ms) AS is_off,
        (SELECT arg_min((a.who, a.why), a.ordinal) FROM accepted_gaps AS a
            WHERE coalesce(a.cluster, p.cluster) = p.cluster AND a.from_ms <= p.from_ms AND p.to_ms <= a.to_ms) AS signed
    FROM pieces AS p JOIN missing_time AS m ON m.cluster = p.cluster AND m.from_ms = p.stretch_ms
    WHERE p.to_ms IS NOT NULL
),
touched AS (
    SELECT *, bool_or(is_off) OVER (PARTITION BY cluster, stretch_ms) AS touches_off FROM decided
),
kinds AS (
    SELECT *, CASE
        -- minutes before it goes off or after it comes on are no gap; nobody stands at the other end of longer ones
        WHEN is_off OR (touches_off AND to_ms - from_ms <= 600000) THEN 'off'
        WHEN is_bridged AND NOT touches_off THEN 'bridged'
        ELSE 'not_collected' END AS kind
    FROM touched
),
partial_hours AS (
    SELECT DISTINCT s.cluster, a.hour FROM asked_hours AS a JOIN (SELECT DISTINCT source, cluster FROM series) AS s USING (source) WHERE a.is_partial
),
partial_runs AS (
    SELECT cluster, hour, hour - row_number() OVER (PARTITION BY cluster ORDER BY hour) AS run FROM partial_hours
)
SELECT cluster, from_ms, to_ms, kind, families,
    CASE WHEN kind = 'off' THEN 'declared off in [[clusters]]' ELSE reason END AS reason,
    CASE WHEN kind = 'not_collected' THEN signed[1] END AS accepted_by,
    CASE WHEN kind = 'not_collected' THEN signed[2] END AS accepted_why
FROM kinds
UNION ALL
SELECT cluster, min(hour)::BIGINT * 3600000, (max(hour) + 1)::BIGINT * 3600000, 'partial', [], 'the server said that its answer is partial', NULL, NULL
FROM partial_runs
GROUP BY cluster, run;
