-- reads: coverage_gaps
-- writes: collected (stored), per cluster the time that counts as collected: what lies between what was not collected or off
-- invariant: intervals of one cluster neither touch nor overlap; bridged time is within
INSERT INTO collected BY NAME
WITH missed AS (
    SELECT cluster, from_ms, to_ms FROM coverage_gaps WHERE kind IN ('not_collected', 'off')
)
SELECT cluster, to_ms AS from_ms, lead(from_ms) OVER (PARTITION BY cluster ORDER BY from_ms) AS to_ms
FROM missed
QUALIFY lead(from_ms) OVER (PARTITION BY cluster ORDER BY from_ms) > to_ms;
