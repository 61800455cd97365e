-- reads: span, local_days, cuts
-- writes: cells, the span cut at every hour, local midnight and cut
-- invariant: cells cover the span without gap or overlap
CREATE OR REPLACE TEMP TABLE cells AS
WITH edges AS (
    SELECT unnest(range(from_ms // 3600000, to_ms // 3600000 + 1)) * 3600000 AS at_ms FROM span
    UNION SELECT from_ms FROM local_days
    UNION SELECT to_ms FROM local_days
    UNION SELECT at_ms FROM cuts
),
pairs AS (
    SELECT e.at_ms AS from_ms, lead(e.at_ms) OVER (ORDER BY e.at_ms) AS to_ms
    FROM edges AS e JOIN span AS s ON s.from_ms <= e.at_ms AND e.at_ms <= s.to_ms
)
SELECT from_ms, to_ms FROM pairs WHERE to_ms IS NOT NULL;
